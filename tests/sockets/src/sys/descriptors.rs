//! What is done with any descriptor, and others than sockets.

use super::base::*;
use super::data::write;
use std::ptr::null_mut;

/// `ioctl` with an int that is read and written; with its value afterwards.
pub fn ioctl(fd: Fd, request: u64, value: i32) -> (Ret, i32) {
    let mut value = value;
    // SAFETY: the requests cases use take an int's address.
    let ret = Ret::of(unsafe { libc::ioctl(fd, request, &raw mut value) });
    (ret, value)
}

pub fn fcntl(fd: Fd, command: i32, argument: i32) -> Ret {
    // SAFETY: the commands cases use take a number.
    let ret = Ret::of(unsafe { libc::fcntl(fd, command, argument) });
    if ret.is_ok() && [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&command) {
        note_open(ret.fd());
    }
    ret
}

pub fn dup(fd: Fd) -> Ret {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::dup(fd) })
}

pub fn dup2(fd: Fd, onto: Fd) -> Ret {
    // SAFETY: cases name their own descriptors.
    Ret::opened(unsafe { libc::dup2(fd, onto) })
}

pub fn dup3(fd: Fd, onto: Fd, flags: i32) -> Ret {
    // SAFETY: cases name their own descriptors.
    Ret::opened(unsafe { libc::dup3(fd, onto, flags) })
}

/// The reading end, then the writing one.
pub fn pipe(flags: i32) -> (Fd, Fd) {
    let mut both = [-1; 2];
    // SAFETY: room for two descriptors.
    unsafe { libc::pipe2(both.as_mut_ptr(), flags) };
    both.iter().for_each(|fd| note_open(*fd));
    (both[0], both[1])
}

pub fn eventfd(value: u32, flags: i32) -> Fd {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::eventfd(value, flags) }).fd()
}

/// A timer that expires once, `after_ms` from now.
pub fn timerfd(after_ms: i64) -> Fd {
    // SAFETY: takes numbers only.
    let fd = Ret::opened(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) }).fd();
    let when = libc::itimerspec { it_interval: timespec(0), it_value: timespec(after_ms) };
    // SAFETY: the time lives through the call.
    unsafe { libc::timerfd_settime(fd, 0, &raw const when, null_mut()) };
    fd
}

/// A file in memory with these bytes, at its beginning.
pub fn file(bytes: &[u8]) -> Fd {
    // SAFETY: the name is a C string.
    let fd = Ret::opened(unsafe { libc::memfd_create(c"case".as_ptr(), 0) }).fd();
    write(fd, bytes);
    seek(fd, 0);
    fd
}

pub fn seek(fd: Fd, offset: i64) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::lseek(fd, offset, libc::SEEK_SET) })
}

/// The file's position.
pub fn position(fd: Fd) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) })
}

/// The type bits of `fstat`, as a name.
pub fn kind_of(fd: Fd) -> &'static str {
    // SAFETY: all zeroes are a valid stat.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: room for one stat.
    if unsafe { libc::fstat(fd, &raw mut status) } < 0 {
        return "no descriptor";
    }
    match status.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => "socket",
        libc::S_IFIFO => "pipe",
        libc::S_IFREG => "file",
        _ => "other",
    }
}
