//! `readv` and `writev` as system calls: rustix makes them itself. The library of `qanat run` has functions of these names, which look
//! every descriptor up; here they would only cost time. `errno` stays what the program's last call left there.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

/// Reads one packet.
pub(super) fn read(fd: BorrowedFd<'_>, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    Ok(rustix::io::readv(fd, pieces)?)
}

/// Writes one packet.
pub(super) fn write(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, pieces)?)
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
