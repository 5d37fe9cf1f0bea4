//! Threads of a scripted world that wait in a call, and packets that have left it.

use crate::sys::wakers::Waker;
use qanat::Time;
use std::collections::VecDeque;

/// A thread in the middle of a call.
pub(super) struct Waiter {
    pub(super) thread: i32,
    pub(super) waker: Option<Waker>,
    pub(super) deadline: Option<Time>,
    pub(super) is_asleep: bool,
}

/// What only a scripted world has.
#[derive(Default)]
pub(crate) struct Script {
    pub(super) waiters: Vec<Waiter>,
    /// Threads whose call has just come back to the script.
    pub(super) returned: Vec<i32>,
    /// Packets that have left, and when.
    pub(super) left: VecDeque<(Time, Vec<u8>)>,
}

/// The kernel's number of the calling thread.
pub(super) fn thread() -> i32 {
    // SAFETY: the call takes no pointers.
    unsafe { libc::gettid() }
}

impl Script {
    /// The calling thread has been woken.
    pub(crate) fn wake_up(&mut self) {
        let own = thread();
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.thread == own) {
            waiter.is_asleep = false;
        }
    }
}
