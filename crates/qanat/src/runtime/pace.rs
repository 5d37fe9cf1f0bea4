//! [`Pace`]: when a loop spins, and when it sleeps.

use crate::runtime::error::RuntimeError;
use qanat_nic::{Spin, SpinPolicy, Time};
use std::time::Duration;

/// How often a placement is asked whether it can go on.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// What a loop remembers from one turn to the next: how long nothing has happened, and whether spinning has paid.
pub struct Pace {
    spin: Spin,
    idle_since: Option<Time>,
    next_check: Time,
    /// Why the loop can't go on, until the program has heard what happened before.
    error: Option<RuntimeError>,
}

impl Pace {
    /// That of a loop that begins.
    pub fn new(policy: SpinPolicy) -> Pace {
        Pace { spin: Spin::new(policy), idle_since: None, next_check: Time::ZERO, error: None }
    }

    #[inline]
    pub(super) fn is_busy(&mut self) {
        self.idle_since = None;
    }

    /// Whether nothing has happened for so long that it is time to sleep.
    #[inline]
    pub(super) fn is_to_sleep(&mut self, now: Time) -> bool {
        let idle = now.since(*self.idle_since.get_or_insert(now));
        self.spin.should_sleep(idle)
    }

    #[inline]
    pub(super) fn has_slept(&mut self, slept: Duration) {
        self.spin.slept(slept);
        self.idle_since = None;
    }

    /// Whether the placement is to be asked now.
    #[inline]
    pub(super) fn is_check_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_check;
        if is_due {
            self.next_check = now + CHECK_EVERY;
        }
        is_due
    }

    pub(super) fn keep_error(&mut self, error: RuntimeError) {
        self.error = Some(error);
    }

    pub(super) fn take_error(&mut self) -> Option<RuntimeError> {
        self.error.take()
    }

    pub(super) fn next_check(&self) -> Time {
        self.next_check
    }
}
