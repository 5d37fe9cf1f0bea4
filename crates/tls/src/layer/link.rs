//! [`Link`]: what is kept of a connection.

use super::shared::{AHEAD_BYTES_MAX, AHEAD_BYTES_MIN};
use crate::session::Session;
use qanat_api::{Chunk, ConnectionId, FilledBlock, SendQueue};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::sync::Arc;

/// What the service has said of a connection's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Nothing.
    Open,
    /// It sends no more, once what it gave is sent.
    ShuttingDown,
    /// That was said to the peer.
    ShutDown,
    /// It is done with the connection, once what it gave is sent.
    Closing,
    /// Nothing more is sent or opened: the service has closed it, or it failed.
    Over,
}

/// See the module.
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    pub(crate) session: Session,
    pub(crate) stage: Stage,
    /// It is in the list of those of which something is to be done.
    pub(crate) is_dirty: bool,
    /// It was looked whether what comes first is a handshake at all.
    pub(crate) is_judged: bool,
    /// The peer's last byte came.
    pub(crate) is_ended: bool,
    /// The service knows that nothing more comes.
    pub(crate) is_end_told: bool,
    /// It waits for a frame.
    pub(crate) is_starved: bool,
    /// Chunks that were not looked at yet, each from an offset on. The receive window bounds them, which they keep shut.
    pub(crate) held: VecDeque<(Chunk, usize)>,
    /// The beginning of a record whose rest is still to come.
    pub(crate) gathered: Vec<u8>,
    /// The peer was told that all is sent.
    pub(crate) is_farewell_sent: bool,
    /// The protocol within that both sides agreed on.
    pub(crate) protocol: Option<Box<[u8]>>,
    /// Frames that the service has.
    pub(crate) lent: u32,
    /// What the service gave, and was not sealed yet.
    pub(crate) queue: SendQueue,
    /// What the stack did not take.
    pub(crate) refused: VecDeque<FilledBlock>,
    /// Of each thing given to the stack: bytes that are not acknowledged, and bytes of content in it.
    sealed: VecDeque<(usize, usize)>,
    /// Sum of the former.
    pub(crate) sealed_bytes: usize,
    /// What they may be.
    pub(crate) ahead_bytes: usize,
}

impl Link {
    pub(crate) fn new(id: ConnectionId, config: &Arc<ServerConfig>) -> Link {
        Link {
            id,
            session: Session::new(config),
            stage: Stage::Open,
            is_dirty: false,
            is_judged: false,
            is_ended: false,
            is_end_told: false,
            is_starved: false,
            held: VecDeque::new(),
            gathered: Vec::new(),
            is_farewell_sent: false,
            protocol: None,
            lent: 0,
            queue: SendQueue::default(),
            refused: VecDeque::new(),
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            ahead_bytes: AHEAD_BYTES_MIN,
        }
    }

    /// So many bytes go to the stack, with so many of content.
    pub(crate) fn note_sealed(&mut self, bytes: usize, content: usize) {
        self.sealed.push_back((bytes, content));
        self.sealed_bytes += bytes;
    }

    /// Whether content was given to the stack that the peer has not acknowledged.
    pub(crate) fn owes_content(&self) -> bool {
        self.sealed.iter().any(|(_, content)| *content > 0)
    }

    /// The peer acknowledged so many bytes. Returns how many of content: a record's when its last byte is.
    pub(crate) fn acknowledged(&mut self, bytes: u32) -> u32 {
        let mut left = bytes as usize;
        // Who takes much at once gets more ahead, as a congestion window grows.
        self.ahead_bytes = (self.ahead_bytes + left).min(AHEAD_BYTES_MAX);
        let mut whole = 0;
        while let Some((waiting, content)) = self.sealed.front_mut() {
            let taken = left.min(*waiting);
            *waiting -= taken;
            left -= taken;
            self.sealed_bytes -= taken;
            if *waiting > 0 {
                break;
            }
            whole += *content;
            self.sealed.pop_front();
        }
        u32::try_from(whole).unwrap_or(u32::MAX)
    }
}
