//! [`Slots`]: the connections that the service has.

use super::carrier::Carrier;
use super::stream::Stream;
use qanat_api::{ConnectionId, ListenerId};
use std::net::SocketAddr;

/// A connection that is one of the service's, too.
pub(super) struct Plain {
    pub(super) below: ConnectionId,
    /// Where it came to, and from whom; `None`: it is known that it is no carrier.
    pub(super) origin: Option<(ListenerId, SocketAddr)>,
    /// The peer agreed to speak HTTP/2, and so must begin with the preface.
    pub(super) is_promised: bool,
    /// So many bytes came that are the beginning of the preface, or of something else.
    pub(super) matched: usize,
}

/// What a handle of the service stands for.
pub(super) enum Slot {
    Free,
    Plain(Plain),
    /// `None`: it is being worked on.
    Carrier(ConnectionId, Option<Box<Carrier>>),
    Stream(Stream),
}

/// See the module. The slots are dense from zero.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<(u32, Slot)>,
    free: Vec<u32>,
    /// By the index of the connection below: that, and the service's.
    by_below: Vec<Option<(ConnectionId, ConnectionId)>>,
}

impl Slots {
    /// A handle for what the function makes of it.
    pub(super) fn insert(&mut self, make: impl FnOnce(ConnectionId) -> Slot) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, Slot::Free));
            (self.slots.len() - 1) as u32
        });
        let generation = self.slots.get(index as usize).map_or(0, |(generation, _)| *generation);
        let id = ConnectionId::new(index, generation);
        if let Some((_, slot)) = self.slots.get_mut(index as usize) {
            *slot = make(id);
        }
        id
    }

    /// A connection below is one of the service's.
    pub(super) fn insert_plain(
        &mut self,
        below: ConnectionId,
        origin: Option<(ListenerId, SocketAddr)>,
    ) -> ConnectionId {
        let id = self.insert(|_| Slot::Plain(Plain { below, origin, is_promised: false, matched: 0 }));
        if below.index() >= self.by_below.len() {
            self.by_below.resize(below.index() + 1, None);
        }
        if let Some(place) = self.by_below.get_mut(below.index()) {
            *place = Some((below, id));
        }
        id
    }

    /// The service's handle of a connection below.
    pub(super) fn above(&self, below: ConnectionId) -> Option<ConnectionId> {
        self.by_below.get(below.index()).copied().flatten().filter(|(known, _)| *known == below).map(|(_, id)| id)
    }

    /// The connection below is gone.
    pub(super) fn forget_below(&mut self, below: ConnectionId) {
        if let Some(place) = self.by_below.get_mut(below.index()) {
            place.take_if(|(known, _)| *known == below);
        }
    }

    pub(super) fn get(&self, id: ConnectionId) -> &Slot {
        match self.slots.get(id.index()) {
            Some((generation, slot)) if *generation == id.generation() => slot,
            _ => &Slot::Free,
        }
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index()).filter(|(generation, _)| *generation == id.generation()).map(|(_, slot)| slot)
    }

    pub(super) fn stream(&self, id: ConnectionId) -> Option<&Stream> {
        if let Slot::Stream(stream) = self.get(id) { Some(stream) } else { None }
    }

    pub(super) fn stream_mut(&mut self, id: ConnectionId) -> Option<&mut Stream> {
        if let Slot::Stream(stream) = self.get_mut(id)? { Some(stream) } else { None }
    }

    pub(super) fn carrier(&self, id: ConnectionId) -> Option<&Carrier> {
        if let Slot::Carrier(_, carrier) = self.get(id) { carrier.as_deref() } else { None }
    }

    pub(super) fn carrier_mut(&mut self, id: ConnectionId) -> Option<&mut Carrier> {
        if let Slot::Carrier(_, carrier) = self.get_mut(id)? { carrier.as_deref_mut() } else { None }
    }

    /// The handle is no more.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Slot {
        let Some((generation, slot)) = self.slots.get_mut(id.index()).filter(|slot| slot.0 == id.generation()) else {
            return Slot::Free;
        };
        *generation = generation.wrapping_add(1);
        self.free.push(id.index() as u32);
        std::mem::replace(slot, Slot::Free)
    }
}
