//! `readv` and `writev` as system calls. The library of `qanat run` has functions of these names, which look every descriptor up; here
//! they would only cost time.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

fn outcome(result: i64) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

/// Reads one packet.
pub(super) fn read(fd: BorrowedFd<'_>, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    // SAFETY: `IoSliceMut` is an `iovec` (its documentation promises it), and these are live and borrowed mutably.
    outcome(unsafe { libc::syscall(libc::SYS_readv, fd.as_raw_fd(), pieces.as_mut_ptr(), pieces.len()) })
}

/// Writes one packet.
pub(super) fn write(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: `IoSlice` is an `iovec` (its documentation promises it), and these are live.
    outcome(unsafe { libc::syscall(libc::SYS_writev, fd.as_raw_fd(), pieces.as_ptr(), pieces.len()) })
}
