//! [`Http2Layer`]: which connections there are, and what becomes of what comes on them.

use super::carrier::Carrier;
use super::limits::Http2Limits;
use super::shared::{Ground, Shared};
use super::slots::{Plain, Slot, Slots};
use crate::error::ErrorCode;
use crate::figures::Http2Figures;
use crate::settings::PREFACE;
use qanat_api::{Chunk, CloseReason, Commands, ConnectionId, Event, ListenerId};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// Between what gives connections and a service: each stream of HTTP/2 is a connection of the service.
///
/// The service's handles are the layer's own, also for connections that pass as they are.
pub struct Http2Layer {
    pub(super) slots: Slots,
    pub(super) shared: Shared,
    /// Carriers of which something is to be done.
    dirty: VecDeque<ConnectionId>,
}

impl Http2Layer {
    /// A layer with nothing in it.
    ///
    /// # Errors
    /// No memory.
    pub fn new(limits: Http2Limits) -> io::Result<Http2Layer> {
        Ok(Http2Layer { slots: Slots::default(), shared: Shared::new(limits)?, dirty: VecDeque::new() })
    }

    /// What was counted.
    pub fn figures(&self) -> Http2Figures {
        self.shared.figures
    }

    /// Heads of requests that wait, or are with the service.
    pub fn frames_in_use(&self) -> u32 {
        self.shared.pool.in_use_count()
    }

    /// Of a stream: the connection that it is on. `None`: it is no stream.
    pub fn carrier_of(&self, connection: ConnectionId) -> Option<ConnectionId> {
        self.slots.stream(connection).map(|stream| stream.carrier)
    }

    /// The peer of a connection below has agreed to speak HTTP/2: if it begins with anything else, that is an error (RFC 9113, 3.4).
    pub fn promise(&mut self, below: ConnectionId) {
        if let Some(id) = self.slots.above(below)
            && let Some(Slot::Plain(plain)) = self.slots.get_mut(id)
        {
            plain.is_promised = true;
        }
    }

    /// Something is to be done for a carrier.
    pub(super) fn mark(&mut self, id: ConnectionId) {
        if let Some(carrier) = self.slots.carrier_mut(id)
            && !std::mem::replace(&mut carrier.is_dirty, true)
        {
            self.dirty.push_back(id);
        }
    }

    /// A stream may have something to send.
    pub(super) fn wake(&mut self, id: ConnectionId) {
        let Some(stream) = self.slots.stream_mut(id) else { return };
        let carrier = stream.carrier;
        if !std::mem::replace(&mut stream.is_ready, true)
            && let Some(carrier) = self.slots.carrier_mut(carrier)
        {
            carrier.ready.push_back(id);
        }
        self.mark(carrier);
    }

    /// Works on a carrier; `None`: it is none.
    pub(super) fn with<T>(
        &mut self,
        id: ConnectionId,
        work: impl FnOnce(&mut Carrier, &mut Ground<'_>) -> T,
    ) -> Option<T> {
        let Some(Slot::Carrier(_, place)) = self.slots.get_mut(id) else { return None };
        let mut carrier = place.take()?;
        let outcome = work(&mut carrier, &mut Ground { slots: &mut self.slots, shared: &mut self.shared });
        if let Some(Slot::Carrier(_, place)) = self.slots.get_mut(id) {
            *place = Some(carrier);
        }
        Some(outcome)
    }

    /// Takes an event from below. What the service is to know comes from [`next`](Http2Layer::next).
    pub fn take<C: Commands>(&mut self, event: Event, below: &mut C) {
        let event = match event {
            Event::Accepted { connection, listener, peer } => {
                let origin = (self.shared.limits.streams_max > 0).then_some((listener, peer));
                let connection = self.slots.insert_plain(connection, origin);
                Event::Accepted { connection, listener, peer }
            }
            Event::Data { connection, chunk } => match self.slots.above(connection) {
                Some(id) => return self.on_data(id, chunk, below),
                None => Event::Data { connection, chunk },
            },
            Event::Acked { connection, bytes } => match self.slots.above(connection) {
                Some(id) => {
                    if self.with(id, |carrier, ground| carrier.on_acknowledged(bytes, ground)).is_some() {
                        return self.mark(id);
                    }
                    Event::Acked { connection: id, bytes }
                }
                None => event,
            },
            Event::Connected { connection } => match self.slots.above(connection) {
                Some(connection) => Event::Connected { connection },
                None => event,
            },
            Event::Urgent { connection, ahead } => match self.slots.above(connection) {
                // It is somewhere in a frame.
                Some(id) if self.slots.carrier(id).is_some() => return,
                Some(connection) => Event::Urgent { connection, ahead },
                None => event,
            },
            Event::PeerClosed { connection } => match self.slots.above(connection) {
                Some(id) => return self.on_peer_closed(id, below),
                None => event,
            },
            Event::Closed { connection, why } => match self.slots.above(connection) {
                Some(id) => return self.on_closed(id, connection, why),
                None => event,
            },
            other => other,
        };
        self.shared.events.push_back(event);
    }

    fn on_data<C: Commands>(&mut self, id: ConnectionId, chunk: Chunk, below: &mut C) {
        match self.slots.get_mut(id) {
            Some(Slot::Plain(plain)) => {
                let Some(origin) = plain.origin else {
                    return self.shared.events.push_back(Event::Data { connection: id, chunk });
                };
                self.judge(id, origin, chunk, below);
            }
            Some(Slot::Carrier(below_id, _)) => {
                let below_id = *below_id;
                self.with(id, |carrier, ground| carrier.feed(chunk.bytes(), ground));
                below.consume(below_id, chunk);
                self.mark(id);
            }
            _ => {}
        }
    }

    /// Looks whether a connection begins with the preface.
    fn judge<C: Commands>(&mut self, id: ConnectionId, origin: (ListenerId, SocketAddr), chunk: Chunk, below: &mut C) {
        let Some(Slot::Plain(plain)) = self.slots.get_mut(id) else { return };
        let expected = PREFACE.get(plain.matched..).unwrap_or_default();
        let count = chunk.len().min(expected.len());
        let is_preface = chunk.bytes().get(..count) == expected.get(..count);
        if !is_preface && !plain.is_promised {
            self.release(id, below);
            return self.shared.events.push_back(Event::Data { connection: id, chunk });
        }
        let below_id = plain.below;
        plain.matched += count;
        // What it said is known, so it need not be held: who sends it byte by byte would soon have as much held as may be.
        if !is_preface || plain.matched == PREFACE.len() {
            let mut carrier = Carrier::new(id, below_id, origin, self.shared.limits);
            self.shared.figures.carriers += 1;
            let mut ground = Ground { slots: &mut self.slots, shared: &mut self.shared };
            if is_preface {
                carrier.feed(chunk.bytes().get(count..).unwrap_or_default(), &mut ground);
            } else {
                carrier.fail(ErrorCode::Protocol, &mut ground);
            }
            if let Some(slot) = self.slots.get_mut(id) {
                *slot = Slot::Carrier(below_id, Some(Box::new(carrier)));
            }
            self.mark(id);
        }
        below.consume(below_id, chunk);
    }

    /// A connection is no carrier: its service gets what came.
    fn release<C: Commands>(&mut self, id: ConnectionId, below: &mut C) {
        let Some(Slot::Plain(plain)) = self.slots.get_mut(id) else { return };
        let is_judged = plain.origin.take().is_none();
        let came = PREFACE.get(..plain.matched).filter(|came| !came.is_empty() && !is_judged);
        let Some(came) = came else { return };
        match self.shared.frame(came) {
            Some(frame) => self.shared.events.push_back(Event::Data { connection: id, chunk: Chunk::new(frame) }),
            None => {
                self.shared.figures.requests_refused += 1;
                // Refused only if it is gone already: then `Closed` is on its way.
                let _ = below.abort(plain.below);
            }
        }
    }

    fn on_peer_closed<C: Commands>(&mut self, id: ConnectionId, below: &mut C) {
        if self.with(id, Carrier::on_peer_closed).is_some() {
            return self.mark(id);
        }
        self.release(id, below);
        self.shared.events.push_back(Event::PeerClosed { connection: id });
    }

    fn on_closed(&mut self, id: ConnectionId, below: ConnectionId, why: CloseReason) {
        self.with(id, |carrier, ground| {
            carrier.forsake();
            carrier.end_all_streams(why, ground);
        });
        self.slots.remove(id);
        self.slots.forget_below(below);
        self.shared.events.push_back(Event::Closed { connection: id, why });
    }

    /// What the service is to be told next; `None`: nothing before the next event from below. To be called until then after each
    /// [`take`](Http2Layer::take), and after the service gave commands for another reason.
    pub fn next<C: Commands>(&mut self, below: &mut C) -> Option<Event> {
        // Ends: a carrier is worked on again only after the service was told something, or gave a command.
        while self.shared.events.is_empty() {
            let id = self.dirty.pop_front()?;
            self.with(id, |carrier, ground| {
                carrier.is_dirty = false;
                carrier.send(ground, below);
            });
        }
        self.shared.events.pop_front()
    }

    /// The connection below of one of the service's, which is no stream.
    pub(super) fn below(&self, id: ConnectionId) -> Option<ConnectionId> {
        match self.slots.get(id) {
            Slot::Plain(Plain { below, .. }) | Slot::Carrier(below, _) => Some(*below),
            Slot::Stream(_) | Slot::Free => None,
        }
    }
}

impl std::fmt::Debug for Http2Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2Layer").field("figures", &self.shared.figures).finish_non_exhaustive()
    }
}
