//! Sleeping on descriptors, in the kernel.

use crate::sys::libc_next;
use libc::{c_int, pollfd, sigset_t, timespec};
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::time::Duration;

pub(crate) fn timespec_of(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Sleeps on `fds`; `Err`: a signal, or what else the kernel says.
pub(crate) fn sleep(fds: &mut [pollfd], time: Option<Duration>, mask: *const sigset_t) -> Result<c_int, Errno> {
    let timeout = time.map(timespec_of);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: so many descriptors; timeout and mask are valid or null.
    let count = unsafe { libc_next::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, mask) };
    if count < 0 { Err(libc_next::errno()) } else { Ok(count) }
}

pub(crate) fn readable(fd: RawFd) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}
