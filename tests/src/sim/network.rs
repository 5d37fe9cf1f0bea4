//! What is between two nodes.

use super::trace::Trace;
use crate::random::Random;
use qanat_nic::{
    Cutting, Fault, FaultRates, LinkConfig, ManualClock, MemoryPlan, Pair, PairConfig, PairPort, Pcap, Pool,
    SimulatedLink, Vnic, pair,
};
use std::time::Duration;

/// One end of the network: what a node's stack gets as its device.
pub type Device = Pcap<Cutting<Fault<SimulatedLink<Pair, ManualClock>, ManualClock>>, ManualClock, Trace>;

/// A network's properties; `[0]` is the direction out of the first node.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Largest layer-3 packet, bytes.
    pub mtu: u16,
    /// What happens to packets.
    pub faults: [FaultRates; 2],
    /// How long they take.
    pub links: [LinkConfig; 2],
    /// The nodes' frame memory.
    pub memory: [MemoryPlan; 2],
}

impl Default for Network {
    /// No faults, no delay, MTU 1500.
    fn default() -> Network {
        Network {
            mtu: 1500,
            faults: [FaultRates::default(); 2],
            links: [LinkConfig::default(); 2],
            memory: [MemoryPlan { receive_frames: 2048, transmit_frames: 2048, ..MemoryPlan::default() }; 2],
        }
    }
}

/// Frame pools of an end, to be looked at after the device is gone.
#[derive(Clone, Debug)]
pub struct Pools {
    /// Received frames.
    pub receive: Pool,
    /// Frames to send.
    pub transmit: Pool,
    /// Frames of prepared content.
    pub prepared: Pool,
}

impl Network {
    /// Any network TCP must get through: up to a few percent of every fault, any delay, MTU from 576 to 9000.
    pub fn any(random: &mut Random) -> Network {
        let mut network =
            Network { mtu: random.pick(&[576, 600, 1280, 1400, 1500, 1500, 1500, 9_000]), ..Network::default() };
        // Every fourth network is faultless: what goes wrong there goes wrong everywhere.
        let faulty = !random.one_in(4);
        for direction in 0..2 {
            if faulty {
                network.faults[direction] = any_faults(random);
            }
            network.links[direction] = any_link(random);
        }
        network
    }

    /// Opens both ends. With an even seed they take trains.
    ///
    /// # Panics
    /// When memory for frames can't be had.
    pub fn open(&self, seed: u64, clock: &ManualClock, traces: [Trace; 2]) -> [(Device, Pools); 2] {
        let slots = 1024;
        // A jumbo packet takes several frames.
        let transmit_buffers_max = if self.mtu > 1_500 { 8 } else { 1 };
        let config = PairConfig { mtu: self.mtu, slots, transmit_buffers_max, ..PairConfig::default() };
        let (first, second) = pair(config).expect("a pair");
        let [trace_first, trace_second] = traces;
        [self.end(0, first, seed, clock, trace_first), self.end(1, second, seed, clock, trace_second)]
    }

    fn end(&self, index: usize, port: PairPort, seed: u64, clock: &ManualClock, trace: Trace) -> (Device, Pools) {
        let open = port.open(self.memory[index]).expect("frame memory");
        let pools = Pools {
            receive: open.receive_pool().clone(),
            transmit: open.transmit_pool().clone(),
            prepared: open.prepared_pool().clone(),
        };
        let takes_trains = seed.is_multiple_of(2);
        let seed = seed.wrapping_mul(2).wrapping_add(index as u64);
        let link = SimulatedLink::new(open, clock.clone(), seed, self.links[index]).expect("link memory");
        let fault = Fault::new(link, clock.clone(), seed, self.faults[index], FaultRates::default());
        let mut cutting = Cutting::new(fault);
        cutting.is_on = takes_trains;
        (Pcap::with_epoch(cutting, clock.clone(), trace, 0).expect("a capture"), pools)
    }
}

/// Up to a few percent of everything.
pub fn any_faults(random: &mut Random) -> FaultRates {
    let loss_max = random.pick(&[0, 10_000, 50_000]);
    let other_max = random.pick(&[0, 10_000, 30_000]);
    FaultRates {
        loss_ppm: random.between(0, loss_max) as u32,
        burst_ppm: random.between(0, loss_max / 10) as u32,
        burst_packets_max: random.between(2, 8) as u32,
        duplicate_ppm: random.between(0, other_max) as u32,
        reorder_ppm: random.between(0, other_max * 2) as u32,
        reorder_packets_max: random.between(1, 12) as u32,
        delay_ppm: random.between(0, other_max) as u32,
        delay_max: Duration::from_micros(random.between(10, 100_000)),
        corrupt_ppm: random.between(0, other_max) as u32,
        truncate_ppm: random.between(0, other_max / 3) as u32,
    }
}

fn any_link(random: &mut Random) -> LinkConfig {
    let rate_bits = random.pick(&[0, 1_000_000, 20_000_000, 1_000_000_000]);
    LinkConfig {
        delay: Duration::from_micros(random.pick(&[0, 10, 200, 5_000, 40_000])),
        jitter: Duration::from_micros(random.pick(&[0, 0, 50, 3_000])),
        rate_bits,
        queue_bytes_max: random.pick(&[8_000, 30_000, 1_000_000]),
    }
}
