//! `--explain`: which sockets are ours, which went to the kernel and why, a line each.

use std::fmt;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// Where to; as the launcher says in the environment.
const VARIABLE: &str = "QANAT_EXPLAIN";

/// The descriptor; -1: nobody wants to know, or it is not known yet. No lock and no memory: who asks may be the program's allocator,
/// which closes a file while it gets ready.
static TARGET: AtomicI32 = AtomicI32::new(-1);

/// The library has been loaded.
pub(crate) fn start() {
    let fd = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    TARGET.store(fd.unwrap_or(-1), Ordering::Relaxed);
}

fn target() -> Option<RawFd> {
    Some(TARGET.load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
}

/// Whether `fd` is where it is said: programs that close what they don't know of don't mean it.
pub(crate) fn is_said_by(fd: RawFd) -> bool {
    target() == Some(fd)
}

/// Whether somebody wants to know.
pub(crate) fn is_explaining() -> bool {
    target().is_some()
}

/// Says a line, if somebody wants to know.
pub(crate) fn explain(words: fmt::Arguments<'_>) {
    if let Some(fd) = target() {
        let line = format!("qanat: {} {words}\n", std::process::id());
        // SAFETY: so many readable bytes.
        unsafe { crate::real::write(fd, line.as_ptr().cast(), line.len()) };
    }
}

/// Says what the user must know in any case, on standard error.
pub(crate) fn warn(words: fmt::Arguments<'_>) {
    let line = format!("qanat: {words}\n");
    // SAFETY: so many readable bytes.
    unsafe { crate::real::write(2, line.as_ptr().cast(), line.len()) };
}
