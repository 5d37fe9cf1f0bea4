//! Datagrams (doc/protocol.txt, "UDP protocol"): a header of 8 bytes, then a request that is whole.
//!
//! Whoever sends a datagram may lie about where it is from, and the answer goes there. A stranger's answer is no longer than what it sent,
//! so nobody can make this service throw more at another than they throw themselves.

use super::CacheService;
use crate::engine::state::Engine;
use crate::output::Output;
use crate::session::Session;
use qanat::{Chunk, Commands, UdpSocketId};
use std::net::SocketAddr;

/// The number of the request, of the datagram, how many there are, and nothing.
const HEADER_BYTES: usize = 8;
/// What memcached puts into one datagram, with its header.
const DATAGRAM_BYTES_MAX: usize = 1_400;
/// The longest answer: its datagrams are counted by 16 bits, and a client that asks for more asks by TCP.
const ANSWER_BYTES_MAX: usize = 2 << 20;
const TOO_LONG: &str = "SERVER_ERROR the answer is too long for datagrams: ask by TCP";

/// What came of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Answered,
    Malformed,
    /// The answer is longer than a stranger may have.
    Withheld,
}

/// Executes a datagram's requests; the answer is in `answer`, without headers.
fn execute(payload: &[u8], engine: &mut Engine, output: &mut Output, answer: &mut Vec<u8>) -> bool {
    answer.clear();
    let mut session = Session::new(true);
    let mut used = 0;
    loop {
        used += session.feed(payload.get(used..).unwrap_or_default(), engine, output);
        output.flatten(answer);
        if answer.len() > ANSWER_BYTES_MAX {
            answer.clear();
            answer.extend_from_slice(TOO_LONG.as_bytes());
            answer.extend_from_slice(b"\r\n");
            return true;
        }
        if used >= payload.len() && !session.has_more() {
            // A request in part is none: what is missing never comes.
            return session.is_between_requests() || session.is_over();
        }
    }
}

impl CacheService {
    #[inline]
    pub(super) fn datagram(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
        context: &mut impl Commands,
    ) {
        self.datagrams += 1;
        match self.answer(socket, peer, chunk, context) {
            Outcome::Answered => {}
            Outcome::Malformed => self.datagrams_malformed += 1,
            Outcome::Withheld => self.datagrams_unanswered += 1,
        }
    }

    fn answer(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut chunk: Chunk,
        context: &mut impl Commands,
    ) -> Outcome {
        let Some(config) = &self.config.datagrams else { return Outcome::Malformed };
        let bytes = chunk.bytes();
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Outcome::Malformed };
        let [r0, r1, _, _, t0, t1, ..] = *header;
        if [t0, t1] != [0, 1] || payload.is_empty() || !self.engine.settings.users.is_empty() {
            return Outcome::Malformed;
        }
        let length = chunk.len();
        let mut answer = std::mem::take(&mut self.answer);
        let is_whole = execute(payload, &mut self.engine, &mut self.output, &mut answer);
        let room = DATAGRAM_BYTES_MAX - HEADER_BYTES;
        let count = answer.len().div_ceil(room);
        let is_longer = answer.len() + count * HEADER_BYTES > length;
        let outcome = match () {
            () if !is_whole => Outcome::Malformed,
            () if is_longer && !config.trusts(&peer) => Outcome::Withheld,
            () => Outcome::Answered,
        };
        if outcome == Outcome::Answered {
            let head = |number: usize| {
                let ([n0, n1], [c0, c1]) = ((number as u16).to_be_bytes(), (count as u16).to_be_bytes());
                [r0, r1, n0, n1, c0, c1, 0, 0]
            };
            // An answer that fits goes back in the frame that the question came in.
            let whole = if count == 1 { chunk.resize(HEADER_BYTES + answer.len()) } else { None };
            match whole {
                Some(frame) => {
                    let (header, rest) = frame.split_at_mut(HEADER_BYTES);
                    header.copy_from_slice(&head(0));
                    rest.copy_from_slice(&answer);
                    // Lost, and counted, if the device has no room, as any datagram may be.
                    let _ = context.send_chunk_to(socket, peer, chunk);
                }
                None => {
                    for (number, part) in answer.chunks(room).enumerate() {
                        self.datagram.clear();
                        self.datagram.extend_from_slice(&head(number));
                        self.datagram.extend_from_slice(part);
                        let _ = context.send_to(socket, peer, &self.datagram);
                    }
                }
            }
        }
        self.answer = answer;
        outcome
    }
}
