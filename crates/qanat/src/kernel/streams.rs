//! Connections: what the kernel does with them, and what is asked of it next.
//!
//! Whatever changes something for a stream *touches* it. When the turn ends, each touched one *advances*: it is received, sent, ended or
//! closed, as its state says. So what a service does in one turn leaves in one send.

use super::state::Kernel;
use super::stream::{Finish, Stream};
use qanat_api::{Chunk, CloseReason, ConnectionId, Event, Filled, Piece, SendQueue, Source};
use qanat_nic::Frame;
use qanat_nic::sockets::{Lent, OUTGOING_COPIED_MAX, Outgoing, peer_of, reset_on_close};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// Frames that one stream may hold: a share of those that are free, between these.
const HELD_MIN: u32 = 2;
const HELD_MAX: u32 = 64;
/// The share: one stream leaves so many times as much to others (Choudhury and Hahne's dynamic thresholds).
const HELD_SHARE: u32 = 16;
/// How long a peer may go on speaking to a service that has closed.
const LINGER: Duration = Duration::from_secs(2);
/// Shorter sends are copied: cheaper than to keep track of what was lent.
const COPIED_BYTES: usize = 16 * 1_024;
/// One send takes no more along.
const SEND_BYTES: usize = 256 * 1_024;
/// What is corked waits until there is as much.
const CORKED_BYTES: u64 = 1_448;

/// Why a connection ends, by what the kernel says.
fn reason(error: Errno) -> CloseReason {
    match error {
        Errno::TIMEDOUT => CloseReason::TimedOut,
        Errno::CONNREFUSED => CloseReason::Refused,
        Errno::HOSTUNREACH => CloseReason::Unreachable,
        Errno::NETUNREACH => CloseReason::NetworkUnreachable,
        Errno::NOPROTOOPT => CloseReason::ProtocolUnreachable,
        Errno::ACCESS | Errno::PERM => CloseReason::Prohibited,
        _ => CloseReason::ResetByPeer,
    }
}

/// Takes the first `length` bytes of a prepared object along: what has to be made is copied, what lies in memory is lent. How many it took.
fn fill_prepared(source: &Rc<dyn Source>, stamp: u64, offset: u64, length: usize, outgoing: &mut Outgoing) -> usize {
    let mut copied = 0;
    let mut shared = source.share(stamp, offset).filter(|_| length >= COPIED_BYTES);
    if shared.is_none() {
        copied = length.min(outgoing.copy_room()).min(COPIED_BYTES);
        let Some(target) = outgoing.copy(copied) else { return 0 };
        source.fill(stamp, offset, target);
        shared = source.share(stamp, offset + copied as u64).filter(|_| copied < length);
    }
    let Some(bytes) = shared else { return copied };
    let lent = bytes.len().min(length - copied);
    if outgoing.lend(Lent::Bytes(bytes.slice(..lent))) { copied + lent } else { copied }
}

/// Takes a piece's first `length` bytes along. How many it took.
fn fill_piece(piece: &Piece, length: usize, outgoing: &mut Outgoing) -> usize {
    let lent = match piece {
        Piece::Prepared { source, stamp, offset, .. } => {
            return fill_prepared(source, *stamp, *offset, length, outgoing);
        }
        Piece::Bytes(bytes) => Lent::Bytes(bytes.slice(..length)),
        Piece::Block(block, from) => match &block.0 {
            Filled::Own(bytes) => Lent::Bytes(bytes.slice(*from..*from + length)),
            // All that is left of it: less than a send takes.
            Filled::Transmit(frame) => Lent::Shared(Rc::clone(frame), *from),
        },
    };
    let bytes = lent.bytes().get(..length).unwrap_or_default();
    if length < COPIED_BYTES && length <= outgoing.copy_room() {
        outgoing.copy(length).into_iter().for_each(|target| target.copy_from_slice(bytes));
        return length;
    }
    let count = lent.bytes().len();
    if outgoing.lend(lent) { count } else { 0 }
}

/// Puts together what one send takes along.
fn fill(queue: &SendQueue, outgoing: &mut Outgoing) {
    let whole = usize::try_from(queue.bytes()).unwrap_or(usize::MAX);
    if whole <= COPIED_BYTES {
        outgoing.copy(whole).into_iter().for_each(|target| queue.copy(target));
        return;
    }
    let mut room = SEND_BYTES;
    for piece in queue.pieces() {
        let length = usize::try_from(piece.length()).unwrap_or(usize::MAX).min(room);
        let taken = fill_piece(piece, length, outgoing);
        room = room.saturating_sub(taken);
        if (taken as u64) < piece.length() || room == 0 {
            return;
        }
    }
}
const _: () = assert!(COPIED_BYTES <= OUTGOING_COPIED_MAX);

impl Kernel {
    pub(super) fn id(&self, slot: u32) -> ConnectionId {
        ConnectionId::new(slot, self.streams.generation(slot))
    }

    /// It is looked at when the turn ends.
    #[inline]
    pub(super) fn touch(&mut self, slot: u32) {
        if let Some(stream) = self.streams.at(slot)
            && !std::mem::replace(&mut stream.is_touched, true)
        {
            self.touched.push(slot);
        }
    }

    pub(super) fn add_stream(&mut self, socket: OwnedFd, is_connecting: bool) -> ConnectionId {
        let (slot, generation) = self.streams.add(Stream::new(socket, is_connecting));
        ConnectionId::new(slot, generation)
    }

    /// A peer's connection has come to a listener. `None`: the peer is gone, or there are as many as there may be.
    pub(super) fn admit(&mut self, socket: OwnedFd) -> Option<(ConnectionId, SocketAddr)> {
        if self.streams.count() >= self.options.connections_max {
            self.figures.connections_refused += 1;
            reset_on_close(socket.as_fd());
            self.ring.close(socket);
            return None;
        }
        let Some(peer) = peer_of(socket.as_fd()) else {
            self.ring.close(socket);
            return None;
        };
        self.figures.accepted += 1;
        let id = self.add_stream(socket, false);
        self.touch(id.index() as u32);
        Some((id, peer))
    }

    pub(super) fn connected(&mut self, slot: u32, outcome: Result<(), Errno>) {
        let connection = self.id(slot);
        let Some(stream) = self.streams.at(slot) else { return };
        stream.is_connecting = false;
        match outcome {
            _ if stream.end.is_some() => {}
            Ok(()) => self.events.push_back(Event::Connected { connection }),
            Err(error) => stream.end = Some(reason(error)),
        }
        self.touch(slot);
    }

    /// How many frames one stream may hold now.
    fn held_max(&self) -> u32 {
        (self.ring.frames_free() / HELD_SHARE).clamp(HELD_MIN, HELD_MAX)
    }

    pub(super) fn received(&mut self, slot: u32, outcome: Result<Option<Frame>, Errno>, goes_on: bool) {
        let held_max = self.held_max();
        let connection = self.id(slot);
        let Some(stream) = self.streams.at(slot) else { return };
        stream.is_receiving = goes_on;
        stream.is_stopping &= goes_on;
        match outcome {
            // Nobody hears it.
            Ok(Some(_)) if stream.is_deaf() => {}
            Ok(Some(frame)) => {
                self.figures.receives += 1;
                stream.held += 1;
                if stream.held >= held_max && goes_on && !stream.is_stopping {
                    stream.is_stopping = true;
                    self.figures.receives_paused += 1;
                    self.ring.stop_receiving(stream.socket.as_fd(), slot);
                }
                self.events.push_back(Event::Data { connection, chunk: Chunk::new(frame) });
            }
            Ok(None) => {
                stream.has_heard_end = true;
                if !stream.is_deaf() {
                    self.events.push_back(Event::PeerClosed { connection });
                }
            }
            Err(Errno::NOBUFS) => {
                self.figures.frames_exhausted += 1;
                stream.is_starved = true;
                self.starved.push_back(connection);
            }
            Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {}
            Err(error) => {
                stream.has_heard_end = true;
                stream.end = stream.end.or(Some(reason(error)));
            }
        }
        if !goes_on {
            self.touch(slot);
        }
    }

    pub(super) fn sent(&mut self, slot: u32, outcome: Result<usize, Errno>) {
        let connection = self.id(slot);
        let Some(stream) = self.streams.at(slot) else { return };
        stream.is_sending = false;
        match outcome {
            Ok(bytes) => {
                self.figures.sends += 1;
                stream.queue.skip(bytes);
                if stream.end.is_none() {
                    self.events.push_back(Event::Acked { connection, bytes: bytes as u32 });
                }
            }
            Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {}
            Err(error) => stream.end = stream.end.or(Some(reason(error))),
        }
        self.touch(slot);
    }

    /// Asks for what is to be done next for a stream.
    pub(super) fn advance(&mut self, slot: u32) {
        let held_max = self.held_max();
        let connection = self.id(slot);
        let Some(stream) = self.streams.at(slot) else { return };
        stream.is_touched = false;
        if stream.end.is_some() {
            return self.bury(slot);
        }
        if stream.is_connecting {
            return;
        }
        let may_hold = stream.is_deaf() || stream.held == 0 || 2 * stream.held <= held_max;
        if !stream.is_receiving && !stream.is_starved && !stream.has_heard_end && may_hold {
            stream.is_receiving = true;
            self.ring.receive(stream.socket.as_fd(), slot);
        }
        let waits = stream.is_corked && stream.finish.is_none() && stream.queue.bytes() < CORKED_BYTES;
        if !stream.is_sending && stream.queue.bytes() > 0 && !waits {
            stream.is_sending = self.ring.send(stream.socket.as_fd(), slot, |outgoing| fill(&stream.queue, outgoing));
        }
        if let Some(finish) = stream.finish
            && stream.queue.bytes() == 0
            && !stream.is_sending
            && !stream.has_sent_end
        {
            stream.has_sent_end = true;
            if !stream.has_heard_end {
                // A ring does this by a thread of the kernel's.
                if rustix::net::shutdown(&stream.socket, Shutdown::Write).is_err() {
                    stream.end = Some(CloseReason::ResetByPeer);
                } else if finish == Finish::Close {
                    self.lingering.push_back((self.now + LINGER, connection));
                }
            }
        }
        if stream.has_sent_end && stream.has_heard_end {
            stream.end = stream.end.or(Some(CloseReason::Finished));
        }
        if stream.end.is_some() {
            self.bury(slot);
        }
    }

    /// It has ended: it is closed once the kernel has nothing of it any more.
    fn bury(&mut self, slot: u32) {
        let connection = self.id(slot);
        let Some(stream) = self.streams.at(slot) else { return };
        // A program that ends does not wait until it is closed here: then the kernel does it, in the same way.
        if stream.end == Some(CloseReason::Aborted) && !stream.is_cancelled {
            reset_on_close(stream.socket.as_fd());
        }
        if stream.is_under_way() {
            if !std::mem::replace(&mut stream.is_cancelled, true) {
                self.ring.cancel(stream.socket.as_fd());
            }
            return;
        }
        let Some(stream) = self.streams.remove(slot) else { return };
        let why = stream.end.unwrap_or(CloseReason::Aborted);
        self.ring.close(stream.socket);
        self.events.push_back(Event::Closed { connection, why });
    }

    /// Streams that there was no frame for, when there are some.
    pub(super) fn feed_starved(&mut self) {
        let mut frames = if self.starved.is_empty() { 0 } else { self.ring.frames_free() };
        while frames > HELD_MIN {
            let Some(id) = self.starved.pop_front() else { return };
            frames -= 1;
            if let Some(stream) = self.streams.get_mut((id.index(), id.generation())) {
                stream.is_starved = false;
                self.touch(id.index() as u32);
            }
        }
    }

    /// Streams whose peers have had their time.
    pub(super) fn end_lingering(&mut self) {
        while let Some((_, id)) = self.lingering.front().copied().filter(|(at, _)| *at <= self.now) {
            self.lingering.pop_front();
            if let Some(stream) = self.streams.get_mut((id.index(), id.generation())) {
                stream.end = stream.end.or(Some(CloseReason::Finished));
                self.touch(id.index() as u32);
            }
        }
    }
}
