//! Eventfds: descriptors on which an idle end of a device sleeps.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A silent eventfd.
pub(crate) fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
