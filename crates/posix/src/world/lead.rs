//! Who drives the stack: of the threads that wait, of all processes, one leads. It polls, and sleeps with the device among what
//! wakes it; the others sleep on their bells, and no packet disturbs them. Who leads and finds something for another alone hands
//! the lead to it. Back in the program a leader still leads, since it will be back in a moment; if it is not, the next who waits
//! takes over, or the [keeper](crate::lifecycle::keeper) appoints one.

use crate::sys::bells::{Bell, Bells};
use crate::world::processes::number;
use qanat::Time;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A leader may be away for so long before another takes its place.
const AWAY_MAX: Duration = Duration::from_micros(100);
/// A leader whose times away are this long on average, nanoseconds, hands the lead on as it goes.
const AWAY_LONG_NS: u64 = 50_000;
/// A time away counts for one part in so many of their average, and for no more than this: one long one is no habit.
const WEIGHT: u64 = 8;
const AWAY_COUNTED_NS: u64 = 4 * AWAY_LONG_NS;

/// A thread, of whatever process of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thread {
    process: u32,
    number: u32,
}

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// Since when this thread, a leader, is back in the program.
    static LEFT_AT: Cell<Option<Time>> = const { Cell::new(None) };
    /// How long it is away between two waits, nanoseconds.
    static AWAY_NS: Cell<u64> = const { Cell::new(0) };
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

/// Who leads, if anybody does.
#[derive(Default)]
pub(crate) struct Lead {
    leader: Option<Thread>,
    /// It polls, or sleeps with the device among what wakes it. Else it is away, in the program.
    is_watching: bool,
    /// Since when it is away.
    away_since: Time,
    /// Threads that sleep, or are about to wake, and what wakes them.
    followers: Vec<(Thread, Bell)>,
}

impl Lead {
    /// Whether somebody watches the device: packets are not left alone.
    pub(crate) fn is_watching(&self) -> bool {
        self.leader.is_some() && self.is_watching
    }

    /// Who leads has been stopped: nobody leads.
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
        (self.leader, self.is_watching, self.away_since) = (Some(leader), false, now);
    }

    /// A thread has driven the stack just now and found nothing for itself, so it waits: whether it leads from now on.
    pub(super) fn leads(&mut self, thread: Thread, now: Time, rung: Option<Bell>) -> bool {
        self.hands_on(thread, now, rung);
        if let Some(left_at) = LEFT_AT.take() {
            let away_ns = (now.since(left_at).as_nanos() as u64).min(AWAY_COUNTED_NS);
            AWAY_NS.set((AWAY_NS.get() * (WEIGHT - 1) + away_ns) / WEIGHT);
        }
        let may = match self.leader {
            None => true,
            Some(leader) => leader == thread || !self.is_watching && now.since(self.away_since) > AWAY_MAX,
        };
        if may {
            (self.leader, self.is_watching) = (Some(thread), true);
        }
        may
    }

    /// A thread goes back to the program, with something to do.
    pub(super) fn leaves(&mut self, thread: Thread, now: Time, bells: &Bells) {
        if self.leader != Some(thread) {
            return;
        }
        self.set(thread, now);
        LEFT_AT.set(Some(now));
        if AWAY_NS.get() > AWAY_LONG_NS {
            self.appoint(now, bells);
        }
    }

    /// A thread is about to sleep on `bell`, without the device.
    pub(super) fn follow(&mut self, thread: Thread, bell: Option<Bell>) {
        self.followers.extend(bell.map(|bell| (thread, bell)));
    }

    /// It is awake.
    pub(super) fn follows_no_more(&mut self, thread: Thread) {
        self.followers.retain(|(other, _)| *other != thread);
    }

    /// Wakes a thread that sleeps, to lead.
    pub(super) fn appoint(&mut self, now: Time, bells: &Bells) {
        let Some((thread, bell)) = self.followers.last().copied() else { return };
        self.set(thread, now);
        bells.ring(bell);
    }

    /// If `leader`, which has driven the stack for itself in vain, has woken another by that, the other one leads.
    fn hands_on(&mut self, leader: Thread, now: Time, rung: Option<Bell>) {
        if self.leader != Some(leader) {
            return;
        }
        let woken = self.followers.iter().find(|(_, bell)| rung == Some(*bell)).map(|(thread, _)| *thread);
        if let Some(woken) = woken {
            self.set(woken, now);
        }
    }
}
