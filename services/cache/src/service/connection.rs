//! [`Connection`]: what is kept of a connection besides its session.

use crate::session::Session;
use qanat::{Bytes, Chunk, ConnectionId, Time};
use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub struct Connection {
    /// Whose it is; none: nobody's.
    pub id: Option<ConnectionId>,
    pub session: Session,
    /// Chunks that were not looked at yet, each from an offset on. The receive window bounds them, which they keep shut.
    pub held: VecDeque<(Chunk, usize)>,
    /// What the stack had no room for.
    pub output: VecDeque<Bytes>,
    /// Bytes of that.
    pub queued: u64,
    /// Bytes that were sent and not acknowledged yet.
    pub unacknowledged: u64,
    /// When the peer said something, or acknowledged something.
    pub moved_at: Time,
    /// Since when it has held memory that others need, as far as anybody looked; and bytes that moved since.
    pub holds_since: Option<Time>,
    pub moved_bytes: u64,
    /// It let others go first, and is in the list of those.
    pub is_unfinished: bool,
    /// The peer says no more.
    pub peer_closed: bool,
    /// It was told to close: `Closed` follows.
    pub is_closing: bool,
}

impl Connection {
    /// Of a peer that has just come.
    pub fn new(id: ConnectionId, is_authenticated: bool, now: Time) -> Connection {
        Connection { id: Some(id), session: Session::new(is_authenticated), moved_at: now, ..Connection::default() }
    }

    /// Bytes that it is owed.
    pub fn backlog(&self) -> u64 {
        self.queued + self.unacknowledged
    }

    /// Whether it holds memory that others might need: answers that it does not take, or a value that does not come.
    pub fn holds_memory(&self) -> bool {
        self.backlog() > 0 || !self.session.is_between_requests()
    }
}
