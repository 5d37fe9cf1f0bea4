//! Middleware that puts a link of given delay, jitter and rate behind a device, on any clock.
//!
//! ```text
//!   transmit → [ bounded queue → rate ] → [ delay + jitter ] → the device below, at `deliver`
//! ```
//!
//! It acts on what an end transmits; wrap both ends for both directions. The link keeps packets in memory of its own: as
//! on a wire, the sender's frame is free as soon as it is accepted. With a [`ManualClock`](crate::ManualClock), a
//! simulator repeats: advance the clock to the earliest [`next_event_time`](SimulatedLink::next_event_time) and deadline,
//! call [`deliver`](SimulatedLink::deliver) on every end, then poll every stack until nothing moves.

use crate::base::random::Random;
use crate::base::time::{Clock, Time};
use crate::memory::{Frame, Pool, Region};
use crate::vnic::{Capabilities, TransmitBuffer, TransmitOptions, Vnic};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Packets on the link at once; more are dropped and counted.
const PACKETS_MAX: usize = 65_536;
/// Frames of the link's own, used one packet at a time.
const OWN_FRAMES: u32 = 64;
const OWN_FRAME_SIZE: u32 = 4096;
const HEADROOM: usize = 64;
/// What is always accepted.
const ROOM: usize = 1024;

/// A link's properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// One-way delay.
    pub delay: Duration,
    /// More delay, from zero up to this, drawn for each packet. Order is kept.
    pub jitter: Duration,
    /// Bits per second; 0: no limit.
    pub rate_bits: u64,
    /// Bytes that may wait for the limited link; a packet that finds more is dropped. 0: no limit.
    pub queue_bytes_max: u64,
}

/// What happened on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that entered.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets dropped because the queue was full.
    pub queue_dropped: u64,
    /// Most bytes that ever waited.
    pub queue_bytes_peak: u64,
    /// Packets handed to the device below.
    pub delivered: u64,
}

struct Packet {
    arrives: Time,
    bytes: Vec<u8>,
    /// As the sender gave them for the packet's first frame.
    options: TransmitOptions,
}

/// A [`Vnic`] behind a simulated link.
pub struct SimulatedLink<V, C> {
    inner: V,
    clock: C,
    config: LinkConfig,
    random: Random,
    own: Pool,
    line: VecDeque<Packet>,
    /// Emptied byte buffers, to be used again.
    spare: Vec<Vec<u8>>,
    building: Option<Packet>,
    /// When the last packet has left the queue.
    busy_until: Time,
    last_arrival: Time,
    counters: LinkCounters,
}

impl<V: Vnic, C: Clock> SimulatedLink<V, C> {
    /// Puts a link behind `inner`.
    ///
    /// # Errors
    /// What mapping the link's own frames says.
    pub fn new(inner: V, clock: C, seed: u64, config: LinkConfig) -> io::Result<Self> {
        let own = Region::new(OWN_FRAMES, OWN_FRAME_SIZE)?.pool(OWN_FRAMES);
        Ok(SimulatedLink {
            inner,
            clock,
            config,
            random: Random::new(seed),
            own: own.ok_or_else(|| io::Error::other("region smaller than its plan"))?,
            line: VecDeque::new(),
            spare: Vec::new(),
            building: None,
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            counters: LinkCounters::default(),
        })
    }

    /// When the next packet arrives. It moves at `deliver`, `flush` or `receive` from then on.
    pub fn next_event_time(&self) -> Option<Time> {
        self.line.front().map(|packet| packet.arrives)
    }

    /// Hands packets that have arrived to the device below, and flushes it.
    pub fn deliver(&mut self) {
        let now = self.clock.now();
        let mut delivered = false;
        while let Some(packet) = self.line.front()
            && packet.arrives <= now
        {
            let frames = packet.bytes.len().div_ceil(OWN_FRAME_SIZE as usize - HEADROOM).max(1);
            if self.inner.transmit_room() < frames || (self.own.free_count() as usize) < frames {
                break;
            }
            let Some(packet) = self.line.pop_front() else { break };
            self.send(&packet);
            self.spare.push(packet.bytes);
            self.counters.delivered += 1;
            delivered = true;
        }
        if delivered {
            self.inner.flush();
        }
    }

    fn send(&mut self, packet: &Packet) {
        let frame_bytes_max = self.frame_bytes_max();
        let mut pieces = packet.bytes.chunks(frame_bytes_max).peekable();
        let mut checksum = packet.options.checksum;
        while let Some(piece) = pieces.next() {
            let Some(mut frame) = self.own.allocate(HEADROOM) else { return };
            if let Some(target) = frame.append(piece.len()) {
                target.copy_from_slice(piece);
            }
            let options = TransmitOptions { continues: pieces.peek().is_some(), checksum: checksum.take() };
            // Room was checked.
            drop(self.inner.transmit(TransmitBuffer::Owned(frame), options));
        }
    }

    fn frame_bytes_max(&self) -> usize {
        // A device without scatter-gather gets whole packets; they fit its frames, so they fit these if those do.
        OWN_FRAME_SIZE as usize - HEADROOM
    }

    /// What happened on the link.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Changes the link from now on (packets on it are not touched).
    pub fn set_config(&mut self, config: LinkConfig) {
        self.config = config;
    }

    /// The device below.
    pub fn inner(&self) -> &V {
        &self.inner
    }

    /// The device below.
    pub fn inner_mut(&mut self) -> &mut V {
        &mut self.inner
    }

    /// Bytes waiting for the limited link at `now`.
    fn queued_bytes(&self, now: Time) -> u64 {
        let nanos = self.busy_until.since(now).as_nanos();
        u64::try_from(nanos * u128::from(self.config.rate_bits) / 8_000_000_000).unwrap_or(u64::MAX)
    }

    /// A whole packet enters the link.
    fn enter(&mut self, mut packet: Packet) {
        let now = self.clock.now();
        let length = packet.bytes.len() as u64;
        self.counters.packets += 1;
        self.counters.bytes += length;
        let jitter_nanos = self.random.below(u64::try_from(self.config.jitter.as_nanos()).unwrap_or(u64::MAX));
        let mut leaves = now;
        if self.config.rate_bits > 0 {
            let queued = self.queued_bytes(now);
            let is_full = self.config.queue_bytes_max > 0 && queued + length > self.config.queue_bytes_max;
            if is_full || self.line.len() >= PACKETS_MAX {
                self.counters.queue_dropped += 1;
                self.spare.push(packet.bytes);
                return;
            }
            self.counters.queue_bytes_peak = self.counters.queue_bytes_peak.max(queued + length);
            let nanos = u128::from(length) * 8_000_000_000 / u128::from(self.config.rate_bits);
            leaves = self.busy_until.max(now) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.busy_until = leaves;
        } else if self.line.len() >= PACKETS_MAX {
            self.counters.queue_dropped += 1;
            self.spare.push(packet.bytes);
            return;
        }
        let arrives = leaves + self.config.delay + Duration::from_nanos(jitter_nanos);
        self.last_arrival = self.last_arrival.max(arrives);
        packet.arrives = self.last_arrival;
        self.line.push_back(packet);
    }
}

impl<V: Vnic, C: Clock> Vnic for SimulatedLink<V, C> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        self.deliver();
        self.inner.receive(frames, frames_max)
    }

    fn transmit_room(&mut self) -> usize {
        // The link's queue never pushes back: it drops.
        ROOM
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        let mut packet = self.building.take().unwrap_or_else(|| {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            Packet { arrives: Time::ZERO, bytes, options }
        });
        packet.bytes.extend_from_slice(buffer.frame().bytes());
        if options.continues {
            self.building = Some(packet);
        } else {
            self.enter(packet);
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.deliver();
        self.inner.flush();
    }

    crate::vnic::leave_to_inner!(inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, MemoryPlan, Pair, PairConfig, pair};

    fn link(config: LinkConfig) -> (SimulatedLink<Pair, ManualClock>, Pair, ManualClock) {
        let (a, b) = pair(PairConfig::default()).unwrap();
        let clock = ManualClock::new();
        let plan = MemoryPlan { receive_frames: 64, transmit_frames: 64, ..MemoryPlan::default() };
        let a = SimulatedLink::new(a.open(plan).unwrap(), clock.clone(), 3, config).unwrap();
        (a, b.open(plan).unwrap(), clock)
    }

    fn send(nic: &mut impl Vnic, length: usize) {
        let mut frame = nic.transmit_pool().allocate(0).unwrap();
        frame.append(length).unwrap().fill(1);
        nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
        nic.flush();
    }

    #[test]
    fn rate_and_delay_add_up_and_the_queue_is_bounded() {
        // 1000 bytes at 8 Mbit/s take 1 ms.
        let config = LinkConfig {
            delay: Duration::from_millis(10),
            rate_bits: 8_000_000,
            queue_bytes_max: 3000,
            ..LinkConfig::default()
        };
        let (mut a, mut b, clock) = link(config);
        for _ in 0..5 {
            send(&mut a, 1000);
        }
        assert_eq!(a.counters().queue_dropped, 2);
        assert_eq!(a.transmit_pool().in_use_count(), 0, "the link has its own memory");
        let mut frames = Vec::new();
        for arrival_ms in [11, 12, 13] {
            assert_eq!(a.next_event_time(), Some(Time::from_millis(arrival_ms)));
            assert_eq!(b.receive(&mut frames, 8), 0);
            clock.advance_to(Time::from_millis(arrival_ms));
            a.deliver();
            assert_eq!(b.receive(&mut frames, 8), 1);
        }
        assert_eq!(a.next_event_time(), None);
        assert_eq!(a.counters().delivered, 3);
    }

    #[test]
    fn jitter_keeps_order_and_repeats() {
        let config = LinkConfig { jitter: Duration::from_millis(1), ..LinkConfig::default() };
        let arrivals = |_: ()| {
            let (mut a, mut b, clock) = link(config);
            let mut times = Vec::new();
            for length in 1..=50 {
                send(&mut a, length);
            }
            let mut frames = Vec::new();
            while let Some(time) = a.next_event_time() {
                clock.advance_to(time);
                a.deliver();
                b.receive(&mut frames, 64);
                times.push(time);
            }
            assert!(frames.iter().enumerate().all(|(index, frame)| frame.len() == index + 1));
            assert_eq!(frames.len(), 50);
            times
        };
        assert_eq!(arrivals(()), arrivals(()));
    }
}
