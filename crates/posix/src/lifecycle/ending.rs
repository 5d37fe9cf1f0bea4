//! The end of programs whose card is gone for good. All their sockets fail from then on, and many programs go on with that for ever: they
//! serve nobody, and no service manager restarts them, because they have not ended. So the process that ended the world
//! ([`crash_reset`](crate::lifecycle::crash_reset)) ends them as well:
//!
//! ```text
//!  calls fail (ENETDOWN) ── HEED ──▶ a line on standard error, if no process has said it; SIGTERM ── PATIENCE ──▶ SIGKILL
//! ```
//! Only processes that have the card are signalled. In a world that has fallen, the keeper may not do so by itself. There it signals the
//! first process, by the capability that this process [has given](crate::lifecycle::signal_sockets), and not its children.

use crate::lifecycle::signal_sockets::SignalSockets;
use crate::sys::raw::{self, Call};
use crate::sys::sleep::{readable, sleep};
use crate::sys::{explain, watchdog};
use crate::world::end::{HEED, PATIENCE, words};
use crate::world::lock;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

type Members = Vec<(usize, OwnedFd)>;

/// Ends the processes that had the card. Meanwhile this process holds nothing of the world that others could want.
pub(crate) fn end_all(signal_sockets: SignalSockets) {
    let Some(shared) = lock::shared() else { return };
    watchdog::disarm();
    crate::sys::this_process::departure::let_go_of_device();
    let mut keep = signal_sockets.all();
    keep.sort_unstable();
    close_all_but(keep);
    // The first process may be one that this one can't see.
    let is_there = |members: &Members| members.iter().any(|(place, _)| *place == 0);
    let members = shared.pids.members();
    let sees_first = is_there(&members);
    wait(&members, !sees_first, HEED);
    let members = shared.pids.members();
    members.iter().for_each(|(_, process)| tell(process));
    if !sees_first {
        signal_sockets.terminate();
    }
    signal(&members, libc::SIGTERM);
    wait(&members, !sees_first, PATIENCE);
    let members = shared.pids.members();
    if !sees_first {
        signal_sockets.kill();
    }
    signal(&members, libc::SIGKILL);
}

/// Nothing else stays open.
fn close_all_but(keep: [i32; 2]) {
    let mut from = 0;
    for fd in keep.into_iter().filter(|fd| *fd >= 0) {
        close_range(from, fd as usize - 1);
        from = fd as usize + 1;
    }
    close_range(from, u32::MAX as usize);
}

fn close_range(first: usize, last: usize) {
    // SAFETY: takes no pointers; this process uses none of them any more.
    unsafe { raw::call(&Call::new(libc::SYS_close_range, [first, last, 0, 0, 0])) };
}

/// Waits until all have ended, at most for `time`. `is_blind`: the end of one of them can't be seen.
fn wait(members: &Members, is_blind: bool, time: Duration) {
    let end = Instant::now() + time;
    let mut left: Vec<libc::pollfd> = members.iter().map(|(_, process)| readable(process.as_raw_fd())).collect();
    while is_blind || !left.is_empty() {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return;
        }
        // A descriptor of a process is readable when that has ended.
        let _ = sleep(&mut left, Some(rest), std::ptr::null());
        left.retain(|fd| fd.revents == 0);
    }
}

fn signal(members: &Members, signal: libc::c_int) {
    for (_, process) in members {
        let arguments = [process.as_raw_fd() as usize, signal as usize, 0, 0, 0];
        // SAFETY: a null pointer stands for the signal's usual information.
        unsafe { raw::call(&Call::new(libc::SYS_pidfd_send_signal, arguments)) };
    }
}

/// Says what has happened on a process's standard error, if that has not been said there: the process may wait for something else,
/// and make no call of ours before it ends.
fn tell(process: &OwnedFd) {
    let Some(shared) = lock::shared() else { return };
    let arguments = [process.as_raw_fd() as usize, 2, 0, 0, 0];
    // SAFETY: the call takes no pointers.
    let fd = unsafe { raw::call(&Call::new(libc::SYS_pidfd_getfd, arguments)) };
    if fd < 0 {
        return;
    }
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    let its = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    if explain::is_for_words(its.as_raw_fd()) && shared.told.is_first_on(its.as_raw_fd()) {
        explain::say_on(its.as_raw_fd(), format_args!("{}", words(shared.end())));
    }
}
