//! What differs between the placements of a service's stack.

use crate::runtime::error::RuntimeError;
use crate::service::{Context, Service};
use crate::storage::Storage;
use qanat_nic::{MonotonicClock, Time};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Only this crate's types are placements.
pub trait Sealed {}

/// How often doorbells are looked at while there is no time to sleep.
#[derive(Clone, Copy, Debug)]
pub enum WatchInterval {
    /// Once in so many turns.
    Turns(u32),
    /// Once in so much time.
    Time(Duration),
}

/// Where a service's stack is, and how a [`Runtime`](crate::Runtime) reaches it there: in the service's own thread
/// ([`LinkedPlacement`](crate::LinkedPlacement)), in net cores ([`SplitPlacement`](crate::split::SplitPlacement)), or the kernel's own
/// ([`KernelPlacement`](crate::kernel::KernelPlacement)). The runtime's loop
/// is compiled for each of them, so nothing is dispatched while it runs. There are no other placements: the trait is sealed.
pub trait Placement: Sealed + Sized {
    /// How often doorbells are looked at while there is no time to sleep.
    const WATCH_INTERVAL: WatchInterval;
    /// Whether it tells of what has happened only when it is asked ([`looks`](Placement::looks)), and not by memory that is shared.
    const IS_ASKED: bool = false;
    /// Whether the processor rests for a moment after a turn that was busy, too. With a stack in another process this leaves it
    /// time to say more at once.
    const PAUSES_WHEN_BUSY: bool;

    /// Where commands go that are given now.
    fn context<'a>(&'a mut self, storage: &'a mut Storage, now: Time) -> Context<'a>;

    /// Sends what commands outside of a turn have caused.
    fn flush(&mut self, now: Time);

    /// Takes a turn: the service gets events, those of its disks first, and what it does with them is sent to the network. Never blocks.
    /// Returns whether anything happened.
    fn turn<S: Service + ?Sized>(&mut self, service: &mut S, storage: &mut Storage, clock: &MonotonicClock) -> bool;

    /// Whether the service can go on here. This is looked at after each call of the observer.
    ///
    /// # Errors
    /// Why it can't.
    fn check(&self) -> Result<(), RuntimeError>;

    /// Looks for what has been lost, unless the service is stopping. Returns when to look again.
    ///
    /// # Errors
    /// It has been missing for too long.
    #[inline(always)]
    fn recover(&mut self, _now: Time) -> Result<Option<Time>, RuntimeError> {
        Ok(None)
    }

    /// Gives the connections of a service that is about to stop to others, if others can have them.
    fn leave<S: Service>(&mut self, _service: &mut S, _storage: &mut Storage, _clock: &MonotonicClock) {}

    /// Sends what is left when the service has ended.
    fn finish(&mut self, _now: Time) {}

    /// Whether there are doorbells to sleep on.
    #[inline(always)]
    fn can_sleep(&self) -> bool {
        true
    }

    /// Asks to be woken from here on. If this returns false, something has happened already and there is no time to sleep.
    /// [`wakes`](Placement::wakes) follows in either case.
    #[inline(always)]
    fn falls_asleep(&mut self) -> bool {
        true
    }

    /// Ends what [`falls_asleep`](Placement::falls_asleep) began.
    #[inline(always)]
    fn wakes(&mut self) {}

    /// When there is something to do without an event.
    fn next_deadline(&self, now: Time) -> Option<Time>;

    /// The doorbells of the stack's side. If the runtime does not wait (`waits` is false), only those whose end has to be noticed.
    fn doorbells(&self, waits: bool) -> impl Iterator<Item = BorrowedFd<'_>>;

    /// Sleeps until something happens here, or one of the others rings, or for so long. `false`: the runtime is to do so.
    #[inline(always)]
    fn sleeps<'a>(&mut self, _others: impl Iterator<Item = BorrowedFd<'a>>, _most: Duration) -> bool {
        false
    }

    /// One of the others has rung, and nobody has looked which.
    #[inline(always)]
    fn others_rang(&self) -> bool {
        false
    }

    /// Asks for what has happened, without waiting.
    #[inline(always)]
    fn looks(&mut self) {}

    /// A descriptor is not waited for any more, and is about to be closed.
    fn forgets(&mut self, _other: BorrowedFd<'_>) {}

    /// Silences doorbells that rang, and notices the end of whoever rings them.
    #[inline(always)]
    fn has_waited(&mut self) {}
}
