//! [`WayBack`]: from where a datagram is answered. A service names its socket and the peer. If the socket has several addresses, the answer
//! has to come from the one that the question came to.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

/// Peers that are remembered; one that is not is answered from where the kernel likes.
const PLACES: usize = 4_096;

#[derive(Clone, Copy)]
struct Place {
    socket: u32,
    peer: SocketAddr,
    endpoint: u32,
    own: Option<IpAddr>,
}

/// See the module. Which peers share a place nobody can know from outside.
pub(super) struct WayBack {
    places: Box<[Option<Place>]>,
    hash: RandomState,
}

impl Default for WayBack {
    fn default() -> WayBack {
        WayBack { places: vec![None; PLACES].into_boxed_slice(), hash: RandomState::new() }
    }
}

impl WayBack {
    fn place(&mut self, socket: u32, peer: SocketAddr) -> Option<&mut Option<Place>> {
        self.places.get_mut(self.hash.hash_one((socket, peer)) as usize % PLACES)
    }

    /// A datagram of `peer` came to this endpoint of a socket, at this address.
    pub(super) fn remember(&mut self, socket: u32, peer: SocketAddr, endpoint: u32, own: Option<IpAddr>) {
        if let Some(place) = self.place(socket, peer) {
            *place = Some(Place { socket, peer, endpoint, own });
        }
    }

    /// By which endpoint, and from which address, it is answered.
    pub(super) fn of(&mut self, socket: u32, peer: SocketAddr) -> Option<(u32, Option<IpAddr>)> {
        let place = (*self.place(socket, peer)?)?;
        (place.socket == socket && place.peer == peer).then_some((place.endpoint, place.own))
    }
}
