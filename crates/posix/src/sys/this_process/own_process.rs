//! Whether this process is one of the library's own: the keeper, or a process that the keeper has forked.

use std::sync::atomic::{AtomicBool, Ordering};

/// This process is the library's own, and knows what it gives up.
static IS_LIBRARYS: AtomicBool = AtomicBool::new(false);

/// This process is the library's own from now on.
pub(crate) fn stand_aside() {
    IS_LIBRARYS.store(true, Ordering::Relaxed);
}

/// Whether this process is the library's own. Its filter of system calls may not know what the program is asked.
pub(crate) fn is_librarys() -> bool {
    IS_LIBRARYS.load(Ordering::Relaxed)
}
