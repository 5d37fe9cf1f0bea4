//! [`Carrier`]: what is kept of a connection that speaks HTTP/2.

use super::guard::Guard;
use super::ledger::{Ledger, Owner};
use super::limits::Http2Limits;
use super::stream::Stream;
use super::streams::Streams;
use crate::error::ErrorCode;
use crate::frame::{kind, write};
use crate::hpack::Decoder;
use crate::settings::{WINDOW, ours};
use qanat_api::{CommandError, Commands, ConnectionId, ListenerId, Piece};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

/// Bytes of answers to frames that the peer may leave unacknowledged.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes given to the connection ahead of the acknowledgements, at first, where it is not known what the windows let go.
const AHEAD_BYTES_MIN: usize = 128 << 10;
/// The same, at most.
const AHEAD_BYTES_MAX: usize = 2 << 20;

/// How the connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Open,
    /// No more requests are taken. It ends with the streams that there are.
    GoingAway,
    /// It ends when the peer has been told why.
    Failed,
    /// It was closed. What comes is dropped.
    Over,
}

/// A block of fields that is not whole yet.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) is_last: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) frames: usize,
}

/// See the module.
pub(super) struct Carrier {
    pub(super) id: ConnectionId,
    pub(super) below: ConnectionId,
    pub(super) listener: ListenerId,
    pub(super) peer: SocketAddr,
    pub(super) phase: Phase,
    /// It is in the list of those of which something is to be done.
    pub(super) is_dirty: bool,
    /// The peer's first frame came.
    pub(super) is_begun: bool,
    /// The beginning of a frame.
    pub(super) input: Vec<u8>,
    pub(super) block: Option<Block>,
    pub(super) decoder: Decoder,
    pub(super) streams: Streams,
    /// Of these, those that are not over.
    pub(super) open: u32,
    pub(super) requests: u32,
    /// Bytes of heads whose content is still to come.
    pub(super) waiting_bytes: usize,
    pub(super) guard: Guard,
    /// What may be sent on all streams.
    pub(super) window: i64,
    /// What may be sent on a stream that begins.
    pub(super) initial_window: i64,
    /// What may come on all streams.
    pub(super) receive_window: i64,
    /// Answers of the layer's own, to be sent before anything else.
    answers: Vec<u8>,
    /// What the connection below did not take.
    refused: VecDeque<Piece>,
    pub(super) ledger: Ledger,
    ahead_bytes: usize,
    /// Streams that may have something to send, in the order of their turns.
    pub(super) ready: VecDeque<ConnectionId>,
}

impl Carrier {
    /// A connection whose preface came.
    pub(super) fn new(
        id: ConnectionId,
        below: ConnectionId,
        (listener, peer): (ListenerId, SocketAddr),
        limits: Http2Limits,
    ) -> Carrier {
        let mut answers = Vec::new();
        write(kind::SETTINGS, 0, 0, &ours(limits.streams_max, limits.head_bytes_max), &mut answers);
        Carrier {
            id,
            below,
            listener,
            peer,
            phase: Phase::Open,
            is_dirty: false,
            is_begun: false,
            input: Vec::new(),
            block: None,
            decoder: Decoder::default(),
            streams: Streams::default(),
            open: 0,
            requests: 0,
            waiting_bytes: 0,
            guard: Guard::default(),
            window: WINDOW,
            initial_window: WINDOW,
            receive_window: WINDOW,
            answers,
            refused: VecDeque::new(),
            ledger: Ledger::default(),
            ahead_bytes: AHEAD_BYTES_MIN,
            ready: VecDeque::new(),
        }
    }

    /// Whether what comes is looked at.
    pub(super) fn is_heard(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::GoingAway)
    }

    /// Sends a frame before all content.
    pub(super) fn answer(&mut self, kind: u8, flags: u8, stream: u32, content: &[u8]) {
        write(kind, flags, stream, content, &mut self.answers);
    }

    /// What [`answer`](Carrier::answer) appends to.
    pub(super) fn answers(&mut self) -> &mut Vec<u8> {
        &mut self.answers
    }

    /// Whether the peer asks for answers faster than it takes them.
    pub(super) fn owes_too_many_answers(&self) -> bool {
        self.answers.len() + self.ledger.layer_bytes() > ANSWER_BYTES_MAX
    }

    /// Tells the peer which stream was the last, and why no other is taken.
    pub(super) fn say_goodbye(&mut self, code: ErrorCode) {
        let content = [self.streams.last().to_be_bytes(), (code as u32).to_be_bytes()].concat();
        self.answer(kind::GOAWAY, 0, 0, &content);
    }

    /// No more requests are taken.
    pub(super) fn go_away(&mut self) {
        if self.phase == Phase::Open {
            self.say_goodbye(ErrorCode::NoError);
            self.phase = Phase::GoingAway;
        }
    }

    /// Tells the peer that a stream is over.
    pub(super) fn say_reset(&mut self, number: u32, code: ErrorCode) {
        self.answer(kind::RST_STREAM, 0, number, &(code as u32).to_be_bytes());
        self.streams.note_reset(number);
    }

    /// A stream may have something to send.
    pub(super) fn make_ready(&mut self, stream: &mut Stream, id: ConnectionId) {
        if !std::mem::replace(&mut stream.is_ready, true) {
            self.ready.push_back(id);
        }
    }

    /// The peer acknowledged so many bytes more.
    pub(super) fn note_acknowledged(&mut self, bytes: usize) {
        // Who takes much at once gets more ahead, as a congestion window grows.
        self.ahead_bytes = (self.ahead_bytes + bytes).min(AHEAD_BYTES_MAX);
    }

    /// How much content may be given to the connection now.
    pub(super) fn room<C: Commands>(&self, unsent_bytes: i64, below: &C) -> i64 {
        match below.send_room(self.below) {
            Some(room) => room + unsent_bytes,
            None => self.ahead_bytes as i64 - self.ledger.bytes() as i64,
        }
    }

    /// Gives what waits to the connection below; whether it took all.
    pub(super) fn flush<C: Commands>(&mut self, below: &mut C) -> bool {
        if !self.answers.is_empty() {
            let answers = std::mem::take(&mut self.answers);
            self.ledger.note(answers.len(), Owner::Layer);
            self.give(Piece::Bytes(answers.into()), below);
        }
        while let Some(piece) = self.refused.pop_front() {
            if is_refused(self.below, &piece, below) {
                self.refused.push_front(piece);
                return false;
            }
        }
        true
    }

    /// Gives something to the connection below. What it does not take now goes first the next time.
    pub(super) fn give<C: Commands>(&mut self, piece: Piece, below: &mut C) {
        if !self.refused.is_empty() || is_refused(self.below, &piece, below) {
            self.refused.push_back(piece);
        }
    }

    /// Whether something waits because the connection below did not take it.
    pub(super) fn is_held_up(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Nothing more is sent.
    pub(super) fn drop_output(&mut self) {
        self.answers.clear();
        self.refused.clear();
        self.ready.clear();
    }

    /// It is reset below.
    pub(super) fn forsake(&mut self) {
        self.phase = Phase::Over;
        self.drop_output();
    }
}

/// Whether the connection can't take a piece now. If it refuses it for another reason it is gone, and its end is on its way.
fn is_refused<C: Commands>(connection: ConnectionId, piece: &Piece, below: &mut C) -> bool {
    let outcome = match piece {
        Piece::Bytes(bytes) => below.send(connection, bytes.clone()),
        Piece::Block(block, from) => {
            let bytes = block.clone().into_bytes();
            below.send(connection, bytes.slice((*from).min(bytes.len())..))
        }
        Piece::Prepared { source, stamp, offset, length } => {
            below.send_prepared(connection, Rc::clone(source), *stamp, *offset, *length)
        }
    };
    outcome == Err(CommandError::Full)
}
