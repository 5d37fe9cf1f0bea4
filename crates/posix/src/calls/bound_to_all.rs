//! Streams that the kernel has bound to all addresses. They may become ours later, and they keep others from their ports.

use libc::c_int;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

static BOUND: Mutex<BTreeSet<c_int>> = Mutex::new(BTreeSet::new());

/// The kernel has bound `fd` so.
pub(super) fn note(fd: c_int) {
    BOUND.lock().unwrap_or_else(PoisonError::into_inner).insert(fd);
}

/// Whether one other than `fd` is like that.
pub(super) fn any_other(fd: c_int, is_like_that: impl FnMut(c_int) -> bool) -> bool {
    let bound = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
    bound.iter().copied().filter(|other| *other != fd).any(is_like_that)
}

/// A descriptor of the kernel's is closed.
pub(super) fn closed(fd: c_int) {
    if let Ok(mut bound) = BOUND.try_lock() {
        bound.remove(&fd);
    }
}
