//! What the service keeps per connection: little while it is idle, the rest in a box only when needed.

use super::flat_range::FlatRange;
use crate::content::{Object, OpenFile};
use qanat::stack::PeerCounts;
use qanat::{Bytes, Chunk, ConnectionId, Time};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Where a connection is between two events.
///
/// ```text
///  Idle ──bytes──▶ Head ──whole──▶ (answer) ──▶ Idle          (a whole head in one chunk never leaves Idle)
///                                     │  ├──▶ Waiting (look-up) ──▶ (answer)
///                                     │  └──▶ Output (more to send than the stack takes, or from disk) ──▶ Idle
///                                     └──▶ Closing, or Lingering (reads and drops) ──▶ Closing
///  Idle ──a stream of HTTP/2──▶ Carrying ──unused──▶ Closing
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// No connection in this slot.
    #[default]
    Free,
    /// Ready for a request.
    Idle,
    /// Part of a request's head is here.
    Head,
    /// Its requests are on streams of HTTP/2, each of which is a connection of its own.
    Carrying,
    /// A reader looks its file up.
    Waiting,
    /// A response is not yet wholly handed to the stack.
    Output,
    /// FIN sent after a refusal; what comes is dropped.
    Lingering,
    /// Closed by us; `Closed` will follow.
    Closing,
}

/// Bytes of a response not yet handed to the stack.
#[derive(Debug)]
pub enum Piece {
    /// Lent memory.
    Bytes(Bytes),
    /// A range of a prepared object.
    Object {
        /// Which.
        object: Rc<Object>,
        /// Its packed stamp.
        stamp: u64,
        /// From which byte of head and body.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// A range of a file, read window by window.
    File {
        /// Which.
        file: Arc<OpenFile>,
        /// From which byte.
        offset: u64,
        /// How many.
        length: u64,
        /// A reader is at the next window.
        reading: bool,
    },
    /// A range of a library's object, read as the peer takes it.
    Flat(FlatRange),
}

impl Piece {
    /// Bytes.
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Object { length, .. } | Piece::File { length, .. } => *length,
            Piece::Flat(range) => range.length(),
        }
    }
}

/// What only a connection in the middle of something needs.
#[derive(Debug, Default)]
pub struct Extra {
    /// The start of a head that came in several chunks; bounded by `head_bytes_max`.
    pub gathered: Vec<u8>,
    /// Received chunks not looked at yet, each from an offset on. Bounded by the receive window, which they keep shut.
    pub held: VecDeque<(Chunk, usize)>,
    /// The head of the request a look-up is for.
    pub waiting: Vec<u8>,
    /// When it began to wait.
    pub waits_since: Option<Time>,
    /// What is to be sent, in order.
    pub output: VecDeque<Piece>,
    /// Close when the output is sent.
    pub close_after: bool,
    /// In the queue for a window.
    pub queued_for_window: bool,
}

impl Extra {
    fn is_empty(&self) -> bool {
        self.gathered.is_empty()
            && self.held.is_empty()
            && self.waiting.is_empty()
            && self.waits_since.is_none()
            && self.output.is_empty()
            && !self.close_after
    }
}

/// A connection's slot.
#[derive(Debug)]
pub struct Connection {
    /// Who.
    pub peer: SocketAddr,
    /// Bytes handed to the stack and not yet acknowledged.
    pub unacknowledged: u64,
    /// See [`Extra`].
    pub extra: Option<Box<Extra>>,
    /// The handle's generation.
    pub generation: u32,
    /// When this phase began, or bytes were last acknowledged; milliseconds, wrapping.
    pub since_ms: u32,
    /// Requests so far.
    pub requests: u32,
    /// Since when its rate is measured, in milliseconds (wrapping, never 0); 0: it is not measured, because it owes us nothing.
    pub measured_ms: u32,
    /// Bytes acknowledged since then.
    pub measured_bytes: u32,
    /// See [`Phase`].
    pub phase: Phase,
    /// The peer has sent FIN.
    pub peer_closed: bool,
    /// Bytes of empty lines before the next request.
    pub blank_bytes: u8,
    /// Pieces of a library that are counted as its peer's.
    pub pieces: u32,
    /// Some of what is not acknowledged lies in windows of large files, or in pieces of a library.
    pub holds_windows: bool,
    /// It came to the port where all is told to ask by HTTPS.
    pub is_redirected: bool,
    /// It is a stream of HTTP/2.
    pub is_stream: bool,
    /// Streams of HTTP/2 are on it, or were.
    pub is_carrier: bool,
}

const _: () = assert!(size_of::<Connection>() <= 96);

impl Connection {
    /// The peer acknowledged so many bytes.
    #[inline]
    pub fn acknowledged(&mut self, bytes: u32) {
        self.unacknowledged = self.unacknowledged.saturating_sub(u64::from(bytes));
        self.measured_bytes = self.measured_bytes.saturating_add(bytes);
        if self.unacknowledged == 0 {
            // It owes nothing: what comes next is measured anew.
            (self.measured_ms, self.holds_windows) = (0, false);
        }
    }

    /// Whether it has acknowledged fewer than `rate` bytes a second for as long as `period`, at `now_ms`.
    pub fn is_slower_than(&mut self, rate: u32, period: Duration, now_ms: u32) -> bool {
        let elapsed = Duration::from_millis(u64::from(now_ms.wrapping_sub(self.measured_ms)));
        if self.measured_ms != 0 && elapsed < period {
            return false;
        }
        let least = u128::from(rate) * elapsed.as_millis() / 1_000;
        let is_slow = self.measured_ms != 0 && u128::from(self.measured_bytes) < least;
        (self.measured_ms, self.measured_bytes) = (now_ms | 1, 0);
        is_slow
    }

    const FREE: Connection = Connection {
        peer: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        unacknowledged: 0,
        extra: None,
        generation: 0,
        since_ms: 0,
        requests: 0,
        measured_ms: 0,
        measured_bytes: 0,
        phase: Phase::Free,
        peer_closed: false,
        blank_bytes: 0,
        pieces: 0,
        holds_windows: false,
        is_redirected: false,
        is_stream: false,
        is_carrier: false,
    };

    /// The box. It is made when it is first asked for.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Lets the box go if nothing is in it.
    #[inline]
    pub fn tidy(&mut self) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_empty()) {
            self.extra = None;
        }
    }

    /// What it waits for, of the file that is first in its output, has come: `bytes` lie in the file from `start` on.
    pub fn take_window(&mut self, start: u64, bytes: Bytes) {
        let Some(extra) = self.extra.as_mut() else { return };
        let Some(Piece::File { offset, length, reading, .. }) = extra.output.front_mut() else { return };
        *reading = false;
        let from = offset.saturating_sub(start).min(bytes.len() as u64);
        let count = (bytes.len() as u64 - from).min(*length);
        *offset += count;
        *length -= count;
        extra.output.push_front(Piece::Bytes(bytes.slice(from as usize..(from + count) as usize)));
        self.holds_windows = true;
    }

    /// Whether output is queued.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| !extra.output.is_empty())
    }

    /// Whether received bytes are held back.
    #[inline]
    pub fn has_held(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| !extra.held.is_empty())
    }
}

/// All connections, by [`ConnectionId::index`].
#[derive(Debug, Default)]
pub struct Connections {
    slots: Vec<Connection>,
    open: usize,
    open_of: PeerCounts,
}

impl Connections {
    /// The connection, unless it is gone.
    #[inline]
    pub fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slots
            .get_mut(id.index())
            .filter(|connection| connection.generation == id.generation() && connection.phase != Phase::Free)
    }

    /// Takes in a new connection.
    pub fn insert(&mut self, id: ConnectionId, peer: SocketAddr, now_ms: u32) {
        if id.index() >= self.slots.len() {
            self.slots.resize_with(id.index() + 1, || Connection::FREE);
        }
        if let Some(slot) = self.slots.get_mut(id.index()) {
            if slot.phase == Phase::Free {
                self.open += 1;
            } else {
                self.open_of.remove(slot.peer.ip());
            }
            self.open_of.add(peer.ip());
            let (generation, phase) = (id.generation(), Phase::Idle);
            *slot = Connection { peer, generation, phase, since_ms: now_ms, ..Connection::FREE };
        }
    }

    /// Forgets a connection; what it held is dropped.
    pub fn remove(&mut self, id: ConnectionId) -> bool {
        let Some(slot) = self.get(id) else { return false };
        let peer = std::mem::replace(slot, Connection::FREE).peer;
        self.open -= 1;
        self.open_of.remove(peer.ip());
        true
    }

    /// Connections open.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Whether one peer has `share` connections or more.
    pub fn has_share(&self, peer: SocketAddr, share: usize) -> bool {
        self.open_of.reaches(peer.ip(), share)
    }

    /// Slots, used or not.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// The handle of the connection in slot `index`.
    pub fn id_at(&self, index: usize) -> Option<ConnectionId> {
        let slot = self.slots.get(index)?;
        (slot.phase != Phase::Free).then(|| ConnectionId::new(index as u32, slot.generation))
    }
}
