//! What is on its way. A packet carries the number of its slot and how often that slot was used; what comes back with
//! another use count is late or foreign.

use super::pace::Pace;
use super::trips::{RoundTrips, TripFigures};
use crate::load::figures::{LatencyHistogram, OpenLoop};
use crate::load::schedule::Schedule;
use crate::machine::MachineSample;
use qanat::Time;
use std::time::Duration;

/// Open loop: packets that may wait to be sent.
const BACKLOG_MAX: usize = 100_000;
/// How long traffic that is not ready is waited for, after the warm-up.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// The mark a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The slot.
    pub slot: u32,
    /// Its uses so far.
    pub uses: u32,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    uses: u32,
    waits: bool,
    since: Time,
    sent: Time,
}

/// Where a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Going on.
    Going,
    /// Counting begins now.
    Begun,
    /// Over.
    Over,
}

/// The phases and counts of a run.
pub struct Window {
    slots: Vec<Slot>,
    free: Vec<u32>,
    histogram: LatencyHistogram,
    schedule: Option<Schedule>,
    rate_per_s: f64,
    timeout: Duration,
    swept: Time,
    window_start: Time,
    window_end: Time,
    counting: bool,
    sent: u64,
    received: u64,
    lost: u64,
    strange: u64,
    duration: Duration,
    watch: Option<u32>,
    before: Option<MachineSample>,
    observed: (Time, u64),
}

impl Window {
    /// A run that begins now.
    pub fn new(options: &Pace, now: Time) -> Window {
        let window = options.window as u32;
        Window {
            slots: vec![Slot::default(); options.window],
            free: (0..window).rev().collect(),
            histogram: LatencyHistogram::new(),
            schedule: options.rate_per_s.and_then(|rate| Schedule::new(now, rate, BACKLOG_MAX)),
            rate_per_s: options.rate_per_s.unwrap_or_default(),
            timeout: options.timeout,
            swept: now,
            window_start: now + options.warm_up,
            window_end: now + options.warm_up + options.duration,
            counting: false,
            sent: 0,
            received: 0,
            lost: 0,
            strange: 0,
            duration: options.duration,
            watch: options.watch_process,
            before: None,
            observed: (now, 0),
        }
    }

    /// The mark of the next packet to send now; `None`: all slots are in use, or none is due.
    #[inline]
    pub fn next(&mut self, now: Time) -> Option<Mark> {
        let number = *self.free.last()?;
        let since = match &mut self.schedule {
            Some(schedule) => schedule.take(now)?,
            None => now,
        };
        self.free.pop();
        let slot = self.slots.get_mut(number as usize)?;
        *slot = Slot { uses: slot.uses.wrapping_add(1), waits: true, since, sent: now };
        self.sent += 1;
        Some(Mark { slot: number, uses: slot.uses })
    }

    /// The device took no more: the packet of this mark was not sent.
    pub fn not_sent(&mut self, mark: Mark) {
        if let Some(slot) = self.slots.get_mut(mark.slot as usize) {
            slot.waits = false;
            self.free.push(mark.slot);
            self.sent -= 1;
        }
    }

    /// A packet is back.
    #[inline]
    pub fn back(&mut self, mark: Mark, now: Time) {
        match self.slots.get_mut(mark.slot as usize).filter(|slot| slot.waits && slot.uses == mark.uses) {
            Some(slot) => {
                slot.waits = false;
                self.histogram.record(now.since(slot.since));
                self.free.push(mark.slot);
                self.received += 1;
            }
            None => self.strange += 1,
        }
    }

    /// Something came that is not ours.
    pub fn foreign(&mut self) {
        self.strange += 1;
    }

    /// Moves time on: what is due, what is lost, which phase it is. As long as the traffic `is_ready` not, counting does not begin, but
    /// for `READY_PATIENCE`.
    pub fn tick(&mut self, now: Time, is_ready: bool) -> Phase {
        if now.since(self.swept) * 4 >= self.timeout {
            self.swept = now;
            for (number, slot) in self.slots.iter_mut().enumerate() {
                if slot.waits && now.since(slot.sent) > self.timeout {
                    slot.waits = false;
                    self.free.push(number as u32);
                    self.lost += 1;
                }
            }
        }
        let may_begin = is_ready || now.since(self.window_start) > READY_PATIENCE;
        let begins = !self.counting && now >= self.window_start && may_begin;
        if begins {
            self.counting = true;
            self.histogram.clear();
            (self.sent, self.received, self.lost, self.strange) = (0, 0, 0, 0);
            self.window_start = now;
            self.window_end = now + self.duration;
            self.before = Some(MachineSample::take(self.watch));
            if self.schedule.is_some() {
                self.schedule = Schedule::new(now, self.rate_per_s, BACKLOG_MAX);
            }
            self.observed = (now, 0);
        }
        // After the schedule may have begun anew with the window.
        if let Some(schedule) = &mut self.schedule {
            schedule.advance(now);
        }
        // A window in which nothing came and nothing was lost says nothing of the peer: it goes on for as long as an answer may take.
        let is_empty = self.received + self.strange + self.lost == 0 && now < self.window_end + self.timeout;
        match (begins, now < self.window_end || is_empty || !self.counting) {
            (_, false) => Phase::Over,
            (true, true) => Phase::Begun,
            (false, true) => Phase::Going,
        }
    }

    /// Figures, once a second.
    pub fn observe(&mut self, now: Time) -> Option<TripFigures> {
        let elapsed = now.since(self.observed.0);
        if elapsed < Duration::from_secs(1) {
            return None;
        }
        let packets = self.received - self.observed.1.min(self.received);
        self.observed = (now, self.received);
        let latency = self.histogram.summary();
        Some(TripFigures {
            per_s: packets as f64 / elapsed.as_secs_f64(),
            lost: self.lost,
            p50_us: latency.p50,
            p99_us: latency.p99,
        })
    }

    /// What the window saw.
    pub fn report(&self, now: Time) -> RoundTrips {
        let after = MachineSample::take(self.watch);
        let before = self.before.clone().unwrap_or_else(|| after.clone());
        let counts = self.schedule.as_ref().map(Schedule::counts);
        RoundTrips {
            window: self.slots.len(),
            duration_s: now.since(self.window_start).as_secs_f64().max(1e-9),
            sent: self.sent,
            received: self.received,
            lost: self.lost,
            strange: self.strange,
            round_trip_us: self.histogram.summary(),
            open_loop: counts.map(|counts| OpenLoop {
                rate_per_s: self.rate_per_s,
                scheduled: counts.scheduled,
                late: counts.late,
                dropped: counts.dropped,
                backlog_peak: counts.backlog_peak as u64,
            }),
            client_cpu_s: after.own_cpu_s - before.own_cpu_s,
            watched_cpu_s: after.watched_cpu_s.zip(before.watched_cpu_s).map(|(after, before)| after - before),
            cpus: after.cpus.iter().zip(&before.cpus).map(|(after, before)| after.since(before)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Pace {
        Pace { window: 2, warm_up: Duration::ZERO, ..Pace::default() }
    }

    #[test]
    fn each_packet_counts_once() {
        let mut window = Window::new(&options(), Time::ZERO);
        assert_eq!(window.tick(Time::ZERO, true), Phase::Begun);
        let first = window.next(Time::ZERO).unwrap();
        let second = window.next(Time::ZERO).unwrap();
        assert!(window.next(Time::ZERO).is_none(), "all slots are in use");
        window.back(first, Time::from_micros(5));
        window.back(first, Time::from_micros(6));
        window.back(Mark { slot: 99, uses: 1 }, Time::from_micros(6));
        assert_eq!(window.tick(Time::from_millis(300), true), Phase::Going, "the second is lost by now");
        let again = window.next(Time::from_millis(300)).unwrap();
        assert_ne!(again, second);
        window.back(second, Time::from_millis(301));
        let report = window.report(Time::from_millis(301));
        assert_eq!((report.sent, report.received, report.lost, report.strange), (3, 1, 1, 3));
        assert_eq!(report.round_trip_us.count, 1);
        assert_eq!(window.tick(Time::from_millis(3_001), true), Phase::Over);
    }

    #[test]
    fn a_first_answer_may_take_longer_than_the_window() {
        let options = Pace { duration: Duration::from_millis(100), timeout: Duration::from_millis(250), ..options() };
        let mut window = Window::new(&options, Time::ZERO);
        window.tick(Time::ZERO, true);
        let mark = window.next(Time::ZERO).unwrap();
        assert_eq!(window.tick(Time::from_millis(120), true), Phase::Going, "nothing is known yet");
        window.back(mark, Time::from_millis(130));
        assert_eq!(window.tick(Time::from_millis(140), true), Phase::Over);
        assert_eq!(window.report(Time::from_millis(140)).received, 1);

        let mut window = Window::new(&options, Time::ZERO);
        window.tick(Time::ZERO, true);
        window.next(Time::ZERO).unwrap();
        assert_eq!(window.tick(Time::from_millis(360), true), Phase::Over, "no answer is waited for any longer");
    }

    #[test]
    fn an_open_loop_times_from_when_it_was_due() {
        let mut options = options();
        options.rate_per_s = Some(1_000.0);
        let mut window = Window::new(&options, Time::ZERO);
        window.tick(Time::ZERO, true);
        let mark = window.next(Time::ZERO).unwrap();
        window.back(mark, Time::ZERO);
        assert!(window.next(Time::ZERO).is_none(), "the next is due in a millisecond");
        window.tick(Time::from_millis(3), true);
        let mark = window.next(Time::from_millis(3)).unwrap();
        window.back(mark, Time::from_millis(4));
        assert!(window.report(Time::from_millis(4)).round_trip_us.max >= 3_000.0);
    }
}
