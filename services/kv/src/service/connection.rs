//! [`Connection`]: what is kept of a connection besides its session.

use crate::resp::request::Request;
use qanat::{Bytes, Chunk, ConnectionId};
use qanat_store::Position;
use std::collections::VecDeque;

/// A piece of answers that is not sent yet.
#[derive(Debug)]
pub struct Piece {
    /// The record that has to be durable before it leaves.
    pub gate: Option<Position>,
    /// The piece.
    pub bytes: Bytes,
    /// Answers that begin with it: if the record never becomes durable, each of them is an error instead.
    pub answers: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Connection {
    /// Whose it is; none: nobody's.
    pub id: Option<ConnectionId>,
    /// A request that has come in part.
    pub request: Request,
    /// What has come of it, if it did not come in one chunk.
    pub gathered: Vec<u8>,
    /// Chunks that were not looked at yet, each from an offset on. The receive window bounds them, which they keep shut.
    pub held: VecDeque<(Chunk, usize)>,
    /// What is to be sent, in order.
    pub output: VecDeque<Piece>,
    /// Bytes of that.
    pub queued: u64,
    /// Bytes that were sent and not acknowledged yet.
    pub unacknowledged: u64,
    /// The peer says no more.
    pub peer_closed: bool,
    /// It was told to close: `Closed` follows.
    pub is_closing: bool,
    /// It waits for the log, and is in the list of those.
    pub is_gated: bool,
}

impl Connection {
    /// Of a peer that has just come.
    pub fn new(id: ConnectionId) -> Connection {
        Connection { id: Some(id), ..Connection::default() }
    }

    /// Bytes that it owes, or is owed.
    pub fn backlog(&self) -> u64 {
        self.queued + self.unacknowledged
    }

    /// Adds a piece to what is to be sent.
    pub fn push(&mut self, piece: Piece) {
        self.queued += piece.bytes.len() as u64;
        self.output.push_back(piece);
    }
}
