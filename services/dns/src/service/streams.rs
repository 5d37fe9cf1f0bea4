//! The state of streams.

use crate::transfer::Outgoing;
use qanat::stack::PeerCounts;
use qanat::{Chunk, ConnectionId, Time};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A length and the longest message.
pub(super) const MESSAGE_BYTES: usize = 2 + 65_535;

/// A connection's state.
#[derive(Default)]
pub(super) struct Stream {
    /// Who; `None`: the slot is free.
    pub(super) peer: Option<SocketAddr>,
    pub(super) generation: u32,
    /// The start of a message that came in several chunks, its length first.
    pub(super) gathered: Vec<u8>,
    /// Chunks not looked at yet, each from an offset on. Bounded by the receive window, which they keep shut.
    pub(super) held: VecDeque<(Chunk, usize)>,
    pub(super) unacknowledged: usize,
    /// When a request was last whole, or something was acknowledged. (The bytes of a request do not count: one a second would keep
    /// a connection for ever.)
    pub(super) active: Time,
    /// Since when its rate is measured, and bytes acknowledged since then; `None`: it has no answers to take.
    pub(super) measured: Option<(Time, usize)>,
    /// The client sends no more: close when all is answered.
    pub(super) ending: bool,
    /// A zone on its way: what the client asks meanwhile waits.
    pub(super) outgoing: Option<Box<Outgoing>>,
}

impl Stream {
    /// Whether the client has taken fewer than `rate` bytes a second of its answers for as long as `period`.
    #[inline]
    pub(super) fn is_slower_than(&mut self, rate: u32, period: Duration, now: Time) -> bool {
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
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Whether `peer` has as many connections as `limit`.
    #[inline]
    pub(super) fn has_reached(&self, peer: IpAddr, limit: usize) -> bool {
        self.open_of.reaches(peer, limit)
    }

    #[inline]
    pub(super) fn get(&mut self, id: ConnectionId) -> Option<&mut Stream> {
        self.slots.get_mut(id.index()).filter(|stream| stream.peer.is_some() && stream.generation == id.generation())
    }

    #[inline]
    pub(super) fn insert(&mut self, id: ConnectionId, peer: SocketAddr, now: Time) {
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

    #[inline]
    pub(super) fn remove(&mut self, id: ConnectionId) {
        if let Some(stream) = self.get(id) {
            let peer = std::mem::take(stream).peer;
            self.open -= 1;
            if let Some(peer) = peer {
                self.open_of.remove(peer.ip());
            }
        }
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        let open = self.slots.iter().enumerate().filter(|(_, stream)| stream.peer.is_some());
        open.map(|(index, stream)| ConnectionId::new(index as u32, stream.generation)).collect()
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
