//! The one lock: it guards the stack, the device, the sockets, and the heap they are in. Processes share it, and it survives their death. It
//! is also the one gate: a process that has lost the world is turned away before it has looked at anything behind the lock.

use crate::sys::arena::set_inside;
use crate::sys::explain::error;
use crate::sys::local::{LOCAL, Local};
use crate::sys::lock_word::{Taken, Word};
use crate::sys::page::has_fallen;
use crate::sys::shared_place;
use crate::sys::signals::lock_given_back;
use crate::sys::this_process::finish;
use crate::world::end::{End, words};
use crate::world::pid_table::PidTable;
use crate::world::state::World;
use rustix::io::Errno;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What processes share, in the arena.
pub(crate) struct Shared {
    word: Word,
    world: UnsafeCell<World>,
    /// The keeper sleeps until it is told that nobody watches the device any more.
    pub(crate) keeper_is_asleep: AtomicU32,
    /// When the stack was driven last, nanoseconds of the world's clock.
    pub(crate) driven_at: AtomicU64,
    /// Why nobody goes on with this world: an [`End`], or 0.
    end: AtomicU64,
    /// The processes that have the card.
    pub(crate) pids: PidTable,
    /// Where it has been said that the card is gone.
    pub(crate) told: Told,
}

/// Where something has been said that is said once in each place.
pub(crate) struct Told([AtomicU64; TOLD_MAX]);

/// Places known; beyond them it is said again.
const TOLD_MAX: usize = 16;

impl Told {
    /// Whether it has not been said yet on the file that is open as `fd`; now it has.
    pub(crate) fn is_first_on(&self, fd: RawFd) -> bool {
        let Some(key) = crate::sys::explain::key(fd) else { return true };
        for place in &self.0 {
            match place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(known) if known == key => return false,
                Err(_) => {}
            }
        }
        true
    }
}

/// What is shared, once there is something.
#[inline]
pub(crate) fn shared() -> Option<&'static Shared> {
    // SAFETY: `install` put it there, and it stays.
    unsafe { shared_place::get().cast::<Shared>().as_ref() }
}

/// Makes the shared part of what `make` makes, which is called with the lock held.
///
/// # Errors
/// What `make` says.
pub(crate) fn install<E>(make: impl FnOnce() -> Result<World, E>) -> Result<(), E> {
    set_inside(true);
    let outcome = make().map(|world| {
        let shared = Box::new(Shared {
            word: Word::default(),
            world: UnsafeCell::new(world),
            keeper_is_asleep: AtomicU32::new(0),
            driven_at: AtomicU64::new(0),
            end: AtomicU64::new(0),
            pids: PidTable::new(),
            told: Told([const { AtomicU64::new(0) }; TOLD_MAX]),
        });
        shared_place::set(Box::into_raw(shared).cast());
    });
    set_inside(false);
    outcome
}

impl Shared {
    fn is_over(&self) -> bool {
        self.end.load(Ordering::Relaxed) != 0
    }

    /// The first reason is the one.
    fn ends(&self, end: End) {
        let _ = self.end.compare_exchange(0, end.to_number(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Why it is over; to be asked when it is.
    pub(crate) fn end(&self) -> End {
        End::from_number(self.end.load(Ordering::Relaxed))
    }
}

/// No other thread of this process takes the lock from here on, or has it: the process ends.
pub(crate) fn close_to_others() {
    let Ok(guard) = lock() else { return };
    finish::begin();
    let shared = guard.shared;
    drop(guard);
    // One of them may have looked before that, and take it now: it gives it back at once.
    for _ in 0..FINISH_STEPS {
        finish::pause();
        if !finish::is_other_thread(shared.word.owner()) {
            return;
        }
    }
}

/// What is left of a world that somebody was killed in the middle of changing: only what never changes is to be looked at.
pub(crate) fn remains() -> Option<&'static World> {
    let shared = shared().filter(|shared| !has_fallen() && shared.is_over())?;
    // SAFETY: nobody has the lock any more, as everybody finds it broken.
    Some(unsafe { &*shared.world.get() })
}

/// Nobody goes on with this world.
pub(crate) fn give_up(end: End) {
    // Without the lock it is given up already.
    if let Ok(guard) = lock() {
        guard.shared.ends(end);
    }
}

/// How often a process that ends looks whether one of its threads has the lock still.
const FINISH_STEPS: u32 = 100;

/// Calls of a thread on a broken world that are told so at once; a program that goes on trying is not to use up a processor.
const BROKEN_CALLS_MAX: u32 = 100;
const BRAKE: Duration = Duration::from_millis(10);

/// This process has said, or need not say, that the world is broken.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// This process says nothing.
pub(crate) fn be_silent() {
    IS_TOLD.store(true, Ordering::Relaxed);
}

/// Says so once, and lets nobody hurry.
#[cold]
fn tell_broken(local: &Local) {
    if !IS_TOLD.swap(true, Ordering::Relaxed)
        && let Some(shared) = shared()
        && shared.told.is_first_on(2)
    {
        error(format_args!("{}", words(shared.end())));
    }
    let calls = local.broken_calls.get().saturating_add(1);
    local.broken_calls.set(calls);
    if calls > BROKEN_CALLS_MAX {
        std::thread::sleep(BRAKE);
    }
}

/// The lock, held.
pub(crate) struct Guard {
    shared: &'static Shared,
}

/// Takes the lock.
///
/// # Errors
/// `EAGAIN` in a signal handler that interrupted the lock's holder; `ENETDOWN` without a world, or if it is broken.
#[inline]
pub(crate) fn lock() -> Result<Guard, Errno> {
    let shared = shared().ok_or_else(crate::sys::this_process::standing::error)?;
    LOCAL.with(|local| {
        if local.is_inside.get() || local.is_held.get() {
            return Err(Errno::AGAIN);
        }
        // From here on: a signal that comes while it is being taken waits, too.
        local.is_held.set(true);
        let guard = take(shared, local);
        if let Err(error) = guard {
            if error == OUT {
                // Signals wait until this process has left.
                crate::sys::this_process::departure::depart();
            }
            local.is_held.set(false);
            lock_given_back(local);
            if error != OUT {
                tell_broken(local);
            }
        }
        guard
    })
}

/// What a call says that has begun in a world that fell to another class meanwhile: begun again, it goes another way.
const OUT: Errno = Errno::INTR;

#[inline]
fn take(shared: &'static Shared, local: &Local) -> Result<Guard, Errno> {
    // Before anything is looked at, and when it is there.
    loop {
        if finish::is_under_way(local) {
            finish::stand_still();
        }
        if has_fallen() {
            return Err(OUT);
        }
        match shared.word.take(local, || has_fallen() || finish::is_under_way(local)) {
            Taken::Well => break,
            Taken::FromTheDead => {
                shared.ends(End::Killed);
                break;
            }
            Taken::NotOurs if has_fallen() => return Err(OUT),
            Taken::NotOurs => {}
        }
    }
    if shared.is_over() {
        shared.word.give_back(local);
        return Err(Errno::NETDOWN);
    }
    local.is_inside.set(true);
    Ok(Guard { shared })
}

impl Guard {
    /// What is shared without it.
    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }

    /// The world belongs to `class` from now on: all that wait wake up and learn of it.
    pub(crate) fn fall(self, class: &crate::sys::this_process::class::Class) {
        crate::sys::page::publish(class);
        crate::sys::this_process::standing::settle();
        self.wakers.wake_all();
        let shared = self.shared;
        drop(self);
        shared.word.wake_all();
    }
}

impl Deref for Guard {
    type Target = World;

    #[inline]
    fn deref(&self) -> &World {
        // SAFETY: the world's lock is held.
        unsafe { &*self.shared.world.get() }
    }
}

impl DerefMut for Guard {
    #[inline]
    fn deref_mut(&mut self) -> &mut World {
        // SAFETY: the lock is held, and this guard borrowed alone.
        unsafe { &mut *self.shared.world.get() }
    }
}

impl Guard {
    /// The keeper gives the lock back and goes to sleep. If another process unlocks later, and nobody is left to drive the stack, it
    /// wakes the keeper.
    pub(crate) fn release_to_sleep(self) {
        self.shared.keeper_is_asleep.store(1, Ordering::Relaxed);
        // Unlocked here, without the look that would wake the keeper at once.
        let guard = std::mem::ManuallyDrop::new(self);
        guard.unlock();
    }

    fn unlock(&self) {
        LOCAL.with(|local| {
            local.is_inside.set(false);
            self.shared.word.give_back(local);
            local.is_held.set(false);
            lock_given_back(local);
        });
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        // If nobody is left to drive the stack, the keeper is told.
        let is_left_alone = self.shared.keeper_is_asleep.load(Ordering::Relaxed) != 0 && !self.leadership.is_watching();
        let waker = if is_left_alone && self.shared.keeper_is_asleep.swap(0, Ordering::Relaxed) != 0 {
            Some(self.keeper_waker)
        } else {
            None
        };
        self.unlock();
        if let Some(waker) = waker {
            crate::sys::wakers::wake(waker);
        }
    }
}
