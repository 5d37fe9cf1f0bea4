//! What the emulator does, for each direction.

use qanat_nic::link::Namespace;
use std::time::Duration;

/// Bands at most, per direction.
pub const BANDS_MAX: usize = 256;
/// The longest delay of a band.
pub const DELAY_MAX: Duration = Duration::from_secs(60);
/// Queues at most.
pub const QUEUES_MAX: u32 = 64;

/// Loss in bursts (Gilbert 1960, Elliott 1963): a path that is in a good or in a bad state, and may change it with every
/// packet. Chances are in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Good turns bad.
    pub enter_ppm: u32,
    /// Bad turns good: bursts are 1,000,000 ÷ `leave_ppm` packets long on average.
    pub leave_ppm: u32,
    /// A packet is lost in the bad state.
    pub loss_bad_ppm: u32,
    /// A packet is lost in the good state.
    pub loss_good_ppm: u32,
}

/// Bits per second on the wire, Ethernet header included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// How much may wait for the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Packets, the one being sent included.
    Packets(u32),
    /// Bytes, those of the packet being sent included.
    Bytes(u64),
}

/// What happens to the packets of one direction. Chances are in parts per million, thrown for each packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// One-way delays; each flow gets one of them, by a hash of its addresses and ports. Empty: no delay.
    pub bands: Vec<Duration>,
    /// Single losses.
    pub loss_ppm: u32,
    /// Losses in bursts.
    pub bursts: Option<Bursts>,
    /// Packets held back longer than their flow's others.
    pub reorder_ppm: u32,
    /// That much longer.
    pub reorder_by: Duration,
    /// Packets come twice.
    pub duplicate_ppm: u32,
    /// A bit changes, anywhere after the Ethernet header. ARP is spared: on a wire the frame check sequence would catch
    /// it, and nothing else can.
    pub corrupt_ppm: u32,
    /// The bottleneck's rate; `None`: no bottleneck.
    pub rate: Option<Rate>,
    /// The bottleneck's queue: what finds it full is lost.
    pub queue: QueueLimit,
}

impl Default for Impairments {
    /// A wire.
    fn default() -> Impairments {
        Impairments {
            bands: Vec::new(),
            loss_ppm: 0,
            bursts: None,
            reorder_ppm: 0,
            reorder_by: Duration::from_millis(1),
            duplicate_ppm: 0,
            corrupt_ppm: 0,
            rate: None,
            queue: QueueLimit::Packets(1_000),
        }
    }
}

/// One of the two interfaces.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub interface: String,
    /// Its namespace; `None`: the calling thread's.
    pub namespace: Option<Namespace>,
}

/// What an idle thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Sleeps when nothing is due for a while, wakes a little early, and spins the rest.
    #[default]
    Adaptive,
    /// Never sleeps: the least jitter, a core for each queue.
    Always,
    /// Sleeps until something is due: jitter of the kernel's timers and wake-ups.
    Never,
}

/// A whole emulator.
#[derive(Clone, Debug)]
pub struct DelayConfig {
    /// The two interfaces.
    pub ports: [Port; 2],
    /// From the first to the second interface.
    pub forward: Impairments,
    /// From the second to the first interface.
    pub backward: Impairments,
    /// Queues of each interface, one thread for each.
    pub queues: u32,
    /// Of all dice and of the flow hash.
    pub seed: u64,
    /// Frames held at most, per direction and queue: the product of rate and delay.
    pub held_frames_max: u32,
    /// What an idle thread does.
    pub spin: Spin,
}

impl DelayConfig {
    /// A wire between two interfaces of the calling thread's namespace: one queue, 16,384 frames held at most.
    pub fn new(first: &str, second: &str) -> DelayConfig {
        let port = |name: &str| Port { interface: name.to_owned(), namespace: None };
        DelayConfig {
            ports: [port(first), port(second)],
            forward: Impairments::default(),
            backward: Impairments::default(),
            queues: 1,
            seed: 1,
            held_frames_max: 16_384,
            spin: Spin::default(),
        }
    }

    /// Whether all numbers are in their ranges, and the wire has two ends.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let [first, second] = &self.ports;
        if first.interface == second.interface && first.namespace.is_none() && second.namespace.is_none() {
            return Err(ConfigError::OneInterface(first.interface.clone()));
        }
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return Err(ConfigError::Queues(self.queues));
        }
        if !(64..=1 << 20).contains(&self.held_frames_max) {
            return Err(ConfigError::HeldFrames(self.held_frames_max));
        }
        self.forward.check()?;
        self.backward.check()
    }
}

impl Impairments {
    fn check(&self) -> Result<(), ConfigError> {
        if self.bands.len() > BANDS_MAX {
            return Err(ConfigError::Bands(self.bands.len()));
        }
        if let Some(long) = self.bands.iter().chain([&self.reorder_by]).find(|delay| **delay > DELAY_MAX) {
            return Err(ConfigError::Delay(*long));
        }
        if matches!(self.queue, QueueLimit::Packets(0) | QueueLimit::Bytes(0)) {
            return Err(ConfigError::NoQueue);
        }
        if matches!(self.queue, QueueLimit::Packets(count) if count > 1 << 20) {
            return Err(ConfigError::LongQueue);
        }
        if self.rate == Some(Rate(0)) {
            return Err(ConfigError::NoRate);
        }
        let bursts = self.bursts.unwrap_or(Bursts { enter_ppm: 0, leave_ppm: 0, loss_bad_ppm: 0, loss_good_ppm: 0 });
        let chances = [
            self.loss_ppm,
            self.reorder_ppm,
            self.duplicate_ppm,
            self.corrupt_ppm,
            bursts.enter_ppm,
            bursts.leave_ppm,
            bursts.loss_bad_ppm,
            bursts.loss_good_ppm,
        ];
        match chances.iter().find(|chance| **chance > 1_000_000) {
            Some(chance) => Err(ConfigError::Chance(*chance)),
            None => Ok(()),
        }
    }
}

/// What is wrong with a configuration, and the range it has to be in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Both ends of the wire are the interface of this name.
    #[error("{0} twice: name two different interfaces")]
    OneInterface(String),
    /// There can't be so many queues.
    #[error("{0} queues: 1 to {QUEUES_MAX}")]
    Queues(u32),
    /// There can't be so many frames held.
    #[error("{0} frames held: 64 to 1048576")]
    HeldFrames(u32),
    /// There are so many delay bands.
    #[error("{0} delay bands: at most {BANDS_MAX}")]
    Bands(usize),
    /// A delay is that long.
    #[error("a delay of {0:?}: at most {DELAY_MAX:?}")]
    Delay(Duration),
    /// The bottleneck's queue holds nothing.
    #[error("a queue of 0 loses everything: name at least 1 packet")]
    NoQueue,
    /// The bottleneck's queue has more packets than can be counted out.
    #[error("a queue of more than 1048576 packets: name it in bytes")]
    LongQueue,
    /// The bottleneck has no rate.
    #[error("a rate of 0 lets nothing through: use --loss 100%")]
    NoRate,
    /// A chance is that many parts per million.
    #[error("a chance of {0} in a million: at most 100%")]
    Chance(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        let good = DelayConfig::new("a", "b");
        assert!(good.check().is_ok());
        assert!(DelayConfig { queues: 0, ..good.clone() }.check().is_err());
        assert!(DelayConfig { held_frames_max: 1, ..good.clone() }.check().is_err());
        for bad in [
            Impairments { bands: vec![Duration::ZERO; BANDS_MAX + 1], ..Impairments::default() },
            Impairments { bands: vec![Duration::from_secs(61)], ..Impairments::default() },
            Impairments { loss_ppm: 1_000_001, ..Impairments::default() },
            Impairments { queue: QueueLimit::Packets(0), ..Impairments::default() },
            Impairments { rate: Some(Rate(0)), ..Impairments::default() },
        ] {
            assert!(DelayConfig { backward: bad, ..good.clone() }.check().is_err());
        }
    }
}
