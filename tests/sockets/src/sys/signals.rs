//! Signals and their handlers.

use super::base::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

static CAUGHT: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];

extern "C" fn count(signal: i32) {
    if let Some(counter) = usize::try_from(signal).ok().and_then(|signal| CAUGHT.get(signal)) {
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// How often the handler ran for this signal since it was set.
pub fn caught(signal: i32) -> u32 {
    usize::try_from(signal).ok().and_then(|signal| CAUGHT.get(signal)).map_or(0, |count| count.load(Ordering::SeqCst))
}

/// What a signal shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    Default,
    Ignore,
    /// Run a handler that counts, with these flags (`SA_RESTART`).
    Count(i32),
}

pub fn on_signal(signal: i32, disposition: Disposition) -> Ret {
    if let Some(counter) = usize::try_from(signal).ok().and_then(|signal| CAUGHT.get(signal)) {
        counter.store(0, Ordering::SeqCst);
    }
    // SAFETY: all zeroes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    match disposition {
        Disposition::Default => action.sa_sigaction = libc::SIG_DFL,
        Disposition::Ignore => action.sa_sigaction = libc::SIG_IGN,
        Disposition::Count(flags) => {
            action.sa_sigaction = count as extern "C" fn(i32) as usize;
            action.sa_flags = flags;
        }
    }
    // SAFETY: the handler only touches an atomic.
    Ret::of(unsafe { libc::sigaction(signal, &raw const action, null_mut()) })
}

/// Blocks or unblocks one signal for this thread.
pub fn block_signal(signal: i32, blocked: bool) {
    // SAFETY: all zeroes are an empty set.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is ours and lives through the calls.
    unsafe {
        libc::sigaddset(&raw mut mask, signal);
        libc::pthread_sigmask(how, &raw const mask, null_mut());
    }
}

/// The calling thread's number in /proc.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// The calling thread, for [`signal_thread`].
pub fn this_thread() -> u64 {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() }
}

/// The thread must not have been joined.
pub fn signal_thread(thread: u64, signal: i32) {
    // SAFETY: cases signal threads they have not joined.
    unsafe { libc::pthread_kill(thread, signal) };
}

pub fn kill(process: i32, signal: i32) -> Ret {
    // SAFETY: cases signal their own children.
    Ret::of(unsafe { libc::kill(process, signal) })
}
