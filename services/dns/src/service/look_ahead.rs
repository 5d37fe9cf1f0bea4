//! Questions to a zone larger than caches: answered in groups, so that the memory all of them need is fetched at the same time.
//!
//! An answer reads the table, then the node it names. One after the other, each waits for memory twice; of a group first all
//! entries are asked for, then all nodes, and then it is answered as if everything were near.

use super::DnsService;
use crate::answer::question::Question;
use crate::message::HEADER_LENGTH;
use qanat::{Chunk, Context, UdpSocketId};
use std::net::SocketAddr;

/// Datagrams in a group: twice as many cache lines wait to be used, far fewer than the nearest cache has.
const GROUP: usize = 32;

/// Datagrams of the current turn that wait for their group. Their frames are not held beyond it.
pub(super) struct LookAhead {
    waiting: Vec<(UdpSocketId, SocketAddr, Chunk)>,
}

impl LookAhead {
    pub(super) fn new() -> LookAhead {
        LookAhead { waiting: Vec::with_capacity(GROUP) }
    }
}

impl DnsService {
    /// Answers a datagram with its group.
    #[inline]
    pub(super) fn datagram_in_group(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
        context: &mut Context<'_>,
    ) {
        self.look_ahead.waiting.push((socket, peer, chunk));
        if self.look_ahead.waiting.len() >= GROUP {
            self.answer_group(context);
        }
    }

    /// Answers those that wait.
    pub(super) fn answer_group(&mut self, context: &mut Context<'_>) {
        if let Some(zone) = self.catalog.only() {
            let mut hashes = [0; GROUP];
            for ((_, _, chunk), hash) in self.look_ahead.waiting.iter().zip(&mut hashes) {
                if let Some(question) = Question::parse(chunk.bytes()) {
                    *hash = zone.ask_for_entry(chunk.bytes(), HEADER_LENGTH, question.name_end);
                }
            }
            for hash in hashes.iter().take(self.look_ahead.waiting.len()) {
                zone.ask_for_node(*hash);
            }
        }
        // Taken out meanwhile, its memory kept: no allocation after the start.
        let mut group = std::mem::take(&mut self.look_ahead.waiting);
        for (socket, peer, chunk) in group.drain(..) {
            self.datagram(socket, peer, chunk, context);
        }
        self.look_ahead.waiting = group;
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.look_ahead.waiting.is_empty()
    }
}
