//! Pairs of sockets between the daemon, disk cores and applications.

use crate::error::{DaemonError, say};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;

/// A pair of sockets, for messages.
pub(super) fn pair(flags: SocketFlags) -> Result<(OwnedFd, OwnedFd), DaemonError> {
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | flags, None);
    pair.map_err(|error| say("make a pair of sockets", error))
}
