//! An end for a helper that is led in circles. The members of a world that has fallen can write it at any time. They can make
//! a lock that nobody gives back, or a list that is a ring, so that driving the world never ends. The members lose nothing that was
//! not theirs to lose, but the card would stay taken after they have ended. So the kernel ends a helper that makes no progress, and
//! the world goes with it.

use std::time::Duration;

/// A look at the world takes less.
const PATIENCE: Duration = Duration::from_secs(10);

/// The signal has its effect from now on: to be called before the process confines itself.
pub(crate) fn let_in() {
    // SAFETY: the default action is no function that could be called at a wrong time.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
}

/// This process ends if it does not say within [`PATIENCE`] that it goes on.
pub(crate) fn arm() {
    set(PATIENCE);
}

/// It has come to the end of what could take for ever.
pub(crate) fn disarm() {
    set(Duration::ZERO);
}

fn set(time: Duration) {
    let once = libc::timeval { tv_sec: time.as_secs() as libc::time_t, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: once };
    // SAFETY: the timer is read in the call; the helper has no other use of this one.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}
