//! Wakers: event descriptors on which waiting threads sleep. They are made before the program forks, so that each of its processes has all
//! of them.

use rustix::io::Errno;
use std::os::fd::RawFd;

/// How many threads, and `epoll` instances, can wait to be woken; further ones look every millisecond.
const COUNT: usize = 64;

pub(crate) struct Wakers {
    descriptors: Vec<RawFd>,
    free: Vec<u16>,
}

/// A waker's index.
pub(crate) type Waker = u16;

impl Wakers {
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn new() -> Result<Wakers, Errno> {
        let descriptors: Vec<RawFd> = (0..COUNT).map(|_| new_event()).collect::<Result<_, _>>()?;
        Ok(Wakers { descriptors, free: (0..COUNT as u16).rev().collect() })
    }

    /// Takes one that is free.
    pub(crate) fn take(&mut self) -> Option<Waker> {
        self.free.pop()
    }

    /// Its descriptor.
    pub(crate) fn descriptor(&self, waker: Waker) -> RawFd {
        self.descriptors.get(usize::from(waker)).copied().unwrap_or(-1)
    }

    /// Clears it and gives it back.
    pub(crate) fn give_back(&mut self, waker: Waker) {
        clear(self.descriptor(waker));
        self.free.push(waker);
    }

    /// Wakes all that sleep.
    pub(crate) fn wake_all(&self) {
        self.descriptors.iter().copied().for_each(wake);
    }

    pub(crate) fn wake(&self, waker: Waker) {
        wake(self.descriptor(waker));
    }
}

/// A new event descriptor, out of the way of those a program numbers itself.
pub(crate) fn new_event() -> Result<RawFd, Errno> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 { Err(crate::sys::libc_next::errno()) } else { Ok(out_of_the_way(fd)) }
}

/// Moves a descriptor to a high number, if there is one.
pub(crate) fn out_of_the_way(fd: RawFd) -> RawFd {
    let high = crate::sys::raised_limits::copy_above(fd, qanat_launch::numbers::OUT_OF_THE_WAY, libc::F_DUPFD_CLOEXEC);
    if high < 0 {
        return fd;
    }
    // SAFETY: ours, and now there twice.
    unsafe { crate::sys::libc_next::close(fd) };
    high
}

pub(crate) fn wake(fd: RawFd) {
    let one = 1u64.to_ne_bytes();
    // A counter that is full is readable, which is all that is wanted.
    // SAFETY: the array has eight readable bytes.
    unsafe { crate::sys::libc_next::write(fd, one.as_ptr().cast(), one.len()) };
}

pub(crate) fn clear(fd: RawFd) {
    let mut count = [0u8; 8];
    // SAFETY: the array has eight writable bytes.
    unsafe { crate::sys::libc_next::read(fd, count.as_mut_ptr().cast(), count.len()) };
}
