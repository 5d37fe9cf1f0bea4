//! One queue of both interfaces, and the thread that forwards between them.

use crate::config::{DelayConfig, Spin};
use crate::figures::{Lateness, Report};
use crate::lane::{Lane, LaneConfig, SharedBottleneck, Way};
use qanat_nic::{Clock, Frame, Time, Vnic};
use qanat_stack::Wheel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Frames received at once.
const BATCH: usize = 64;
/// Frames sent between two flushes at most.
const UNFLUSHED_MAX: usize = 1_024;
/// A tick of 2^10 ns ≈ 1 µs.
const TICK_SHIFT: u32 = 10;
/// Sleeping must end this long before something is due: waking takes up to 60 µs on a virtual machine.
const WAKE_EARLY: Duration = Duration::from_micros(80);
/// Spins this long after the last work before it sleeps: the next packet is often near.
const LINGER: Duration = Duration::from_micros(50);
/// Sleeps at most this long, to see the request to stop.
const SLEEP_MAX: Duration = Duration::from_millis(20);
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct Forwarder<V, C> {
    vnics: [V; 2],
    lanes: [Lane; 2],
    wheel: Wheel<u32>,
    /// Tokens from here on are the second lane's.
    second_token: u32,
    bucket_count: u32,
    clock: C,
    lateness: Lateness,
    frames: Vec<Frame>,
    dues: Vec<Time>,
}

impl<V: Vnic, C: Clock> Forwarder<V, C> {
    pub(crate) fn new(
        config: &DelayConfig,
        queue: u32,
        vnics: [V; 2],
        bottlenecks: [Option<SharedBottleneck>; 2],
        clock: C,
    ) -> Forwarder<V, C> {
        let second_token = Lane::bucket_count(&config.forward);
        let bucket_count = second_token + Lane::bucket_count(&config.backward);
        let [forward_bottleneck, backward_bottleneck] = bottlenecks;
        let [first, second] = &vnics;
        // Each lane has dice of its own; which flows share a band is the same for all.
        let dice_seed =
            |direction: u64| config.seed.wrapping_mul(0x1_0000).wrapping_add(u64::from(queue) * 2 + direction);
        let lane = |impairments, bottleneck, direction, first_token| LaneConfig {
            impairments,
            bottleneck,
            held_frames_max: config.held_frames_max,
            flow_seed: config.seed,
            dice_seed: dice_seed(direction),
            first_token,
        };
        let forward = lane(&config.forward, forward_bottleneck, 0, 0);
        let backward = lane(&config.backward, backward_bottleneck, 1, second_token);
        Forwarder {
            lanes: [Lane::new(forward, second), Lane::new(backward, first)],
            wheel: Wheel::new(bucket_count as usize, TICK_SHIFT, clock.now()),
            vnics,
            second_token,
            bucket_count,
            clock,
            lateness: Lateness::new(),
            frames: Vec::with_capacity(BATCH),
            dues: Vec::with_capacity(UNFLUSHED_MAX),
        }
    }

    /// Receives a batch from both sides, sends what is due; whether there was anything to do.
    pub(crate) fn turn(&mut self) -> bool {
        let received = self.receive(0) + self.receive(1);
        let now = self.clock.now();
        // Every bucket once at most: one that finds no room sets its timer to now again.
        for _ in 0..self.bucket_count {
            let Some(token) = self.wheel.pop_expired(now) else { break };
            self.release(token, now);
        }
        let sent = self.dues.len();
        if sent > 0 {
            self.vnics.iter_mut().for_each(Vnic::flush);
            let flushed_at = self.clock.now();
            for due in self.dues.drain(..) {
                self.lateness.record(flushed_at.since(due).as_nanos() as u64);
            }
        }
        received > 0 || sent > 0
    }

    fn receive(&mut self, direction: usize) -> usize {
        let [first, second] = &mut self.vnics;
        let (ingress, egress) = if direction == 0 { (first, second) } else { (second, first) };
        let count = ingress.receive(&mut self.frames, BATCH);
        if count == 0 {
            return 0;
        }
        // After all of them have come: none may be held for less than its delay.
        let now = self.clock.now();
        let mut way = Way { egress, wheel: &mut self.wheel, dues: &mut self.dues };
        if let Some(lane) = self.lanes.get_mut(direction) {
            for frame in self.frames.drain(..) {
                lane.admit(frame, now, &mut way);
            }
        }
        count
    }

    fn release(&mut self, token: u32, now: Time) {
        let ([first, second], [forward, backward]) = (&mut self.vnics, &mut self.lanes);
        let is_forward = token < self.second_token;
        let (lane, egress) = if is_forward { (forward, second) } else { (backward, first) };
        lane.release(token, now, &mut Way { egress, wheel: &mut self.wheel, dues: &mut self.dues });
    }

    /// When there is something to send next, if nothing comes.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    pub(crate) fn report(&self, report: &mut Report) {
        let [first, second] = [self.vnics[0].statistics(), self.vnics[1].statistics()];
        let [forward, backward] = [self.lanes[0].figures(), self.lanes[1].figures()];
        report.lanes = [forward.with_devices(&first, &second), backward.with_devices(&second, &first)];
        report.lateness.copy_from(&self.lateness);
    }

    /// Forwards until told to stop.
    pub(crate) fn run(&mut self, spin: Spin, stop: &AtomicBool, report: &Mutex<Report>) {
        let tell = |forwarder: &Self| forwarder.report(&mut report.lock().unwrap_or_else(PoisonError::into_inner));
        let mut busy_at = self.clock.now();
        let mut reported_at = busy_at;
        // Ends when told; sleeps are bounded.
        while !stop.load(Ordering::Relaxed) {
            let was_busy = self.turn();
            let now = self.clock.now();
            if was_busy {
                busy_at = now;
            }
            if now.since(reported_at) >= REPORT_INTERVAL {
                reported_at = now;
                tell(self);
            }
            if !was_busy {
                self.idle(spin, now, busy_at);
            }
        }
        tell(self);
    }

    fn idle(&self, spin: Spin, now: Time, busy_at: Time) {
        let until_due = self.next_deadline().map_or(SLEEP_MAX, |due| due.since(now)).min(SLEEP_MAX);
        let sleep = match spin {
            Spin::Always => None,
            Spin::Never => Some(until_due),
            Spin::Adaptive if now.since(busy_at) < LINGER => None,
            Spin::Adaptive => until_due.checked_sub(WAKE_EARLY).filter(|sleep| !sleep.is_zero()),
        };
        let Some(sleep) = sleep else {
            std::hint::spin_loop();
            return;
        };
        let [Some(first), Some(second)] = [self.vnics[0].doorbell(), self.vnics[1].doorbell()] else { return };
        let mut doorbells = [PollFd::new(&first, PollFlags::IN), PollFd::new(&second, PollFlags::IN)];
        let timeout = Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
        // A signal or an error just ends the sleep early.
        let _ = poll(&mut doorbells, Some(&timeout));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::Bottleneck;
    use crate::config::{Impairments, QueueLimit, Rate};
    use crate::figures::LaneFigures;
    use qanat_nic::{ManualClock, MemoryPlan, Pair, PairConfig, TransmitBuffer, TransmitOptions, pair};
    use std::sync::Arc;

    const PLAN: MemoryPlan =
        MemoryPlan { frame_size: 2048, receive_frames: 1024, transmit_frames: 1024, prepared_frames: 0 };

    /// Two ends, and a forwarder between them on a clock of the test's own.
    struct Bench {
        left: Pair,
        right: Pair,
        forwarder: Forwarder<Pair, ManualClock>,
        clock: ManualClock,
    }

    impl Bench {
        fn new(forward: Impairments) -> Bench {
            let clock = ManualClock::new();
            clock.advance(Duration::from_millis(1));
            let wire = || {
                let (near, far) = pair(PairConfig::default()).unwrap();
                (near.open(PLAN).unwrap(), far.open(PLAN).unwrap())
            };
            let ((left, first), (right, second)) = (wire(), wire());
            let link = |impairments: &Impairments| {
                impairments.rate.map(|rate| Arc::new(Mutex::new(Bottleneck::new(rate, impairments.queue))))
            };
            let bottlenecks = [link(&forward), None];
            let config = DelayConfig { forward, seed: 5, held_frames_max: 256, ..DelayConfig::new("", "") };
            let forwarder = Forwarder::new(&config, 0, [first, second], bottlenecks, clock.clone());
            Bench { left, right, forwarder, clock }
        }

        /// Sends a numbered frame of 100 bytes from the left.
        fn send(&mut self, flow: u8, number: u8) {
            let mut frame = self.left.transmit_pool().allocate(64).unwrap();
            let bytes = frame.append(100).unwrap();
            bytes.fill(0);
            // Not IP: a flow by its addresses.
            (bytes[5], bytes[11], bytes[12], bytes[20]) = (1, flow, 0x90, number);
            self.left.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
            self.left.flush();
            self.forwarder.turn();
        }

        /// What has come out on the right: flow, number.
        fn come(&mut self) -> Vec<(u8, u8)> {
            self.forwarder.turn();
            let mut frames = Vec::new();
            self.right.receive(&mut frames, 64);
            frames.iter().map(|frame| (frame.bytes()[11], frame.bytes()[20])).collect()
        }

        fn wait(&mut self, duration: Duration) -> Vec<(u8, u8)> {
            self.clock.advance(duration);
            self.come()
        }

        fn figures(&self) -> LaneFigures {
            self.forwarder.lanes[0].figures()
        }
    }

    #[test]
    fn a_wire_forwards_at_once_both_ways() {
        let mut bench = Bench::new(Impairments::default());
        bench.send(1, 7);
        assert_eq!(bench.come(), [(1, 7)]);
        let mut frame = bench.right.transmit_pool().allocate(64).unwrap();
        frame.append(60).unwrap().fill(9);
        bench.right.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
        bench.right.flush();
        bench.forwarder.turn();
        let mut frames = Vec::new();
        assert_eq!(bench.left.receive(&mut frames, 8), 1);
        assert_eq!(bench.forwarder.next_deadline(), None);
    }

    #[test]
    fn frames_are_held_for_their_band_and_in_order() {
        let ms = Duration::from_millis;
        let mut bench = Bench::new(Impairments { bands: vec![ms(10)], ..Impairments::default() });
        for number in 0..5 {
            bench.send(1, number);
            bench.clock.advance(ms(1));
        }
        assert_eq!(bench.figures().held, 5);
        assert!(bench.come().is_empty(), "5 ms after the first");
        assert!(bench.wait(ms(4)).is_empty(), "9 ms after it");
        // The wheel ends a tick of some 1 µs late at most.
        assert_eq!(bench.wait(ms(1) + Duration::from_micros(2)), [(1, 0)]);
        assert_eq!(bench.wait(ms(2)), [(1, 1), (1, 2)]);
        assert_eq!(bench.wait(ms(20)), [(1, 3), (1, 4)]);
        assert_eq!(
            bench.figures(),
            LaneFigures { received: 5, received_bytes: 500, sent: 5, sent_bytes: 500, ..LaneFigures::default() }
        );
    }

    #[test]
    fn bands_part_flows_and_late_frames_are_overtaken() {
        let ms = Duration::from_millis;
        let mut bench = Bench::new(Impairments { bands: vec![ms(10), ms(30)], ..Impairments::default() });
        for flow in 0..32 {
            bench.send(flow, 0);
        }
        let first = bench.wait(ms(11)).len();
        let second = bench.wait(ms(20)).len();
        assert!(first > 4 && second > 4 && first + second == 32, "{first} and {second}");

        let half =
            Impairments { bands: vec![ms(1)], reorder_ppm: 500_000, reorder_by: ms(5), ..Impairments::default() };
        let mut bench = Bench::new(half);
        (0..40).for_each(|number| bench.send(1, number));
        let (on_time, late) = (bench.wait(ms(2)), bench.wait(ms(5)));
        assert_eq!((on_time.len() + late.len(), late.len() as u64), (40, bench.figures().reordered));
        assert!(!on_time.is_empty() && !late.is_empty() && on_time.is_sorted() && late.is_sorted());
    }

    #[test]
    fn every_frame_is_counted_and_comes_home() {
        let bad = Impairments {
            bands: vec![Duration::from_millis(2), Duration::from_millis(3)],
            loss_ppm: 100_000,
            reorder_ppm: 100_000,
            duplicate_ppm: 100_000,
            corrupt_ppm: 100_000,
            rate: Some(Rate(100_000_000)),
            queue: QueueLimit::Packets(20),
            ..Impairments::default()
        };
        let mut bench = Bench::new(bad.clone());
        let mut count = 0;
        for number in 0..4_000u32 {
            bench.send(number as u8 % 4, 0);
            // 100 bytes take 8 µs at 100 Mbit/s: sometimes the queue fills.
            count += bench.wait(Duration::from_micros(if number % 1_000 < 200 { 1 } else { 12 })).len() as u64;
        }
        count += (0..20).map(|_| bench.wait(Duration::from_millis(1)).len() as u64).sum::<u64>();
        let figures = bench.figures();
        assert_eq!(count, figures.sent);
        assert_eq!(figures.sent, 4_000 - figures.lost + figures.duplicated - figures.queue_full, "{figures:?}");
        assert!(figures.lost > 300 && figures.duplicated > 300 && figures.corrupted > 300 && figures.queue_full > 100);
        assert_eq!((figures.held, figures.held_full, figures.copy_failed), (0, 0, 0));
        bench.forwarder.vnics.iter_mut().for_each(Vnic::flush);
        bench.come();
        assert_eq!(bench.forwarder.vnics[1].transmit_pool().in_use_count(), 0);
    }

    #[test]
    fn more_than_can_be_held_is_dropped_and_counted() {
        let mut bench = Bench::new(Impairments { bands: vec![Duration::from_secs(1)], ..Impairments::default() });
        for number in 0..300u32 {
            bench.send(1, number as u8);
        }
        let figures = bench.figures();
        assert_eq!((figures.held, figures.held_full), (256, 44));
    }
}
