//! The right to end the first process of a world, as a capability: that process gives the keeper descriptors of a pair of sockets. The
//! keeper may have fewer rights by the time the capability is needed and could not signal the process by its number. The number could
//! also be another process's by then. The kernel signals the owner of a socket (`F_SETOWN`) when the socket becomes readable, if the
//! process that set the owner may signal it.
//!
//! Each of the two connected sockets has one signal. A datagram that arrives at a socket sends that socket's signal. Closing a datagram
//! socket's peer makes it not readable, so no signal is sent when all processes that have the sockets die.

use crate::sys::raised_limits::copy_above;
use crate::sys::{descriptor, libc_next};
use qanat_launch::numbers::OUT_OF_THE_WAY;
use std::os::fd::RawFd;

/// `F_SETSIG`: the signal instead of `SIGIO`.
const SET_SIGNAL: libc::c_int = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalSockets {
    /// Sends `SIGTERM` when it becomes readable.
    pub(crate) terminate_end: RawFd,
    /// Sends `SIGKILL` when it becomes readable.
    pub(crate) kill_end: RawFd,
}

impl SignalSockets {
    /// There are none: the process is signalled by its number alone.
    pub(crate) const NONE: SignalSockets = SignalSockets { terminate_end: -1, kill_end: -1 };

    /// Makes them for this process, with numbers beyond the program's descriptors.
    pub(crate) fn for_this() -> SignalSockets {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the array has room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return SignalSockets::NONE;
        }
        let [terminate_end, kill_end] = ends.map(|end| {
            let high = copy_above(end, OUT_OF_THE_WAY, libc::F_DUPFD_CLOEXEC);
            // SAFETY: the descriptor was made just now, and nobody else owns it.
            unsafe { libc_next::close(end) };
            high
        });
        let sockets = SignalSockets { terminate_end, kill_end };
        let owned = [(terminate_end, libc::SIGTERM), (kill_end, libc::SIGKILL)].into_iter().all(|(fd, signal)| {
            let flags = libc::O_NONBLOCK | libc::O_ASYNC;
            // SAFETY: none of the calls takes pointers.
            unsafe {
                libc_next::fcntl64(fd, libc::F_SETOWN, std::process::id() as libc::c_ulong) == 0
                    && libc_next::fcntl64(fd, SET_SIGNAL, signal as libc::c_ulong) == 0
                    && libc_next::fcntl64(fd, libc::F_SETFL, flags as libc::c_ulong) == 0
            }
        });
        if owned { sockets } else { sockets.drop_here() }
    }

    pub(crate) fn all(self) -> [RawFd; 2] {
        [self.terminate_end, self.kill_end]
    }

    /// Closes them in this process.
    pub(crate) fn drop_here(self) -> SignalSockets {
        for fd in self.all().into_iter().filter(|fd| *fd >= 0) {
            descriptor::set(fd, descriptor::Entry::Kernel);
            // SAFETY: the descriptor is this module's own.
            unsafe { libc_next::close(fd) };
        }
        SignalSockets::NONE
    }

    /// Sends `SIGTERM` to the process.
    pub(crate) fn terminate(self) {
        SignalSockets::send_to_peer_of(self.kill_end);
    }

    /// Sends `SIGKILL` to the process.
    pub(crate) fn kill(self) {
        SignalSockets::send_to_peer_of(self.terminate_end);
    }

    /// Makes the other end readable, which sends its signal.
    fn send_to_peer_of(from: RawFd) {
        // SAFETY: the pointer is to one readable byte.
        unsafe { libc::send(from, b"!".as_ptr().cast(), 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    }
}
