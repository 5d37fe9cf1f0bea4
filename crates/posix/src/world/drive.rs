//! The stack is driven with the lock held, and the keeper learns when.

use crate::world::lock::Guard;
use qanat::Time;
use qanat_nic::Clock;
use std::sync::atomic::Ordering;

impl Guard {
    /// As [`World::drive`](crate::world::state::World::drive), and the keeper knows of it.
    pub(crate) fn drive_now(&mut self) -> Time {
        let now = self.look_now();
        self.leave(now);
        now
    }

    /// As [`drive_now`](Guard::drive_now), but for what the stack has to send: [`leave_together`](crate::world::state::World::leave_together)
    /// is called next, when it is known what the program is told.
    pub(crate) fn look_now(&mut self) -> Time {
        let now = self.look();
        self.shared().driven_at.store(now.as_nanos(), Ordering::Relaxed);
        now
    }

    pub(crate) fn clock_now(&self) -> Time {
        self.clock.now()
    }
}
