//! Streams (RFC 7766): messages with their length before them, any number under way, answered in order.
//!
//! A client that does not read holds no more than [`PIPELINE_BYTES`] of answers and its receive window of requests: while
//! answers are not acknowledged, received bytes are not given back, which keeps the window shut.

use super::config::TcpLimits;
use super::server::{DnsService, asked, written};
use super::streams::MESSAGE_BYTES;
use crate::answer::{Fate, Origin, Transport};
use crate::transfer::{Outgoing, Reply, Way};
use qanat::{Bytes, Chunk, Commands, ConnectionId, Context, Setting};
use std::net::SocketAddr;

/// Unacknowledged answers beyond which a connection waits.
const PIPELINE_BYTES: usize = 256 * 1_024;
/// Answers given to the stack at once.
const BATCH_BYTES: usize = 64 * 1_024;
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
        if self.streams.has_reached(peer.ip(), self.config.tcp.connections_per_peer) {
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
                    self.count(&asked(request), request.len(), request, peer, Transport::Tcp);
                    self.buffer = buffer;
                    return Taken::Transfer(outgoing);
                }
                reply => written(reply, request, message),
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
