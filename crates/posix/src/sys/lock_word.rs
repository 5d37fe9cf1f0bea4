//! The lock itself: a word in shared memory, with the number of the thread that has it. Nothing but this word is read or written to
//! take it and to give it back: memory that somebody else may have overwritten leads nowhere, as a mutex of the C library's would,
//! which is part of a list. A thread that is killed with the lock held is found by the kernel, by the place where the C library
//! notes the lock a thread is about to take or give back (`set_robust_list`).

use crate::sys::local::Local;
use crate::sys::raw::{self, Call};
use libc::{c_long, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kernel's bits: somebody sleeps; the holder has died.
const WAITERS: u32 = 1 << 31;
const OWNER_DIED: u32 = 1 << 30;
const THREAD: u32 = OWNER_DIED - 1;

/// Tries before a thread that finds it taken goes to sleep: it is held for some microseconds.
const TRIES: u32 = 200;
/// How often a sleeper looks whether there is still somebody that could wake it.
const LOOK: Duration = Duration::from_millis(500);

/// Looks whether a thread that was stopped has given it back, and how long they are apart.
const STEPS: u32 = 1_000;
const STEP_NS: i64 = 100_000;

#[derive(Default)]
pub(crate) struct Word(AtomicU32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    Well,
    /// The thread that had it was killed.
    FromTheDead,
    /// Not taken: the world has fallen meanwhile.
    NotOurs,
}

/// `struct robust_list_head`.
#[repr(C)]
struct RobustList {
    first: *mut c_void,
    to_word: c_long,
    pending: *mut c_void,
}

fn futex(word: &AtomicU32, operation: i32, value: usize, time: *const libc::timespec) -> isize {
    let arguments = [std::ptr::from_ref(word).addr(), operation as usize, value, time.addr(), 0];
    // SAFETY: the word stays; the time is one, or null.
    unsafe { raw::call(&Call::new(libc::SYS_futex, arguments)) }
}

/// This thread's list; null: the C library has none.
fn robust_list(local: &Local) -> *mut RobustList {
    let known = local.robust_list.get();
    if known != 0 {
        return std::ptr::with_exposed_provenance_mut(known);
    }
    let (mut list, mut length) = (std::ptr::null_mut::<RobustList>(), 0usize);
    let arguments = [0, (&raw mut list).addr(), (&raw mut length).addr(), 0, 0];
    // SAFETY: both pointers are to places with room for the answers.
    let status = unsafe { raw::call(&Call::new(libc::SYS_get_robust_list, arguments)) };
    if status != 0 || length != size_of::<RobustList>() {
        return std::ptr::null_mut();
    }
    local.robust_list.set(list.expose_provenance());
    list
}

/// Where this thread's list is; 0: there is none.
pub(crate) fn known_robust_list() -> usize {
    crate::sys::local::LOCAL.with(|local| robust_list(local).expose_provenance())
}

/// The kernel knows of the list of this thread, which is a process begun past the C library.
pub(crate) fn register_robust_list(place: usize) {
    if place == 0 {
        return;
    }
    let list = std::ptr::with_exposed_provenance_mut::<RobustList>(place);
    // SAFETY: the C library's, in this process's copy of its memory; an empty list points to itself.
    unsafe {
        (*list).first = list.cast();
        (*list).pending = std::ptr::null_mut();
        raw::call(&Call::new(libc::SYS_set_robust_list, [place, size_of::<RobustList>(), 0, 0, 0]));
    }
}

/// The kernel's number of this thread.
fn thread(local: &Local) -> u32 {
    if local.thread.get() == 0 {
        // SAFETY: the call takes no pointers.
        local.thread.set(unsafe { raw::call(&Call::new(libc::SYS_gettid, [0; 5])) } as u32 & THREAD);
    }
    local.thread.get()
}

impl Word {
    /// The kernel is to look at this word if the thread is killed from here on, or no more.
    fn note(&self, local: &Local, begins: bool) {
        let list = robust_list(local);
        if list.is_null() {
            return;
        }
        // SAFETY: the C library's, for this thread. A mutex of the program's that a signal has interrupted comes back to its place.
        unsafe {
            if begins {
                local.noted_before.set((*list).pending.addr());
                let entry = std::ptr::from_ref(self).addr().wrapping_sub((*list).to_word as usize);
                (&raw mut (*list).pending).write_volatile(std::ptr::without_provenance_mut(entry));
            } else {
                (&raw mut (*list).pending).write_volatile(std::ptr::without_provenance_mut(local.noted_before.get()));
            }
        }
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// Takes it, unless `is_out`.
    #[inline]
    pub(crate) fn take(&self, local: &Local, is_out: impl Fn() -> bool) -> Taken {
        let own = thread(local);
        self.note(local, true);
        for _ in 0..TRIES {
            if self.0.load(Ordering::Relaxed) == 0
                && self.0.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return self.taken(local, Taken::Well, is_out());
            }
            std::hint::spin_loop();
        }
        self.wait(local, own, is_out)
    }

    fn taken(&self, local: &Local, taken: Taken, is_out: bool) -> Taken {
        if is_out {
            self.give_back(local);
            return Taken::NotOurs;
        }
        taken
    }

    #[cold]
    fn wait(&self, local: &Local, own: u32, is_out: impl Fn() -> bool) -> Taken {
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        loop {
            if is_out() {
                self.note(local, false);
                return Taken::NotOurs;
            }
            let now = self.0.load(Ordering::Relaxed);
            let owner = now & THREAD;
            if owner == 0 || now & OWNER_DIED != 0 {
                // Others may sleep. The thread that gives the lock back wakes one of them.
                if self.0.compare_exchange(now, own | WAITERS, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    let taken = if now & OWNER_DIED != 0 { Taken::FromTheDead } else { Taken::Well };
                    return self.taken(local, taken, is_out());
                }
                continue;
            }
            let marked = now | WAITERS;
            if now != marked && self.0.compare_exchange(now, marked, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                continue;
            }
            let slept = futex(&self.0, libc::FUTEX_WAIT, marked as usize, &raw const time);
            if slept != -(libc::ETIMEDOUT as isize) {
                continue;
            }
            // The library's own processes open no file and send no signal once they are confined.
            let is_confined = crate::sys::this_process::own_process::is_librarys()
                && crate::sys::this_process::standing::is_settled();
            if !is_confined && is_stopped(owner) {
                self.hurry(owner);
            } else if !is_alive(owner) {
                // Killed before the kernel knew of this word, as a thread of a process forked past the C library is.
                let dead = marked | OWNER_DIED;
                let _ = self.0.compare_exchange(marked, dead, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// A signal has stopped the thread that has it. It goes on until it has given the lock back, and is stopped again. Else all
    /// programs that share the card would be stopped with it.
    #[cold]
    fn hurry(&self, owner: u32) {
        let send = |signal: i32| {
            // SAFETY: the call takes no pointers.
            unsafe { raw::call(&Call::new(libc::SYS_kill, [owner as usize, signal as usize, 0, 0, 0])) }
        };
        if send(libc::SIGCONT) != 0 {
            return;
        }
        for _ in 0..STEPS {
            if self.0.load(Ordering::Relaxed) & THREAD != owner {
                break;
            }
            let step = libc::timespec { tv_sec: 0, tv_nsec: STEP_NS };
            // SAFETY: the pointer is to a readable time.
            unsafe { raw::call(&Call::new(libc::SYS_nanosleep, [(&raw const step).addr(), 0, 0, 0, 0])) };
        }
        send(libc::SIGSTOP);
    }

    /// Gives it back.
    #[inline]
    pub(crate) fn give_back(&self, local: &Local) {
        if self.0.swap(0, Ordering::Release) & WAITERS != 0 {
            futex(&self.0, libc::FUTEX_WAKE, 1, std::ptr::null());
        }
        self.note(local, false);
    }

    /// The thread that has it; 0: none.
    pub(crate) fn owner(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & THREAD
    }

    /// Wakes all sleepers, so that they look what has become of the world.
    pub(crate) fn wake_all(&self) {
        futex(&self.0, libc::FUTEX_WAKE, i32::MAX as usize, std::ptr::null());
    }
}

/// Whether a thread has been stopped by a signal, not by a debugger, as the kernel tells. It allocates nothing, because the thread that
/// waits for the lock may be in the program's allocator.
#[cold]
fn is_stopped(thread: u32) -> bool {
    let mut path = [0u8; 32];
    let mut place = &mut path[..31];
    if std::io::Write::write_fmt(&mut place, format_args!("/proc/{thread}/stat")).is_err() {
        return false;
    }
    let mut text = [0u8; 128];
    let call = |number: i64, arguments: [usize; 5]| {
        // SAFETY: a string that ends with a zero, room for the answer, or a descriptor that was opened here.
        unsafe { raw::call(&Call::new(number, arguments)) }
    };
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let file = call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr().addr(), flags, 0, 0]);
    if file < 0 {
        return false;
    }
    let count = call(libc::SYS_read, [file as usize, text.as_mut_ptr().addr(), text.len(), 0, 0]);
    call(libc::SYS_close, [file as usize, 0, 0, 0, 0]);
    let text = text.get(..usize::try_from(count).unwrap_or(0)).unwrap_or_default();
    // The name before it may have any letters.
    text.windows(4).any(|part| part == b") T ")
}

/// Whether there is a thread of that number.
fn is_alive(thread: u32) -> bool {
    // SAFETY: the call takes no pointers.
    unsafe { raw::call(&Call::new(libc::SYS_kill, [thread as usize, 0, 0, 0, 0])) != -(libc::ESRCH as isize) }
}
