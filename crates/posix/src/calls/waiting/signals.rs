//! Signals: a call that a signal interrupts goes on after the handler if the handler was installed with `SA_RESTART`, as the kernel's calls
//! do. The kernel says only that there was a signal. So each handler is called by one of ours, which notes whether calls continue.

use crate::sys::libc_next;
use crate::sys::signals::{handler_called, hold_back};
use libc::{c_int, c_void, sigaction as Action, sighandler_t, siginfo_t};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

const SIGNALS: usize = 65;

/// The program's handlers, and their flags.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(libc::SIG_DFL) }; SIGNALS];
static FLAGS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

fn slot(signal: c_int) -> Option<usize> {
    usize::try_from(signal).ok().filter(|signal| *signal < SIGNALS)
}

/// Whether `signal` tells of what this thread has done itself: it can't wait.
fn is_own_fault(signal: c_int) -> bool {
    matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP | libc::SIGABRT | libc::SIGSYS
    )
}

/// Calls the program's handler.
extern "C" fn called(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    let Some(slot) = slot(signal) else { return };
    let (handler, flags) = (HANDLERS[slot].load(Ordering::Acquire), FLAGS[slot].load(Ordering::Acquire) as c_int);
    let can_wait = flags & libc::SA_RESETHAND == 0 && !is_own_fault(signal);
    // SAFETY: the kernel calls it as such a handler, with what it demands.
    if can_wait && crate::sys::local::is_held() && unsafe { hold_back(signal, information, context) } {
        return;
    }
    if flags & libc::SA_RESETHAND != 0 {
        // The kernel has done the same.
        HANDLERS[slot].store(libc::SIG_DFL, Ordering::Relaxed);
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        return;
    }
    if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program said that it is one.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
        handler(signal, information, context);
    } else {
        // SAFETY: the program said that it is one.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
    // Behind it: it may have waited itself.
    handler_called(flags & libc::SA_RESTART != 0);
}

/// # Safety
/// As `sigaction`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let Some(slot) = slot(signal).filter(|_| crate::sys::wishes::wishes().is_some()) else {
        // SAFETY: `new` is null or readable, and `old` is null or writable: the program's duty by sigaction(2).
        return unsafe { libc_next::sigaction(signal, new, old) };
    };
    let had = (HANDLERS[slot].load(Ordering::Acquire), FLAGS[slot].load(Ordering::Acquire));
    let put = |(handler, flags): (sighandler_t, usize)| {
        FLAGS[slot].store(flags, Ordering::Release);
        HANDLERS[slot].store(handler, Ordering::Release);
    };
    // SAFETY: `new` is null or readable, and `old` is null or writable: the program's duty by sigaction(2).
    let mut new = unsafe { new.as_ref() }.copied();
    if let Some(new) = new.as_mut().filter(|new| !matches!(new.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)) {
        put((new.sa_sigaction, new.sa_flags as usize));
        new.sa_sigaction = ours();
        new.sa_flags |= libc::SA_SIGINFO;
    }
    let mut before = MaybeUninit::<Action>::zeroed();
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointer is valid, or null.
    let status = unsafe { libc_next::sigaction(signal, new, before.as_mut_ptr()) };
    if status != 0 {
        put(had);
        return status;
    }
    // SAFETY: `new` is null or readable, and `old` is null or writable: the program's duty by sigaction(2).
    if let Some(old) = unsafe { old.as_mut() } {
        // SAFETY: the structure was zeroed at first, and the call has written it.
        *old = unsafe { before.assume_init() };
        if old.sa_sigaction == ours() {
            old.sa_sigaction = had.0;
            old.sa_flags = old.sa_flags & !libc::SA_SIGINFO | had.1 as c_int & libc::SA_SIGINFO;
        }
    }
    status
}

/// What the kernel calls.
fn ours() -> sighandler_t {
    called as *const () as sighandler_t
}

/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // As BSD has it, and glibc.
    let mut new = Action { sa_sigaction: handler, ..NOTHING };
    new.sa_flags = libc::SA_RESTART;
    let mut old = NOTHING;
    // SAFETY: a valid set; the others are valid too.
    let status = unsafe {
        libc::sigaddset(&raw mut new.sa_mask, signal);
        sigaction(signal, &raw const new, &raw mut old)
    };
    if status == 0 { old.sa_sigaction } else { libc::SIG_ERR }
}

/// No handler, no flags, an empty set.
// SAFETY: plain numbers, and a function that there may not be.
const NOTHING: Action = unsafe { MaybeUninit::<Action>::zeroed().assume_init() };

/// # Safety
/// As `siginterrupt`.
#[unsafe(no_mangle)]
unsafe extern "C" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    let mut action = NOTHING;
    // SAFETY: both pointers are valid.
    unsafe {
        if sigaction(signal, std::ptr::null(), &raw mut action) != 0 {
            return -1;
        }
        if interrupts == 0 {
            action.sa_flags |= libc::SA_RESTART;
        } else {
            action.sa_flags &= !libc::SA_RESTART;
        }
        sigaction(signal, &raw const action, std::ptr::null_mut())
    }
}
