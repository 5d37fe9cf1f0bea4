//! The right to end the first process of a world, which that process gives the keeper as descriptors. The keeper may be a lesser user
//! by the time that it is needed, and could not signal the process by its number; and the number could be another's. The kernel
//! sends a signal to the owner of a socket that becomes readable, if who made it the owner may signal that process.
//!
//! Two connected sockets have one signal each. A datagram at one sends that one's signal. Of datagram sockets the kernel tells nothing
//! when an end is closed, so the death of all who have them signals nobody.

use crate::sys::raised_limits::copy_above;
use crate::sys::{descriptor, libc_next};
use qanat_launch::numbers::OUT_OF_THE_WAY;
use std::os::fd::RawFd;

/// `F_SETSIG`: the signal instead of `SIGIO`.
const SET_SIGNAL: libc::c_int = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Summons {
    /// Sends `SIGTERM` when it becomes readable.
    pub(crate) to_end: RawFd,
    /// Sends `SIGKILL` when it becomes readable.
    pub(crate) to_die: RawFd,
}

impl Summons {
    /// There is none: the process is signalled by its number alone.
    pub(crate) const NONE: Summons = Summons { to_end: -1, to_die: -1 };

    /// For this process, out of the way of the program's descriptors.
    pub(crate) fn for_this() -> Summons {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: room for two.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Summons::NONE;
        }
        let [to_end, to_die] = ends.map(|end| {
            let high = copy_above(end, OUT_OF_THE_WAY, libc::F_DUPFD_CLOEXEC);
            // SAFETY: made just now.
            unsafe { libc_next::close(end) };
            high
        });
        let summons = Summons { to_end, to_die };
        let owned = [(to_end, libc::SIGTERM), (to_die, libc::SIGKILL)].into_iter().all(|(fd, signal)| {
            let flags = libc::O_NONBLOCK | libc::O_ASYNC;
            // SAFETY: none takes pointers.
            unsafe {
                libc_next::fcntl64(fd, libc::F_SETOWN, std::process::id() as libc::c_ulong) == 0
                    && libc_next::fcntl64(fd, SET_SIGNAL, signal as libc::c_ulong) == 0
                    && libc_next::fcntl64(fd, libc::F_SETFL, flags as libc::c_ulong) == 0
            }
        });
        if owned { summons } else { summons.drop_here() }
    }

    pub(crate) fn all(self) -> [RawFd; 2] {
        [self.to_end, self.to_die]
    }

    /// This process has it no more.
    pub(crate) fn drop_here(self) -> Summons {
        for fd in self.all().into_iter().filter(|fd| *fd >= 0) {
            descriptor::set(fd, descriptor::Entry::Kernel);
            // SAFETY: this module's.
            unsafe { libc_next::close(fd) };
        }
        Summons::NONE
    }

    /// The process is sent `SIGTERM`.
    pub(crate) fn end(self) {
        Summons::ring(self.to_die);
    }

    /// The process is sent `SIGKILL`.
    pub(crate) fn kill(self) {
        Summons::ring(self.to_end);
    }

    /// The other end becomes readable.
    fn ring(from: RawFd) {
        // SAFETY: a readable byte.
        unsafe { libc::send(from, b"!".as_ptr().cast(), 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    }
}
