//! The kernel placement.

use super::state::Kernel;
use crate::runtime::{Placement, RuntimeError, Sealed, WatchInterval};
use crate::service::{Context, Service};
use crate::storage::Storage;
use qanat_nic::{Clock, MonotonicClock, Time};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A turn takes at most so many events: a flood must not keep output waiting.
const EVENTS_PER_TURN: usize = 1_024;

/// Where a service's stack is if it is the kernel's.
pub struct KernelPlacement {
    pub(super) kernel: Kernel,
}

impl Sealed for KernelPlacement {}

impl Placement for KernelPlacement {
    const WATCH_INTERVAL: WatchInterval = WatchInterval::Time(Duration::from_micros(250));
    const PAUSES_WHEN_BUSY: bool = false;
    const IS_ASKED: bool = true;

    #[inline]
    fn context<'a>(&'a mut self, storage: &'a mut Storage, now: Time) -> Context<'a> {
        Context::of_kernel(&mut self.kernel, storage, now)
    }

    fn flush(&mut self, now: Time) {
        self.kernel.turn_begins(now);
        self.kernel.end_turn();
    }

    fn turn<S: Service + ?Sized>(&mut self, service: &mut S, storage: &mut Storage, clock: &MonotonicClock) -> bool {
        let now = clock.now();
        self.kernel.turn_begins(now);
        let mut handled = storage.deliver(|event, storage| {
            service.handle(event, &mut Context::of_kernel(&mut self.kernel, storage, now));
        });
        self.kernel.look();
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.kernel.next_event() else { break };
            handled = true;
            service.handle(event, &mut Context::of_kernel(&mut self.kernel, storage, now));
        }
        if handled {
            service.turn_ended(&mut Context::of_kernel(&mut self.kernel, storage, now));
        }
        self.kernel.end_turn();
        handled
    }

    fn check(&self) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn finish(&mut self, _now: Time) {
        self.kernel.forget_others();
        self.kernel.end_turn();
    }

    fn can_sleep(&self) -> bool {
        !self.kernel.others_rang()
    }

    fn falls_asleep(&mut self) -> bool {
        !self.kernel.has_news()
    }

    fn next_deadline(&self, _now: Time) -> Option<Time> {
        self.kernel.next_deadline()
    }

    /// A runtime looks at the ring anyway.
    fn doorbells(&self, _waits: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::empty()
    }

    /// By the call that starts what was asked for: nothing else has to be called to be told of what happens.
    fn sleeps<'a>(&mut self, others: impl Iterator<Item = BorrowedFd<'a>>, most: Duration) -> bool {
        self.kernel.sleep(others, most);
        true
    }

    fn others_rang(&self) -> bool {
        self.kernel.others_rang()
    }

    fn looks(&mut self) {
        self.kernel.look_now();
    }

    fn forgets(&mut self, other: BorrowedFd<'_>) {
        self.kernel.forget_other(other);
    }

    fn has_waited(&mut self) {
        self.kernel.others_are_heard();
    }
}
