//! Streams (RFC 7766): messages with their length before them, any number under way, answered in order.
//!
//! A client that does not read holds no more than [`PIPELINE_BYTES`] of answers and its receive window of requests: while
//! answers are not acknowledged, received bytes are not given back, which keeps the window shut.

use super::{DnsService, TcpLimits};
use crate::answer::{Fate, Origin, Transport};
use crate::transfer::{Outgoing, Reply, Way};
use qanat::stack::PeerCounts;
use qanat::{Bytes, Chunk, Commands, ConnectionId, Context, Setting, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Unacknowledged answers beyond which a connection waits.
const PIPELINE_BYTES: usize = 256 * 1_024;
/// Answers given to the stack at once.
const BATCH_BYTES: usize = 64 * 1_024;
/// A length and the longest message.
pub(super) const MESSAGE_BYTES: usize = 2 + 65_535;

/// A connection's state.
#[derive(Default)]
pub(super) struct Stream {
    /// Who; `None`: the slot is free.
    peer: Option<SocketAddr>,
    generation: u32,
    /// The start of a message that came in several chunks, its length first.
    gathered: Vec<u8>,
    /// Chunks not looked at yet, each from an offset on. Bounded by the receive window, which they keep shut.
    held: VecDeque<(Chunk, usize)>,
    unacknowledged: usize,
    /// When a request was last whole, or something was acknowledged. (The bytes of a request do not count: one a second would keep
    /// a connection for ever.)
    active: Time,
    /// Since when its rate is measured, and bytes acknowledged since then; `None`: it has no answers to take.
    measured: Option<(Time, usize)>,
    /// The client sends no more: close when all is answered.
    ending: bool,
    /// A zone on its way: what the client asks meanwhile waits.
    outgoing: Option<Box<Outgoing>>,
}

impl Stream {
    /// Whether the client has taken fewer than `rate` bytes a second of its answers for as long as `period`.
    fn is_slower_than(&mut self, rate: u32, period: Duration, now: Time) -> bool {
        if self.unacknowledged == 0 {
            return false;
        }
        let (since, count) = *self.measured.get_or_insert((now, 0));
        let elapsed = now.since(since);
        if elapsed < period {
            return false;
        }
        self.measured = Some((now, 0));
        (count as u128) < u128::from(rate) * elapsed.as_millis() / 1_000
    }
}

/// All streams, by [`ConnectionId::index`].
#[derive(Default)]
pub(super) struct Streams {
    slots: Vec<Stream>,
    open: usize,
    open_of: PeerCounts,
}

impl Streams {
    pub(super) fn open(&self) -> usize {
        self.open
    }

    fn get(&mut self, id: ConnectionId) -> Option<&mut Stream> {
        self.slots.get_mut(id.index()).filter(|stream| stream.peer.is_some() && stream.generation == id.generation())
    }

    fn insert(&mut self, id: ConnectionId, peer: SocketAddr, now: Time) {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, Stream::default);
        }
        if let Some(slot) = self.slots.get_mut(id.index()) {
            match slot.peer {
                Some(before) => self.open_of.remove(before.ip()),
                None => self.open += 1,
            }
            self.open_of.add(peer.ip());
            *slot = Stream { peer: Some(peer), generation: id.generation(), active: now, ..Stream::default() };
        }
    }

    fn remove(&mut self, id: ConnectionId) {
        if let Some(stream) = self.get(id) {
            let peer = std::mem::take(stream).peer;
            self.open -= 1;
            if let Some(peer) = peer {
                self.open_of.remove(peer.ip());
            }
        }
    }

    fn ids(&self) -> Vec<ConnectionId> {
        let open = self.slots.iter().enumerate().filter(|(_, stream)| stream.peer.is_some());
        open.map(|(index, stream)| ConnectionId::new(index as u32, stream.generation)).collect()
    }
}

/// What a message was.
enum Taken {
    /// Answered, or nothing to answer.
    Yes,
    /// A zone is to be sent first.
    Transfer(Box<Outgoing>),
    /// No message of a client: the connection ends.
    Nonsense,
}

impl DnsService {
    pub(super) fn accepted(&mut self, id: ConnectionId, peer: SocketAddr, context: &mut Context<'_>) {
        if self.stopping || self.streams.open() >= self.config.tcp.connections_max {
            self.figures.connections_refused += 1;
            let _ = context.refuse(id);
            return;
        }
        if self.streams.open_of.reaches(peer.ip(), self.config.tcp.connections_per_peer) {
            self.figures.connections_refused += 1;
            self.figures.connections_refused_peer += 1;
            let _ = context.refuse(id);
            return;
        }
        self.figures.connections += 1;
        // Answers of one batch are one write: waiting for more to fill a segment gains nothing.
        let _ = context.set(id, Setting::NoDelay(true));
        self.streams.insert(id, peer, context.now());
    }

    pub(super) fn data(&mut self, id: ConnectionId, chunk: Chunk, context: &mut Context<'_>) {
        match self.streams.get(id) {
            Some(stream) => {
                stream.held.push_back((chunk, 0));
                self.pump(id, context);
            }
            None => context.consume(id, chunk),
        }
    }

    pub(super) fn acknowledged(&mut self, id: ConnectionId, bytes: usize, context: &mut Context<'_>) {
        let now = context.now();
        if let Some(stream) = self.streams.get(id) {
            stream.unacknowledged = stream.unacknowledged.saturating_sub(bytes);
            stream.active = now;
            stream.measured = match stream.measured {
                Some((since, count)) if stream.unacknowledged > 0 => Some((since, count + bytes)),
                _ => None,
            };
            self.pump(id, context);
        }
    }

    pub(super) fn peer_closed(&mut self, id: ConnectionId, context: &mut Context<'_>) {
        if let Some(stream) = self.streams.get(id) {
            stream.ending = true;
            self.pump(id, context);
        }
    }

    pub(super) fn closed(&mut self, id: ConnectionId) {
        self.streams.remove(id);
    }

    /// Answers what is held while there is room for answers.
    fn pump(&mut self, id: ConnectionId, context: &mut Context<'_>) {
        loop {
            let Some(stream) = self.streams.get(id) else { return };
            if stream.unacknowledged >= PIPELINE_BYTES {
                return;
            }
            if stream.outgoing.is_some() {
                if !self.send_zone(id, context) {
                    return;
                }
                continue;
            }
            let Some((chunk, offset)) = stream.held.pop_front() else {
                if stream.ending {
                    // What was given to send goes out first.
                    let _ = context.close(id);
                }
                return;
            };
            // Bytes lent to the stack must outlive this call: one allocation a batch.
            let mut out = Vec::new();
            let (offset, nonsense) = self.feed(id, chunk.bytes(), offset, &mut out);
            if nonsense {
                self.figures.connections_broken += 1;
                context.consume(id, chunk);
                let _ = context.abort(id);
                return;
            }
            let Some(stream) = self.streams.get(id) else { return };
            if offset < chunk.len() {
                stream.held.push_front((chunk, offset));
            } else {
                context.consume(id, chunk);
            }
            if !out.is_empty() {
                stream.active = context.now();
                stream.unacknowledged += out.len();
                if context.send(id, Bytes::from(out)).is_err() {
                    self.figures.not_sent += 1;
                    let _ = context.abort(id);
                    return;
                }
            }
        }
    }

    /// Sends the next message of a zone on its way; false: the connection is over.
    fn send_zone(&mut self, id: ConnectionId, context: &mut Context<'_>) -> bool {
        let now_s = self.now_s().into();
        let Some(stream) = self.streams.get(id) else { return false };
        let Some(outgoing) = &mut stream.outgoing else { return true };
        let Some(message) = outgoing.next_message(now_s) else {
            let broken = outgoing.is_broken();
            stream.outgoing = None;
            if broken {
                let _ = context.abort(id);
            }
            return !broken;
        };
        // One allocation and copy a message of some 16 KiB, on a path that is not that of answers.
        let mut bytes = Vec::with_capacity(message.len() + 2);
        bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&message);
        stream.unacknowledged += bytes.len();
        self.figures.answer_bytes += message.len() as u64;
        let sent = context.send(id, Bytes::from(bytes)).is_ok();
        if !sent {
            self.figures.not_sent += 1;
            let _ = context.abort(id);
        }
        sent
    }

    /// Answers messages in `bytes` from `offset` on into `out`, about [`BATCH_BYTES`] of it; gives how far it came, and
    /// whether the connection should end.
    fn feed(&mut self, id: ConnectionId, bytes: &[u8], offset: usize, out: &mut Vec<u8>) -> (usize, bool) {
        let mut at = offset;
        while at < bytes.len() && out.len() < BATCH_BYTES {
            let Some(stream) = self.streams.get(id) else { return (bytes.len(), false) };
            let Some(peer) = stream.peer else { return (bytes.len(), false) };
            let rest = bytes.get(at..).unwrap_or_default();
            let length_of = |two: &[u8; 2]| usize::from(u16::from_be_bytes(*two)) + 2;
            let taken = if stream.gathered.is_empty() {
                match rest.first_chunk().map(length_of).and_then(|length| rest.get(2..length)) {
                    Some(message) => {
                        at += message.len() + 2;
                        self.message(message, peer, out)
                    }
                    None => {
                        stream.gathered.extend_from_slice(rest);
                        at = bytes.len();
                        Taken::Yes
                    }
                }
            } else {
                let whole = stream.gathered.first_chunk().map_or(2, length_of);
                let more = rest.get(..whole.saturating_sub(stream.gathered.len()).min(rest.len())).unwrap_or_default();
                stream.gathered.extend_from_slice(more);
                at += more.len();
                if stream.gathered.len() >= 2
                    && stream.gathered.first_chunk().map(length_of) == Some(stream.gathered.len())
                {
                    let gathered = std::mem::take(&mut stream.gathered);
                    self.message(gathered.get(2..).unwrap_or_default(), peer, out)
                } else {
                    Taken::Yes
                }
            };
            match taken {
                Taken::Yes => {}
                Taken::Nonsense => return (at, true),
                Taken::Transfer(outgoing) => {
                    if let Some(stream) = self.streams.get(id) {
                        stream.outgoing = Some(outgoing);
                    }
                    return (at, false);
                }
            }
        }
        (at, false)
    }

    fn message(&mut self, request: &[u8], peer: SocketAddr, out: &mut Vec<u8>) -> Taken {
        let origin = Origin { transport: Transport::Tcp, peer: peer.ip(), now_s: self.now_s() };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(MESSAGE_BYTES, 0);
        let (length_field, message) = buffer.split_at_mut(2);
        let outcome = self.responder.answer(&self.catalog, request, &origin, message);
        let outcome = match outcome.fate {
            Fate::Answered | Fate::Silence => outcome,
            _ => match self.elsewhere(request, peer, Way::Tcp) {
                Reply::Stream(outgoing) => {
                    self.count(&super::asked(request), request.len(), request, peer, Transport::Tcp);
                    self.buffer = buffer;
                    return Taken::Transfer(outgoing);
                }
                reply => super::written(reply, request, message),
            },
        };
        self.count(&outcome, request.len(), message, peer, Transport::Tcp);
        let taken = if outcome.length == 0 {
            Taken::Nonsense
        } else {
            length_field.copy_from_slice(&(outcome.length as u16).to_be_bytes());
            out.extend_from_slice(buffer.get(..outcome.length + 2).unwrap_or_default());
            Taken::Yes
        };
        self.buffer = buffer;
        taken
    }

    /// Ends connections on which nothing has happened for long.
    pub(super) fn sweep(&mut self, context: &mut Context<'_>) {
        let (now, TcpLimits { idle_timeout, send_rate_min, .. }) = (context.now(), self.config.tcp);
        for id in self.streams.ids() {
            let Some(stream) = self.streams.get(id) else { continue };
            if now.since(stream.active) < idle_timeout {
                if stream.is_slower_than(send_rate_min, idle_timeout, now) {
                    self.figures.connections_too_slow += 1;
                    let _ = context.abort(id);
                }
                continue;
            }
            self.figures.connections_timed_out += 1;
            // Who does not read answers would keep them, and us, for ever.
            let _ = if stream.unacknowledged > 0 { context.abort(id) } else { context.close(id) };
        }
    }

    /// Ends connections with nothing under way.
    pub(super) fn close_idle(&mut self, context: &mut Context<'_>) {
        for id in self.streams.ids() {
            if let Some(stream) = self.streams.get(id) {
                stream.ending = true;
                self.pump(id, context);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Attack: time and cost: a name server's answers taken some bytes at a time
    #[test]
    fn who_takes_answers_too_slowly_is_found() {
        let owes = |unacknowledged| Stream { unacknowledged, ..Stream::default() };
        let period = Duration::from_secs(10);
        // So many bytes each second; whether it was found in a minute.
        let is_found = |each: usize| {
            let mut stream = owes(100_000);
            (0..60).any(|second| {
                stream.measured = stream.measured.map(|(since, count)| (since, count + each));
                stream.is_slower_than(1_000, period, Time::from_millis(1_000 * second))
            })
        };
        assert!(is_found(0) && is_found(999) && !is_found(1_000));
        let mut idle = owes(0);
        assert!((0..60).all(|second| !idle.is_slower_than(1_000, period, Time::from_millis(1_000 * second))));
        assert!(!owes(1).is_slower_than(0, Duration::ZERO, Time::ZERO));
    }
}
