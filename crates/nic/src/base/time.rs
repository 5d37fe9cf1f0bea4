//! Time as an argument: a point on a monotonic clock, in nanoseconds.

use std::cell::Cell;
use std::ops::{Add, AddAssign, Sub};
use std::rc::Rc;
use std::time::Duration;

/// A point in time, nanoseconds since an arbitrary start (wraps after 584 years).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Time(u64);

impl Time {
    /// The start of the clock.
    pub const ZERO: Time = Time(0);

    /// `nanoseconds` after the start.
    pub const fn from_nanos(nanoseconds: u64) -> Time {
        Time(nanoseconds)
    }

    /// `microseconds` after the start.
    pub const fn from_micros(microseconds: u64) -> Time {
        Time(microseconds * 1_000)
    }

    /// `milliseconds` after the start.
    pub const fn from_millis(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the start.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the start.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Where a runtime reads the time. The stack never does: it is told.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Time;
}

/// The machine's monotonic clock, starting at its creation.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    /// As the machine counts.
    start: u64,
}

/// Nanoseconds since the machine was started, or thereabouts.
fn machine_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer. The clock exists everywhere, so nothing can fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl MonotonicClock {
    /// A clock that reads zero now.
    pub fn new() -> MonotonicClock {
        MonotonicClock { start: machine_nanos() }
    }

    /// The machine's own: the same in all processes, so that what one has noted another can go on with.
    pub fn of_machine() -> MonotonicClock {
        MonotonicClock { start: 0 }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        Time::from_nanos(machine_nanos().saturating_sub(self.start))
    }
}

/// A virtual clock for simulation: it moves only when told. Clones share the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Rc<Cell<Time>>,
}

impl ManualClock {
    /// A clock at [`Time::ZERO`].
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// Moves to `time`; never backwards.
    pub fn advance_to(&self, time: Time) {
        self.now.set(self.now.get().max(time));
    }

    /// Moves on by `duration`.
    pub fn advance(&self, duration: Duration) {
        self.now.set(self.now.get() + duration);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        self.now.get()
    }
}
