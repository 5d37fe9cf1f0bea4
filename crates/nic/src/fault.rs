//! Middleware that does to packets what networks do: loses, repeats, reorders, delays, corrupts and cuts them, by a seed.
//!
//! Each direction has its own rates and its own dice, so that the same seed and the same packets give the same faults. It
//! acts on whole packets. Transmit checksum offload is hidden, or the device would make corrupted packets right again.

use crate::base::random::Random;
use crate::base::time::{Clock, Time};
use crate::memory::{Frame, Pool};
use crate::vnic::{Capabilities, TransmitBuffer, TransmitOptions, Vnic};
use std::collections::VecDeque;
use std::time::Duration;

/// Packets held back at once, per direction; beyond it packets pass unharmed by reordering and delay.
const HELD_MAX: usize = 1024;
const ETHERNET_HEADER: usize = 14;
/// Headroom of copies made here.
const COPY_HEADROOM: usize = 64;

/// How often what happens to a packet of one direction. Rates are in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Single losses.
    pub loss_ppm: u32,
    /// Bursts of loss begin.
    pub burst_ppm: u32,
    /// Packets a burst loses, at most (at least 1).
    pub burst_packets_max: u32,
    /// Packets come twice.
    pub duplicate_ppm: u32,
    /// Packets are held back until others have passed.
    pub reorder_ppm: u32,
    /// That many others, at most (at least 1).
    pub reorder_packets_max: u32,
    /// Packets are held back for a time.
    pub delay_ppm: u32,
    /// That long, at most.
    pub delay_max: Duration,
    /// A byte changes, anywhere after the Ethernet header. ARP is spared: it has no checksum to catch it.
    pub corrupt_ppm: u32,
    /// The packet is cut short somewhere after the Ethernet header.
    pub truncate_ppm: u32,
}

/// What happened to a direction's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets seen.
    pub packets: u64,
    /// Lost singly.
    pub lost: u64,
    /// Lost in bursts.
    pub burst_lost: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back past others.
    pub reordered: u64,
    /// Held back for a time.
    pub delayed: u64,
    /// With a byte changed.
    pub corrupted: u64,
    /// Cut short.
    pub truncated: u64,
    /// Duplications given up since no frame was free for the copy.
    pub copy_failed: u64,
}

/// A frame of either direction.
struct Piece {
    buffer: TransmitBuffer,
    options: TransmitOptions,
}

type Packet = Vec<Piece>;

enum Until {
    Packets(u32),
    Time(Time),
}

/// One direction: packets go in at `push` and come out of `ready`.
struct Lane {
    rates: FaultRates,
    random: Random,
    counters: FaultCounters,
    burst_left: u64,
    held: VecDeque<(Until, Packet)>,
    ready: VecDeque<Piece>,
}

impl Lane {
    fn new(rates: FaultRates, seed: u64) -> Lane {
        let (held, ready) = (VecDeque::new(), VecDeque::new());
        Lane { rates, random: Random::new(seed), counters: FaultCounters::default(), burst_left: 0, held, ready }
    }

    /// A packet comes. `copies` is where frames for copies are taken from.
    fn push(&mut self, mut packet: Packet, copies: &Pool, now: Time) {
        self.counters.packets += 1;
        // All dice are thrown for every packet: the fate of the next doesn't hang on the length of this.
        let rates = self.rates;
        let random = &mut self.random;
        let lose = random.chance(rates.loss_ppm);
        let burst = random.chance(rates.burst_ppm);
        let burst_length = 1 + random.below(u64::from(rates.burst_packets_max.max(1)));
        let duplicate = random.chance(rates.duplicate_ppm);
        let reorder = random.chance(rates.reorder_ppm);
        let reorder_distance = 1 + random.below(u64::from(rates.reorder_packets_max.max(1))) as u32;
        let delay = random.chance(rates.delay_ppm);
        let delay_nanos = random.below(u64::try_from(rates.delay_max.as_nanos()).unwrap_or(u64::MAX));
        let corrupt = random.chance(rates.corrupt_ppm);
        let truncate = random.chance(rates.truncate_ppm);
        let (place, change, cut) = (random.next(), 1 + random.below(255) as u8, random.next());

        if self.burst_left == 0 && burst {
            self.burst_left = burst_length;
        }
        if self.burst_left > 0 {
            self.burst_left -= 1;
            self.counters.burst_lost += 1;
            return self.passed();
        }
        if lose {
            self.counters.lost += 1;
            return self.passed();
        }
        if duplicate {
            match copy_packet(&packet, copies) {
                Some(copy) => {
                    self.counters.duplicated += 1;
                    self.ready.extend(copy);
                }
                None => self.counters.copy_failed += 1,
            }
        }
        if corrupt && change_byte(&mut packet, copies, place, change) {
            self.counters.corrupted += 1;
        }
        if truncate && cut_short(&mut packet, copies, cut) {
            self.counters.truncated += 1;
        }
        let may_hold = self.held.len() < HELD_MAX;
        if reorder && may_hold {
            self.counters.reordered += 1;
            // One more, as this packet counts itself in `passed`.
            self.held.push_back((Until::Packets(reorder_distance + 1), packet));
        } else if delay && may_hold {
            self.counters.delayed += 1;
            self.held.push_back((Until::Time(now + Duration::from_nanos(delay_nanos)), packet));
        } else {
            self.ready.extend(packet);
        }
        self.passed();
    }

    /// Counts a packet for those that wait for packets to pass.
    fn passed(&mut self) {
        for (until, _) in &mut self.held {
            if let Until::Packets(left) = until {
                *left = left.saturating_sub(1);
            }
        }
        self.release(|until| matches!(until, Until::Packets(0)));
    }

    fn release_due(&mut self, now: Time) {
        self.release(|until| matches!(until, Until::Time(time) if *time <= now));
    }

    fn release(&mut self, is_due: impl Fn(&Until) -> bool) {
        let mut index = 0;
        // Bounded: each turn removes one or moves on.
        while let Some((until, _)) = self.held.get(index) {
            if !is_due(until) {
                index += 1;
            } else if let Some((_, packet)) = self.held.remove(index) {
                self.ready.extend(packet);
            }
        }
    }

    fn next_release(&self) -> Option<Time> {
        let time = |until: &Until| match until {
            Until::Time(time) => Some(*time),
            Until::Packets(_) => None,
        };
        self.held.iter().filter_map(|(until, _)| time(until)).min()
    }
}

fn copy_frame(frame: &Frame, pool: &Pool) -> Option<Frame> {
    let mut copy = pool.allocate(COPY_HEADROOM.min(frame.capacity().saturating_sub(frame.len())))?;
    copy.append(frame.len())?.copy_from_slice(frame.bytes());
    copy.set_continues(frame.continues());
    Some(copy)
}

fn copy_packet(packet: &Packet, pool: &Pool) -> Option<Packet> {
    let copy = |piece: &Piece| {
        let frame = copy_frame(piece.buffer.frame(), pool)?;
        Some(Piece { buffer: TransmitBuffer::Owned(frame), options: piece.options })
    };
    packet.iter().map(copy).collect()
}

/// The frame, writable: a shared one is replaced by a copy.
fn own<'a>(piece: &'a mut Piece, pool: &Pool) -> Option<&'a mut Frame> {
    if let TransmitBuffer::Shared(shared) = &piece.buffer {
        piece.buffer = TransmitBuffer::Owned(copy_frame(shared, pool)?);
    }
    match &mut piece.buffer {
        TransmitBuffer::Owned(frame) => Some(frame),
        TransmitBuffer::Shared(_) => None,
    }
}

fn change_byte(packet: &mut Packet, pool: &Pool, place: u64, change: u8) -> bool {
    let length: usize = packet.iter().map(|piece| piece.buffer.frame().len()).sum();
    let is_arp = packet.first().is_some_and(|piece| piece.buffer.frame().bytes().get(12..14) == Some(&[8, 6]));
    if length <= ETHERNET_HEADER || is_arp {
        return false;
    }
    let mut offset = ETHERNET_HEADER + (place % (length - ETHERNET_HEADER) as u64) as usize;
    for piece in packet {
        let in_frame = piece.buffer.frame().len();
        if offset < in_frame {
            let byte = own(piece, pool).and_then(|frame| frame.bytes_mut().get_mut(offset));
            return byte.map(|byte| *byte ^= change).is_some();
        }
        offset -= in_frame;
    }
    false
}

fn cut_short(packet: &mut Packet, pool: &Pool, cut: u64) -> bool {
    let length = packet.first().map_or(0, |piece| piece.buffer.frame().len());
    if length <= ETHERNET_HEADER + 1 {
        return false;
    }
    packet.truncate(1);
    let Some(piece) = packet.first_mut() else { return false };
    let kept = ETHERNET_HEADER + 1 + (cut % (length - ETHERNET_HEADER - 1) as u64) as usize;
    let Some(frame) = own(piece, pool) else { return false };
    frame.truncate(kept);
    frame.set_continues(false);
    piece.options.continues = false;
    true
}

/// A [`Vnic`] over a faulty network.
pub struct Fault<V, C> {
    inner: V,
    clock: C,
    transmit: Lane,
    receive: Lane,
    /// The packet being handed over.
    building: Packet,
    scratch: Vec<Frame>,
}

impl<V: Vnic, C: Clock> Fault<V, C> {
    /// Puts faults on both directions of `inner`.
    pub fn new(inner: V, clock: C, seed: u64, transmit: FaultRates, receive: FaultRates) -> Self {
        Fault {
            inner,
            clock,
            transmit: Lane::new(transmit, seed),
            receive: Lane::new(receive, seed ^ 0x5265_6365_6976_6521),
            building: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// What happened to transmitted packets.
    pub fn transmit_counters(&self) -> FaultCounters {
        self.transmit.counters
    }

    /// What happened to received packets.
    pub fn receive_counters(&self) -> FaultCounters {
        self.receive.counters
    }

    /// Changes the rates from now on.
    pub fn set_rates(&mut self, transmit: FaultRates, receive: FaultRates) {
        (self.transmit.rates, self.receive.rates) = (transmit, receive);
    }

    /// When a delayed packet is due next. It moves at the next `flush` or `receive` after that.
    pub fn next_event_time(&self) -> Option<Time> {
        self.transmit.next_release().into_iter().chain(self.receive.next_release()).min()
    }

    /// The device below.
    pub fn inner(&self) -> &V {
        &self.inner
    }

    /// The device below.
    pub fn inner_mut(&mut self) -> &mut V {
        &mut self.inner
    }

    /// Hands what is ready to the device, whole packets only.
    fn forward(&mut self) {
        while !self.transmit.ready.is_empty() {
            let last = self.transmit.ready.iter().position(|piece| !piece.options.continues);
            let Some(last) = last else { return };
            if self.inner.transmit_room() <= last {
                return;
            }
            for piece in self.transmit.ready.drain(..=last) {
                // It has just said there is room; a device that breaks its word loses the frame.
                drop(self.inner.transmit(piece.buffer, piece.options));
            }
        }
    }
}

impl<V: Vnic, C: Clock> Vnic for Fault<V, C> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { transmit_checksum: false, ..self.inner.capabilities() }
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        let now = self.clock.now();
        self.receive.release_due(now);
        if self.receive.ready.len() < frames_max {
            self.inner.receive(&mut self.scratch, frames_max - self.receive.ready.len());
            let mut packet = Packet::new();
            for frame in self.scratch.drain(..) {
                let continues = frame.continues();
                let options = TransmitOptions { continues, checksum: None };
                packet.push(Piece { buffer: TransmitBuffer::Owned(frame), options });
                if !continues {
                    self.receive.push(std::mem::take(&mut packet), self.inner.transmit_pool(), now);
                }
            }
        }
        let mut taken = 0;
        while let Some(last) = self.receive.ready.iter().position(|piece| !piece.options.continues)
            && taken + last < frames_max
        {
            taken += last + 1;
            for piece in self.receive.ready.drain(..=last) {
                if let TransmitBuffer::Owned(frame) = piece.buffer {
                    frames.push(frame);
                }
            }
        }
        taken
    }

    fn transmit_room(&mut self) -> usize {
        let queued = self.transmit.ready.len() + self.building.len();
        self.inner.transmit_room().saturating_sub(queued)
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        if self.transmit_room() == 0 {
            return Err(buffer);
        }
        self.building.push(Piece { buffer, options });
        if !options.continues {
            let packet = std::mem::take(&mut self.building);
            self.transmit.push(packet, self.inner.transmit_pool(), self.clock.now());
            self.forward();
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.transmit.release_due(self.clock.now());
        self.forward();
        self.inner.flush();
    }

    crate::vnic::leave_to_inner!(inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, MemoryPlan, Pair, PairConfig, pair};

    const RATES: FaultRates = FaultRates {
        loss_ppm: 20_000,
        burst_ppm: 5_000,
        burst_packets_max: 4,
        duplicate_ppm: 20_000,
        reorder_ppm: 30_000,
        reorder_packets_max: 5,
        delay_ppm: 20_000,
        delay_max: Duration::from_micros(50),
        corrupt_ppm: 20_000,
        truncate_ppm: 10_000,
    };

    fn send(nic: &mut impl Vnic, number: u32) {
        let mut frame = nic.transmit_pool().allocate(0).unwrap();
        let bytes = frame.append(60).unwrap();
        bytes.fill(0x55);
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
        nic.flush();
    }

    /// Sends `count` packets; what arrives.
    fn run(seed: u64, count: u32, transmit: FaultRates, receive: FaultRates) -> (Vec<Vec<u8>>, FaultCounters) {
        let (a, b) = pair(PairConfig::default()).unwrap();
        let clock = ManualClock::new();
        let plan = MemoryPlan { receive_frames: 256, transmit_frames: 256, ..MemoryPlan::default() };
        let mut a = Fault::new(a.open(plan).unwrap(), clock.clone(), seed, transmit, FaultRates::default());
        let b: Pair = b.open(plan).unwrap();
        let mut b = Fault::new(b, clock.clone(), seed, FaultRates::default(), receive);
        let (mut frames, mut arrived) = (Vec::new(), Vec::new());
        for number in 0..count + 64 {
            if number < count {
                send(&mut a, number);
            } else {
                // Let the held ones out.
                a.set_rates(FaultRates::default(), FaultRates::default());
                b.set_rates(FaultRates::default(), FaultRates::default());
                send(&mut a, number);
            }
            clock.advance(Duration::from_micros(1));
            a.flush();
            b.receive(&mut frames, 32);
            arrived.extend(frames.drain(..).map(|frame| frame.bytes().to_vec()));
        }
        assert_eq!((a.next_event_time(), b.next_event_time()), (None, None));
        assert_eq!(a.transmit_pool().in_use_count() + b.inner().receive_pool().in_use_count(), 0);
        assert_eq!(b.transmit_pool().in_use_count(), 0, "copies of received packets come home too");
        let counters = if transmit == FaultRates::default() { b.receive_counters() } else { a.transmit_counters() };
        (arrived, counters)
    }

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        for (transmit, receive) in [(RATES, FaultRates::default()), (FaultRates::default(), RATES)] {
            let first = run(7, 5000, transmit, receive);
            assert_eq!(first, run(7, 5000, transmit, receive));
            assert_ne!(first.0, run(8, 5000, transmit, receive).0);
            let counters = first.1;
            let all = [counters.lost, counters.burst_lost, counters.duplicated, counters.reordered];
            let rest = [counters.delayed, counters.corrupted, counters.truncated];
            assert!(all.iter().chain(&rest).all(|count| *count > 20), "{counters:?}");
            let lost = counters.lost + counters.burst_lost;
            assert_eq!(first.0.len() as u64, counters.packets - lost + counters.duplicated);
            assert_eq!(counters.copy_failed, 0);
        }
    }

    #[test]
    fn no_rates_no_faults() {
        let (arrived, counters) = run(1, 500, FaultRates::default(), FaultRates::default());
        assert!(arrived.iter().enumerate().all(|(number, bytes)| bytes[..4] == (number as u32).to_be_bytes()));
        assert_eq!(counters, FaultCounters { packets: 564, ..FaultCounters::default() });
    }

    #[test]
    fn shared_frames_are_not_written() {
        let (a, _b) = pair(PairConfig::default()).unwrap();
        let rates = FaultRates { corrupt_ppm: 1_000_000, truncate_ppm: 1_000_000, ..FaultRates::default() };
        let plan = MemoryPlan { prepared_frames: 1, ..MemoryPlan::default() };
        let mut a = Fault::new(a.open(plan).unwrap(), ManualClock::new(), 1, rates, FaultRates::default());
        let mut frame = a.prepared_pool().allocate(0).unwrap();
        frame.append(60).unwrap().fill(0x55);
        let shared = std::rc::Rc::new(frame);
        for _ in 0..100 {
            a.transmit(TransmitBuffer::Shared(shared.clone()), TransmitOptions::default()).unwrap();
        }
        assert_eq!(a.transmit_counters().corrupted, 100);
        assert_eq!(shared.bytes(), [0x55; 60]);
    }
}
