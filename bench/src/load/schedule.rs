//! Open-loop arrivals: requests are due at fixed times whatever the server does, and latency counts from when a request
//! was due, not from when the loader got round to it (no coordinated omission). What can't be sent waits in a bounded
//! backlog; what doesn't fit there is dropped and counted.

use qanat::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A request sent this much later than it was due counts as late.
pub const LATE: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Debug)]
pub struct Schedule {
    start: Time,
    /// Nanoseconds between arrivals, as a 32.32 fixed-point number: no drift over a long run.
    interval: u128,
    scheduled: u64,
    backlog: VecDeque<Time>,
    backlog_max: usize,
    backlog_peak: usize,
    late: u64,
    dropped: u64,
}

/// Counters of a [`Schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScheduleCounts {
    /// Requests that came due.
    pub scheduled: u64,
    /// Requests sent more than [`LATE`] after they were due.
    pub late: u64,
    /// Requests never sent because the backlog was full.
    pub dropped: u64,
    /// Most requests that ever waited at once.
    pub backlog_peak: usize,
}

impl Schedule {
    /// `rate_per_s` arrivals a second from `start` on, at most `backlog_max` of them waiting. `None` for a rate that is
    /// not positive or beyond 10⁹.
    pub fn new(start: Time, rate_per_s: f64, backlog_max: usize) -> Option<Schedule> {
        if !(rate_per_s.is_finite() && rate_per_s > 0.0 && rate_per_s <= 1e9) {
            return None;
        }
        let interval = (1e9 / rate_per_s * 4_294_967_296.0) as u128;
        Some(Schedule {
            start,
            interval,
            scheduled: 0,
            backlog: VecDeque::with_capacity(backlog_max.min(1 << 20)),
            backlog_max: backlog_max.min(1 << 20),
            backlog_peak: 0,
            late: 0,
            dropped: 0,
        })
    }

    /// When the next request comes due.
    pub fn next_due(&self) -> Time {
        let nanoseconds = (self.interval.saturating_mul(u128::from(self.scheduled))) >> 32;
        self.start + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Moves what has come due by `now` into the backlog.
    pub fn advance(&mut self, now: Time) {
        // Bounded: after a stall, everything beyond the backlog is counted without walking it one by one.
        while self.next_due() <= now && self.backlog.len() < self.backlog_max {
            self.backlog.push_back(self.next_due());
            self.scheduled += 1;
        }
        self.backlog_peak = self.backlog_peak.max(self.backlog.len());
        if self.next_due() <= now {
            let elapsed = u128::from(now.since(self.start).as_nanos() as u64);
            let due = u64::try_from((elapsed << 32) / self.interval.max(1) + 1).unwrap_or(u64::MAX);
            self.dropped += due.saturating_sub(self.scheduled);
            self.scheduled = self.scheduled.max(due);
        }
    }

    /// The request that waits longest: when it was due. The caller sends it now.
    pub fn take(&mut self, now: Time) -> Option<Time> {
        let due = self.backlog.pop_front()?;
        if now.since(due) > LATE {
            self.late += 1;
        }
        Some(due)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Counters so far.
    pub fn counts(&self) -> ScheduleCounts {
        ScheduleCounts {
            scheduled: self.scheduled,
            late: self.late,
            dropped: self.dropped,
            backlog_peak: self.backlog_peak,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_do_not_drift() {
        let mut schedule = Schedule::new(Time::from_micros(5), 3.0, 10_000).unwrap();
        schedule.advance(Time::from_micros(5) + Duration::from_secs(1_000));
        assert_eq!(schedule.counts().scheduled, 3_001, "one at the start, then 3 a second");
        let mut last = Time::ZERO;
        while let Some(due) = schedule.take(Time::ZERO) {
            last = due;
        }
        let drift = last.since(Time::from_micros(5) + Duration::from_secs(1_000));
        assert!(drift < Duration::from_micros(1), "{drift:?}");
    }

    #[test]
    fn a_stall_is_seen_not_omitted() {
        let mut schedule = Schedule::new(Time::ZERO, 1_000.0, 100).unwrap();
        schedule.advance(Time::from_millis(49));
        let now = Time::from_millis(49);
        let due: Vec<Time> = std::iter::from_fn(|| schedule.take(now)).collect();
        assert_eq!(due.len(), 50);
        assert_eq!(now.since(due[0]), Duration::from_millis(49), "latency counts from the due time");
        assert_eq!(schedule.counts().late, 48);
        schedule.advance(Time::from_millis(49));
        assert!(schedule.is_empty());
    }

    #[test]
    fn the_backlog_is_bounded_and_drops_are_counted() {
        let mut schedule = Schedule::new(Time::ZERO, 1_000_000.0, 100).unwrap();
        schedule.advance(Time::from_millis(999));
        let counts = schedule.counts();
        assert_eq!(counts.scheduled, 999_001);
        assert_eq!(counts.dropped, 999_001 - 100);
        assert_eq!(counts.backlog_peak, 100);
        schedule.advance(Time::from_millis(999));
        assert_eq!(schedule.counts(), counts, "nothing is counted twice");
        assert!(schedule.next_due() > Time::from_millis(999));
    }

    #[test]
    fn impossible_rates() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9] {
            assert!(Schedule::new(Time::ZERO, rate, 1).is_none());
        }
    }
}
