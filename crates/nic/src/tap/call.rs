//! `readv` and `writev` as system calls. The library of `qanat run` has functions of these names, which look every descriptor up; here
//! they would only cost time. `errno` stays what the program's last call left there.

use crate::base::errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

fn outcome(call: impl FnOnce() -> i64) -> io::Result<usize> {
    errno::kept(|| usize::try_from(call()).map_err(|_| io::Error::last_os_error()))
}

/// Reads one packet.
pub(super) fn read(fd: BorrowedFd<'_>, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    // SAFETY: `IoSliceMut` is an `iovec` (its documentation promises it), and these are live and borrowed mutably.
    outcome(|| unsafe { libc::syscall(libc::SYS_readv, fd.as_raw_fd(), pieces.as_mut_ptr(), pieces.len()) })
}

/// Writes one packet.
pub(super) fn write(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: `IoSlice` is an `iovec` (its documentation promises it), and these are live.
    outcome(|| unsafe { libc::syscall(libc::SYS_writev, fd.as_raw_fd(), pieces.as_ptr(), pieces.len()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn an_empty_queue_says_nothing_to_the_program() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        // SAFETY: this thread's own word.
        unsafe { *libc::__errno_location() = libc::EINPROGRESS };
        let mut bytes = [0; 8];
        let said = read(ours.as_fd(), &mut [IoSliceMut::new(&mut bytes)]);
        let kept = io::Error::last_os_error().raw_os_error();
        assert_eq!(said.unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        assert_eq!(kept, Some(libc::EINPROGRESS));
        let said = write(ours.as_fd(), &[IoSlice::new(b"packet")]);
        assert_eq!(said.unwrap(), 6);
    }
}
