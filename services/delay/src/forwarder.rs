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
        let now = self.clock.now();
        let mut received = 0;
        for direction in 0..2 {
            received += self.receive(direction, now);
        }
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

    fn receive(&mut self, direction: usize, now: Time) -> usize {
        let [first, second] = &mut self.vnics;
        let (ingress, egress) = if direction == 0 { (first, second) } else { (second, first) };
        let count = ingress.receive(&mut self.frames, BATCH);
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
