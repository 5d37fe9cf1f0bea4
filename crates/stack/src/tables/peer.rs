//! Peers, among whom something scarce is shared out: which peer an address counts as, and how much each has.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};
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

/// The key of a table of peers, and its hash: NH of UMAC (RFC 4418 section 5.2), folded. It costs one multiplication, a tenth of
/// SipHash, and a table of peers is asked at each open and close of a connection. Nobody outside sees a hash or an order, and whoever
/// does not know the key can't choose addresses that collide.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PeerKey(u64, u64);

impl BuildHasher for PeerKey {
    type Hasher = PeerHasher;
    #[inline]
    fn build_hasher(&self) -> PeerHasher {
        PeerHasher { key: *self, hash: 0 }
    }
}

struct PeerHasher {
    key: PeerKey,
    hash: u64,
}

impl Hasher for PeerHasher {
    #[inline]
    fn write_u128(&mut self, peer: u128) {
        let (low, high) = ((peer as u64).wrapping_add(self.key.0), ((peer >> 64) as u64).wrapping_add(self.key.1));
        let product = u128::from(low) * u128::from(high);
        self.hash = self.hash.rotate_left(1) ^ product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(16) {
            let mut block = [0; 16];
            block[..part.len()].copy_from_slice(part);
            self.write_u128(u128::from_le_bytes(block));
        }
    }

    /// Addresses in an even order are spread, too: by a step of Fibonacci hashing (Knuth, volume 3, section 6.4).
    #[inline]
    fn finish(&self) -> u64 {
        let spread = (self.hash ^ self.hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        spread ^ spread >> 32
    }
}

/// How many of something each peer has. A peer that has none is not in the table, so it is as long as there are somethings at most.
#[derive(Clone, Debug)]
pub struct PeerCounts {
    counts: HashMap<Peer, u32, PeerKey>,
    /// Of all peers together.
    total: usize,
}

/// With a key of its own.
impl Default for PeerCounts {
    fn default() -> PeerCounts {
        let random = RandomState::new();
        PeerCounts::keyed(0, (random.hash_one(0), random.hash_one(1)))
    }
}

impl PeerCounts {
    /// For at most `capacity` peers at once. Nobody outside may know `key`.
    pub(crate) fn keyed(capacity: usize, key: (u64, u64)) -> PeerCounts {
        PeerCounts::in_table(HashMap::with_capacity_and_hasher(capacity, PeerKey(key.0, key.1)))
    }

    fn in_table(counts: HashMap<Peer, u32, PeerKey>) -> PeerCounts {
        PeerCounts { counts, total: 0 }
    }

    /// Counts anew, one for each of `peers`. A table out of a snapshot needs this.
    pub(crate) fn recount(&mut self, capacity: usize, peers: impl Iterator<Item = IpAddr>) {
        self.counts.clear();
        self.counts.reserve(capacity);
        self.total = 0;
        peers.for_each(|peer| self.add(peer));
    }

    /// What this peer has.
    pub fn of(&self, peer: impl Into<Peer>) -> u32 {
        self.counts.get(&peer.into()).copied().unwrap_or(0)
    }

    /// Whether this peer has `share` or more. It is looked up only where there are so many in all.
    pub fn reaches(&self, peer: impl Into<Peer>, share: usize) -> bool {
        self.total >= share && self.of(peer) as usize >= share
    }

    /// It has one more.
    pub fn add(&mut self, peer: impl Into<Peer>) {
        *self.counts.entry(peer.into()).or_default() += 1;
        self.total += 1;
    }

    /// It has one less.
    pub fn remove(&mut self, peer: impl Into<Peer>) {
        if let Entry::Occupied(mut count) = self.counts.entry(peer.into()) {
            self.total -= 1;
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Peers that have any.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Nobody has any.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Only its key: what is counted is in the snapshot, too.
impl Serialize for PeerCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.counts.hasher().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PeerCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PeerCounts, D::Error> {
        Ok(PeerCounts::in_table(HashMap::with_hasher(PeerKey::deserialize(deserializer)?)))
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
        assert!(
            counts.reaches(one, 1) && !counts.reaches(one, 2) && !counts.reaches(other, 1) && counts.reaches(other, 0)
        );
    }

    #[test]
    fn peers_are_spread_over_the_table_whatever_the_key() {
        // Low bits choose a table's place, high ones its tag. 4,096 peers at random take 2,589 of 4,096 places; in an even order, all.
        let peers: [fn(u64) -> IpAddr; 3] = [
            |number| std::net::Ipv4Addr::from_bits(0x0a00_0000 + number as u32).into(),
            |number| std::net::Ipv4Addr::from_bits((number << 12) as u32).into(),
            |number| std::net::Ipv6Addr::from_bits(u128::from(0x2001_0db8_0000_0000 + number) << 64).into(),
        ];
        for (turn, peer) in (0..60).zip(peers.iter().cycle()) {
            let random = Keyed(1, turn);
            let key = PeerKey(random.hash_one(0), random.hash_one(1));
            for shift in [0, 52] {
                let mut places = vec![0; 4_096];
                (0..4_096).for_each(|number| {
                    places[(key.hash_one(Peer::from(peer(number))) >> shift) as usize % 4_096] += 1;
                });
                let taken = places.iter().filter(|count| **count > 0).count();
                let most = places.iter().max();
                assert!(taken > 2_400 && most < Some(&12), "{taken} places, {most:?} in one, of {key:?}");
            }
        }
    }
}
