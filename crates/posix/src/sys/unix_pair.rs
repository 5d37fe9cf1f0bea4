//! Pairs of Unix sockets that pass on no descriptors or credentials.

use crate::sys::libc_next;
use libc::c_int;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Nothing that the other end might send along is taken, or even closed, here.
pub(crate) fn without_rights(socket: BorrowedFd<'_>) {
    const SO_PASSRIGHTS: c_int = 83;
    let off: c_int = 0;
    // SAFETY: a readable number. Kernels before 6.16 don't know it.
    unsafe {
        libc_next::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
}

pub(crate) fn pair(kind: SocketType) -> Option<(OwnedFd, OwnedFd)> {
    let (own, theirs) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).ok()?;
    without_rights(own.as_fd());
    Some((own, theirs))
}
