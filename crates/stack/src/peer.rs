//! Whom an address counts as where something scarce is shared out, and how much of it each has.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// One peer, as far as its address tells: a host with an IPv4 address, or an IPv6 network of 64 bits, because whoever has one
/// address of such a network has them all. Of link-local addresses each is a peer, because all hosts of a link share their
/// network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub struct Peer(u128);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Peer {
        Peer(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) if address.is_unicast_link_local() => address.to_bits(),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        })
    }
}

/// The key of a table, so that nobody can choose addresses that collide in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Keyed(pub(crate) u64, pub(crate) u64);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

/// How many of something each peer has. A peer that has none is not in the table, so it is as long as there are somethings at most.
#[derive(Clone, Debug, Default)]
pub struct PeerCounts<S = RandomState>(HashMap<Peer, u32, S>);

impl PeerCounts<Keyed> {
    /// For at most `capacity` peers at once. Nobody outside may know `key`.
    pub(crate) fn keyed(capacity: usize, key: (u64, u64)) -> PeerCounts<Keyed> {
        PeerCounts(HashMap::with_capacity_and_hasher(capacity, Keyed(key.0, key.1)))
    }

    /// Counts anew: one for each of `peers`, as is to be done with a table out of a snapshot.
    pub(crate) fn recount(&mut self, capacity: usize, peers: impl Iterator<Item = IpAddr>) {
        self.0.clear();
        self.0.reserve(capacity);
        peers.for_each(|peer| self.add(peer));
    }
}

impl<S: BuildHasher> PeerCounts<S> {
    /// What this peer has.
    pub fn of(&self, peer: impl Into<Peer>) -> u32 {
        self.0.get(&peer.into()).copied().unwrap_or(0)
    }

    /// It has one more.
    pub fn add(&mut self, peer: impl Into<Peer>) {
        *self.0.entry(peer.into()).or_default() += 1;
    }

    /// It has one less.
    pub fn remove(&mut self, peer: impl Into<Peer>) {
        let peer = peer.into();
        match self.0.get_mut(&peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.0.remove(&peer)),
        }
    }

    /// Peers that have any.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Nobody has any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Only its key: what is counted is in the snapshot, too.
impl Serialize for PeerCounts<Keyed> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.hasher().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PeerCounts<Keyed> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PeerCounts<Keyed>, D::Error> {
        Ok(PeerCounts(HashMap::with_hasher(Keyed::deserialize(deserializer)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_whom() {
        let peer = |text: &str| Peer::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(peer("192.0.2.1"), peer("::ffff:192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:0:0:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_ne!(peer("fe80::1"), peer("fe80::2"));
    }

    #[test]
    fn who_has_none_is_forgotten() {
        let [one, other]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let mut counts = PeerCounts::keyed(8, (1, 2));
        counts.add(one);
        counts.add(one);
        counts.add(other);
        counts.remove(one);
        counts.remove(other);
        counts.remove(other);
        assert_eq!((counts.of(one), counts.of(other), counts.len(), counts.is_empty()), (1, 0, 1, false));
    }
}
