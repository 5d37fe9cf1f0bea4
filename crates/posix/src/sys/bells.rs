//! What a waiting thread is woken by: a number of event descriptors, made before the program forks, so that every process of
//! it has all of them.

use std::os::fd::RawFd;

/// How many threads, and `epoll` instances, can wait to be woken; further ones look every millisecond.
const COUNT: usize = 64;

pub(crate) struct Bells {
    descriptors: Vec<RawFd>,
    free: Vec<u16>,
}

/// The number of a bell.
pub(crate) type Bell = u16;

impl Bells {
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn new() -> Result<Bells, i32> {
        let descriptors: Vec<RawFd> = (0..COUNT).map(|_| new_event()).collect::<Result<_, _>>()?;
        Ok(Bells { descriptors, free: (0..COUNT as u16).rev().collect() })
    }

    /// Takes one that nobody has.
    pub(crate) fn take(&mut self) -> Option<Bell> {
        self.free.pop()
    }

    /// Its descriptor.
    pub(crate) fn descriptor(&self, bell: Bell) -> RawFd {
        self.descriptors.get(usize::from(bell)).copied().unwrap_or(-1)
    }

    /// Silences it and gives it back.
    pub(crate) fn give_back(&mut self, bell: Bell) {
        silence(self.descriptor(bell));
        self.free.push(bell);
    }

    /// Wakes whoever sleeps.
    pub(crate) fn ring_all(&self) {
        self.descriptors.iter().copied().for_each(ring);
    }

    pub(crate) fn ring(&self, bell: Bell) {
        ring(self.descriptor(bell));
    }
}

/// A new event descriptor, out of the way of those a program numbers itself.
pub(crate) fn new_event() -> Result<RawFd, i32> {
    // SAFETY: takes no pointers.
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

pub(crate) fn ring(fd: RawFd) {
    let one = 1u64.to_ne_bytes();
    // A counter that is full is readable, which is all that is wanted.
    // SAFETY: eight readable bytes.
    unsafe { crate::sys::libc_next::write(fd, one.as_ptr().cast(), one.len()) };
}

pub(crate) fn silence(fd: RawFd) {
    let mut count = [0u8; 8];
    // SAFETY: eight writable bytes.
    unsafe { crate::sys::libc_next::read(fd, count.as_mut_ptr().cast(), count.len()) };
}
