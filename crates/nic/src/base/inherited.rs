//! Descriptors that a process was started with, known by their numbers.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;

/// The file behind a descriptor that this process was started with, opened anew: for a memory file, from its beginning. No program that
/// this process starts gets either descriptor.
///
/// # Errors
/// There is no such descriptor, or its file can't be opened.
pub fn inherited_file(descriptor: u32) -> io::Result<File> {
    let number = RawFd::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: takes no pointers, and closes and opens nothing: the worst that a wrong number does is that a descriptor of
    // this process is not inherited.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Close-on-exec, as all files of the standard library.
    File::open(format!("/proc/self/fd/{number}"))
}
