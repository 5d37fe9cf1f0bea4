//! `--explain`: which sockets are ours, which went to the kernel and why, a line each.

use std::fmt;
use std::os::fd::RawFd;
use std::sync::OnceLock;

/// Where to; as the launcher says in the environment.
const VARIABLE: &str = "QANAT_EXPLAIN";

fn target() -> Option<RawFd> {
    static TARGET: OnceLock<Option<RawFd>> = OnceLock::new();
    *TARGET.get_or_init(|| std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()))
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
