//! The end of this process by its own wish, `exit` or `_exit`: the kernel ends all other threads at once, wherever they are. None of them
//! may be within the world's lock then, or nobody could go on with the stack. So the thread that ends the process lets no other one in.

use crate::sys::local::{LOCAL, Local};
use crate::sys::raw::{self, Call};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The thread that ends this process; 0: none does.
static ENDED_BY: AtomicU32 = AtomicU32::new(0);
/// This process, as the kernel numbers it: a child that borrows its memory is another.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How long a thread stands still at most: an end that doesn't come, because something that is called before waits for this very thread, is
/// none.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_micros(200);

fn system(number: i64) -> u32 {
    // SAFETY: the calls that are used here take no pointers.
    unsafe { raw::call(&Call::new(number, [0; 5])) as u32 }
}

/// Notes which process this is: at its start, and in a child of `fork`.
pub(crate) fn note_process() {
    PROCESS.store(system(libc::SYS_getpid), Ordering::Relaxed);
    ENDED_BY.store(0, Ordering::Relaxed);
}

/// Whether this process is the one that was noted.
pub(crate) fn is_this_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == system(libc::SYS_getpid)
}

/// This thread ends the process.
pub(crate) fn begin() {
    ENDED_BY.store(system(libc::SYS_gettid), Ordering::SeqCst);
}

/// Whether another thread ends this process. It is asked before each call's work: one load if none does.
#[inline]
pub(crate) fn is_under_way(local: &Local) -> bool {
    let thread = ENDED_BY.load(Ordering::Relaxed);
    thread != 0 && is_anothers(thread, local)
}

#[cold]
fn is_anothers(thread: u32, local: &Local) -> bool {
    if local.thread.get() == 0 {
        local.thread.set(system(libc::SYS_gettid));
    }
    thread != local.thread.get()
}

/// Waits for the end, which ends this thread as well.
#[cold]
pub(crate) fn stand_still() {
    let mut left = PATIENCE;
    while ENDED_BY.load(Ordering::Relaxed) != 0 && !left.is_zero() {
        pause();
        left = left.saturating_sub(STEP);
    }
    ENDED_BY.store(0, Ordering::Relaxed);
}

/// Sleeps for a step.
pub(crate) fn pause() {
    let step = libc::timespec { tv_sec: 0, tv_nsec: i64::from(STEP.subsec_nanos()) };
    // SAFETY: the pointer is to a readable time.
    unsafe { raw::call(&Call::new(libc::SYS_nanosleep, [(&raw const step).addr(), 0, 0, 0, 0])) };
}

/// Whether `thread` is one of this process, and not the calling one.
pub(crate) fn is_other_thread(thread: u32) -> bool {
    let own = LOCAL.with(|local| local.thread.get());
    let arguments = [system(libc::SYS_getpid) as usize, thread as usize, 0, 0, 0];
    // SAFETY: the call takes no pointers; signal 0 is none.
    thread != own && unsafe { raw::call(&Call::new(libc::SYS_tgkill, arguments)) } == 0
}
