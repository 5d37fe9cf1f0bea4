//! Threads of a scripted world that are in the middle of a call, and packets that have left it.

use crate::sys::bells::Bell;
use qanat::Time;
use std::collections::VecDeque;

/// A thread in the middle of a call.
pub(super) struct Sleeper {
    pub(super) thread: i32,
    pub(super) bell: Option<Bell>,
    pub(super) deadline: Option<Time>,
    pub(super) is_asleep: bool,
}

/// What a scripted world has beside the others' things.
#[derive(Default)]
pub(crate) struct Script {
    pub(super) sleepers: Vec<Sleeper>,
    /// Threads whose call has just come back to the script.
    pub(super) returned: Vec<i32>,
    /// Packets that have left, and when.
    pub(super) left: VecDeque<(Time, Vec<u8>)>,
}

/// The kernel's number of the calling one.
pub(super) fn thread() -> i32 {
    // SAFETY: takes no pointers.
    unsafe { libc::gettid() }
}

impl Script {
    /// The calling thread has been woken.
    pub(crate) fn wake_up(&mut self) {
        let own = thread();
        for sleeper in self.sleepers.iter_mut().filter(|sleeper| sleeper.thread == own) {
            sleeper.is_asleep = false;
        }
    }
}
