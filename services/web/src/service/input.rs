//! From received chunks to requests: in place when a head is whole in its chunk, gathered otherwise.

use super::{Commands, Phase, WebService, milliseconds};
use crate::http::parse::{Outcome, Rejection, check_partial, head_end, header_storage, parse};
use qanat::{Chunk, ConnectionId};

/// Bytes of empty lines skipped before a request (RFC 9112, 2.2).
const BLANK_BYTES_MAX: u8 = 8;
/// First allocation for a gathered head, bytes.
const GATHER_BYTES: usize = 1024;

impl WebService {
    pub(super) fn on_data<C: Commands>(&mut self, id: ConnectionId, chunk: Chunk, context: &mut C) {
        match self.connections.get(id) {
            // What came first is looked at first.
            Some(connection) if connection.has_held() => connection.extra().held.push_back((chunk, 0)),
            _ => {
                self.feed(id, chunk, 0, context);
                self.settle(id, context);
            }
        }
    }

    /// Looks at `chunk` from `offset` on, request by request, until it is used up or the connection must wait.
    fn feed<C: Commands>(&mut self, id: ConnectionId, chunk: Chunk, mut offset: usize, context: &mut C) {
        // Ends: every round takes bytes of the chunk or changes the phase to one that returns.
        loop {
            let pipeline_bytes_max = self.config.limits.pipeline_bytes_max;
            let rest = chunk.bytes().get(offset..).unwrap_or_default();
            let Some(connection) = self.connections.get(id) else { break };
            if rest.is_empty() || matches!(connection.phase, Phase::Lingering | Phase::Closing | Phase::Free) {
                break;
            }
            let gathering = connection.phase == Phase::Head;
            let full = connection.unacknowledged > pipeline_bytes_max && !gathering;
            if full || matches!(connection.phase, Phase::Waiting | Phase::Output) {
                self.figures.pipeline_waits += u64::from(full);
                connection.extra().held.push_front((chunk, offset));
                return;
            }
            offset += if gathering { self.gather(id, rest, context) } else { self.in_place(id, rest, context) };
        }
        context.consume(id, chunk);
    }

    /// Goes on with held chunks while the connection is ready for requests.
    pub(super) fn resume<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        loop {
            let limit = self.config.limits.pipeline_bytes_max;
            let Some(connection) = self.connections.get(id) else { return };
            let ready = match connection.phase {
                Phase::Idle => connection.unacknowledged <= limit,
                Phase::Head | Phase::Lingering | Phase::Closing => true,
                Phase::Free | Phase::Carrying | Phase::Waiting | Phase::Output => false,
            };
            let next = connection.extra.as_mut().filter(|_| ready).and_then(|extra| extra.held.pop_front());
            let Some((chunk, offset)) = next else { return };
            self.feed(id, chunk, offset, context);
        }
    }

    /// Parses at the start of `bytes` without copying; returns how many bytes it took.
    fn in_place<C: Commands>(&mut self, id: ConnectionId, bytes: &[u8], context: &mut C) -> usize {
        if let Some(b'\r' | b'\n') = bytes.first() {
            return self.skip_blank(id, bytes, context);
        }
        let mut storage = header_storage();
        match parse(bytes, &mut storage, &self.parse_limits) {
            Outcome::Complete(request) => {
                let length = request.head_length;
                self.on_request(id, &request, bytes.get(..length).unwrap_or(bytes), context);
                length
            }
            Outcome::Partial => {
                let now_ms = milliseconds(context.now());
                if let Some(connection) = self.connections.get(id) {
                    connection.phase = Phase::Head;
                    connection.since_ms = now_ms;
                    let gathered = &mut connection.extra().gathered;
                    gathered.reserve(GATHER_BYTES.max(bytes.len()));
                    gathered.extend_from_slice(bytes);
                }
                bytes.len()
            }
            Outcome::Reject(rejection) => {
                self.reject(id, rejection, context);
                bytes.len()
            }
        }
    }

    fn skip_blank<C: Commands>(&mut self, id: ConnectionId, bytes: &[u8], context: &mut C) -> usize {
        let count = bytes.iter().take_while(|&&byte| matches!(byte, b'\r' | b'\n')).count();
        let Some(connection) = self.connections.get(id) else { return count };
        connection.blank_bytes = connection.blank_bytes.saturating_add(count.min(255) as u8);
        if connection.blank_bytes > BLANK_BYTES_MAX {
            self.reject(id, Rejection { status: 400, why: "empty lines instead of a request" }, context);
        }
        count
    }

    /// Adds `bytes` to a head begun in earlier chunks; returns how many it took.
    fn gather<C: Commands>(&mut self, id: ConnectionId, bytes: &[u8], context: &mut C) -> usize {
        let limits = self.parse_limits;
        let Some(connection) = self.connections.get(id) else { return bytes.len() };
        let gathered = &mut connection.extra().gathered;
        let from = gathered.len();
        let count = limits.head_bytes_max.saturating_sub(from).min(bytes.len());
        gathered.extend_from_slice(bytes.get(..count).unwrap_or(bytes));
        let Some(end) = head_end(gathered, from) else {
            let Err(rejection) = check_partial(gathered, &limits) else { return count };
            self.reject(id, rejection, context);
            return bytes.len();
        };
        gathered.truncate(end);
        let head = std::mem::take(gathered);
        connection.phase = Phase::Idle;
        let mut storage = header_storage();
        match parse(&head, &mut storage, &limits) {
            Outcome::Complete(request) => self.on_request(id, &request, &head, context),
            Outcome::Partial => {
                self.reject(id, Rejection { status: 400, why: "malformed request" }, context);
            }
            Outcome::Reject(rejection) => self.reject(id, rejection, context),
        }
        end.saturating_sub(from).min(bytes.len())
    }

    pub(super) fn on_peer_closed<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        let Some(connection) = self.connections.get(id) else { return };
        connection.peer_closed = true;
        self.settle(id, context);
    }

    /// After anything that may have changed what a connection waits for: closes it if its peer has and nothing is left
    /// to answer; lets its box go.
    pub(super) fn settle<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        let Some(connection) = self.connections.get(id) else { return };
        connection.tidy();
        let quiet = match connection.phase {
            Phase::Idle => !connection.has_held() && !connection.has_output(),
            Phase::Head => !connection.has_held(),
            Phase::Lingering => true,
            Phase::Free | Phase::Carrying | Phase::Waiting | Phase::Output | Phase::Closing => false,
        };
        if connection.peer_closed && quiet {
            self.close(id, context);
        }
    }
}
