//! What a thread notes of signals: whether its waits go on after their handlers, and those that are held back until it has given
//! the lock back.

use crate::sys::local::{LOCAL, Local};
use libc::{c_int, c_void, siginfo_t};
use std::cell::Cell;
use std::mem::MaybeUninit;

const SIGNALS: c_int = 65;

thread_local! {
    /// A handler has been called in this thread after which calls do not go on.
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
    /// Handlers called in this thread.
    static CALLED: Cell<u32> = const { Cell::new(0) };
}

/// To be called before a wait.
pub(crate) fn begin_wait() {
    INTERRUPTED.set(false);
}

/// Whether a wait that signals have interrupted goes on: each of their handlers, since it [began](begin_wait), says so.
pub(crate) fn wait_goes_on() -> bool {
    !INTERRUPTED.get()
}

/// How many handlers have been called in this thread: a wait during which one was ends as one that is interrupted.
pub(crate) fn handlers_called() -> u32 {
    CALLED.get()
}

/// A handler has been called in this thread; whether calls go on after it.
pub(crate) fn handler_called(goes_on: bool) {
    CALLED.set(CALLED.get().wrapping_add(1));
    if !goes_on {
        INTERRUPTED.set(true);
    }
}

/// Has the signal come again when the lock is given back: its handler may fork, or use sockets, and both take the lock. `false`:
/// it can't.
///
/// # Safety
/// As a handler with `SA_SIGINFO` is called.
pub(crate) unsafe fn hold_back(signal: c_int, information: *mut siginfo_t, context: *mut c_void) -> bool {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: `information` is what the kernel gave the handler: this function's condition. The signal is blocked from the handler's return
    // on, so it stays pending when it is sent again.
    let sent = unsafe {
        let (process, thread) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, information) == 0
            && libc::sigaddset(&raw mut (*context).uc_sigmask, signal) == 0
    };
    if sent {
        LOCAL.with(|local| local.held_back.set(local.held_back.get() | 1 << (signal - 1)));
    }
    sent
}

/// This thread has given the lock back: what was held back comes now.
#[inline]
pub(crate) fn lock_given_back(local: &Local) {
    if local.held_back.get() != 0 {
        unblock(local.held_back.take());
    }
}

#[cold]
fn unblock(held_back: u64) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made empty before it is used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in (1..SIGNALS).filter(|signal| held_back & 1 << (signal - 1) != 0) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Signals wait from here on, or come; whether they waited before.
pub(crate) fn hold_signals(holds: bool) -> bool {
    LOCAL.with(|local| {
        let were_held = local.is_held.replace(holds);
        if were_held && !holds {
            lock_given_back(local);
        }
        were_held
    })
}
