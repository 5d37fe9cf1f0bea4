//! What a thread notes of itself for each call. It is in one place, because a library that is loaded before others reaches its threads' own
//! data by a call (`__tls_get_addr`), one for each variable that is used.

use std::cell::Cell;

/// A thread's notes.
pub(crate) struct Local {
    /// It holds the [lock](crate::world::lock), or is about to, or has just given it back.
    pub(crate) is_held: Cell<bool>,
    /// What it allocates is in the [arena](crate::sys::arena).
    pub(crate) is_inside: Cell<bool>,
    /// Signals, a bit each, that came while it held the lock: they are blocked, and come again when it is given back.
    pub(crate) held_back: Cell<u64>,
    /// Calls that found the world broken.
    pub(crate) broken_calls: Cell<u32>,
    /// The kernel's number of it; 0: not asked for yet.
    pub(crate) thread: Cell<u32>,
    /// Where the C library has its list of robust locks; 0: not asked for yet.
    pub(crate) robust_list: Cell<usize>,
    /// What was noted there before the lock was.
    pub(crate) noted_before: Cell<usize>,
}

thread_local! {
    /// The calling thread's.
    pub(crate) static LOCAL: Local = const {
        Local {
            is_held: Cell::new(false),
            is_inside: Cell::new(false),
            held_back: Cell::new(0),
            broken_calls: Cell::new(0),
            thread: Cell::new(0),
            robust_list: Cell::new(0),
            noted_before: Cell::new(0),
        }
    };
}

/// Whether this thread holds the lock.
pub(crate) fn is_held() -> bool {
    LOCAL.with(|local| local.is_held.get())
}

/// This process is a child, whose thread has another number.
pub(crate) fn forked() {
    LOCAL.with(|local| local.thread.set(0));
}
