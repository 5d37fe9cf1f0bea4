//! Leader and followers: of all threads that wait, in all processes, one is the leader and drives the stack. It polls, and it sleeps
//! with the device among its wake-up sources. The others sleep on their wakers, and no packet disturbs them. If the leader finds
//! work for another thread only, it hands the lead to that thread. A leader that goes back to the program still leads, because it
//! is usually back in a moment. If it is not, the next thread that waits takes over, or the
//! [keeper](crate::lifecycle::keeper) appoints one.

use crate::sys::wakers::{Waker, Wakers};
use crate::world::processes::number;
use qanat::Time;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A leader may be absent for so long before another takes its place.
const ABSENCE_MAX: Duration = Duration::from_micros(100);
/// A leader whose absences are this long on average, in nanoseconds, hands the lead on when it leaves. It is what a thread is woken for, which
/// costs two changes of threads if all share one processor: with 50 µs memcached's worker, which is away for as long with 50 clients, woke
/// its idle main thread 21,000 times a second, and the two had 1.07 of the kernel's requests instead of 1.84.
const ABSENCE_LONG_NS: u64 = 200_000;
/// An absence has this weight in the average (one part in so many), and counts for no more than the limit below: one long absence is
/// no habit.
const WEIGHT: u64 = 8;
const ABSENCE_COUNTED_NS: u64 = 4 * ABSENCE_LONG_NS;

/// A thread, of whatever process of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thread {
    process: u32,
    number: u32,
}

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// When this thread, a leader, went back to the program.
    static LEFT_AT: Cell<Option<Time>> = const { Cell::new(None) };
    /// The average time between two waits, in nanoseconds.
    static ABSENCE_NS: Cell<u64> = const { Cell::new(0) };
}

impl Thread {
    /// The calling one.
    pub(crate) fn this() -> Thread {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        if NUMBER.get() == 0 {
            NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        // A child's threads have their parent's numbers, and a process of their own.
        Thread { process: number(), number: NUMBER.get() }
    }
}

/// Which thread leads, if any does.
#[derive(Default)]
pub(crate) struct Leadership {
    leader: Option<Thread>,
    /// It polls, or sleeps with the device among its wake-up sources. Otherwise it is absent: it runs the program.
    is_watching: bool,
    /// Since when it is absent.
    absent_since: Time,
    /// Threads that sleep, or are about to wake, and what wakes them.
    followers: Vec<(Thread, Waker)>,
}

impl Leadership {
    /// Whether somebody watches the device: packets are not left alone.
    pub(crate) fn is_watching(&self) -> bool {
        self.leader.is_some() && self.is_watching
    }

    /// The leader has been stopped: no thread leads.
    pub(crate) fn depose(&mut self) {
        (self.leader, self.is_watching) = (None, false);
    }

    /// What belonged to a process that has ended.
    pub(crate) fn process_ended(&mut self, process: u32) {
        self.followers.retain(|(thread, _)| thread.process != process);
        if self.leader.is_some_and(|leader| leader.process == process) {
            self.leader = None;
        }
    }

    fn set(&mut self, leader: Thread, now: Time) {
        (self.leader, self.is_watching, self.absent_since) = (Some(leader), false, now);
    }

    /// A thread has driven the stack just now and found nothing for itself, so it waits: whether it leads from now on.
    pub(super) fn leads(&mut self, thread: Thread, now: Time, woken: Option<Waker>) -> bool {
        self.hands_on(thread, now, woken);
        if let Some(left_at) = LEFT_AT.take() {
            let absence_ns = (now.since(left_at).as_nanos() as u64).min(ABSENCE_COUNTED_NS);
            ABSENCE_NS.set((ABSENCE_NS.get() * (WEIGHT - 1) + absence_ns) / WEIGHT);
        }
        let may = match self.leader {
            None => true,
            Some(leader) => leader == thread || !self.is_watching && now.since(self.absent_since) > ABSENCE_MAX,
        };
        if may {
            (self.leader, self.is_watching) = (Some(thread), true);
        }
        may
    }

    /// A thread goes back to the program, with something to do.
    pub(super) fn leaves(&mut self, thread: Thread, now: Time, wakers: &Wakers) {
        if self.leader != Some(thread) {
            return;
        }
        self.set(thread, now);
        LEFT_AT.set(Some(now));
        if ABSENCE_NS.get() > ABSENCE_LONG_NS {
            self.appoint(now, wakers);
        }
    }

    /// A thread is about to sleep on `waker`, without the device.
    pub(super) fn follow(&mut self, thread: Thread, waker: Option<Waker>) {
        self.followers.extend(waker.map(|waker| (thread, waker)));
    }

    /// It is awake.
    pub(super) fn follows_no_more(&mut self, thread: Thread) {
        self.followers.retain(|(other, _)| *other != thread);
    }

    /// Wakes a thread that sleeps, to lead.
    pub(super) fn appoint(&mut self, now: Time, wakers: &Wakers) {
        let Some((thread, waker)) = self.followers.last().copied() else { return };
        self.set(thread, now);
        wakers.wake(waker);
    }

    /// If `leader`, which has driven the stack for itself in vain, has woken another by that, the other one leads.
    fn hands_on(&mut self, leader: Thread, now: Time, woken: Option<Waker>) {
        if self.leader != Some(leader) {
            return;
        }
        let woken = self.followers.iter().find(|(_, waker)| woken == Some(*waker)).map(|(thread, _)| *thread);
        if let Some(woken) = woken {
            self.set(woken, now);
        }
    }
}
