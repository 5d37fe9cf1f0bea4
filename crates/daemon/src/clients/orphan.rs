//! Handles that an earlier daemon gave out, and how a socket is known again.

use crate::clients::peer::{Identity, Role};
use crate::error::{DaemonError, say};
use crate::state::HandleState;
use rustix::net::sockopt;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Between two looks for orphans that nobody holds any more.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A handle an earlier daemon gave out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphan {
    pub(crate) role: Role,
    pub(crate) handle: HandleState,
}

/// What a socket is known by.
pub(crate) fn identity(socket: &OwnedFd) -> Result<Identity, DaemonError> {
    let failed = |error| say("look at a descriptor", error);
    let cookie = sockopt::socket_cookie(socket).map_err(failed)?;
    Ok(Identity { inode: rustix::fs::fstat(socket).map_err(failed)?.st_ino, cookie })
}

/// Inodes of all Unix sockets of this thread's network namespace.
pub(crate) fn open_sockets() -> Option<HashSet<u64>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    let mut lines = text.lines();
    let column = lines.next()?.split_whitespace().position(|name| name == "Inode")?;
    Some(lines.filter_map(|line| line.split_whitespace().nth(column)?.parse().ok()).collect())
}
