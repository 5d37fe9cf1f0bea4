//! How many requests a peer may make: credit that grows with time, for each peer (an IPv4 address, an IPv6 network of 64 bits). The table
//! has a fixed size. Peers that share a place put each other out of it, and begin anew; which ones do, nobody knows.

use hashbrown::DefaultHashBuilder;
use qanat::stack::Peer;
use std::hash::BuildHasher;

/// Places, each 16 bytes. A power of two.
const PLACES: usize = 65_536;
/// One request, in thousandths: credit of a rate of one a second grows by one of them in a millisecond.
const REQUEST: u64 = 1_000;

#[derive(Clone, Copy, Default, Debug)]
struct Place {
    /// Which peer it is of; 0: nobody's.
    key: u32,
    /// When the credit was counted.
    at_ms: u32,
    /// Thousandths of requests.
    credit: u64,
}

/// The table.
#[derive(Debug)]
pub(super) struct RequestRate {
    per_s: u64,
    /// Credit at most: what may come at once.
    burst: u64,
    hasher: DefaultHashBuilder,
    places: Box<[Place]>,
}

impl RequestRate {
    /// So many requests a second and peer, and `burst` at once; 0 a second: `None`, there is no limit.
    pub(super) fn new(per_s: u32, burst: u32) -> Option<RequestRate> {
        let places = || vec![Place::default(); PLACES].into_boxed_slice();
        (per_s > 0).then(|| RequestRate {
            per_s: u64::from(per_s),
            // No less than what a millisecond earns: there are no shorter times here.
            burst: (u64::from(burst.max(1)) * REQUEST).max(u64::from(per_s)),
            hasher: DefaultHashBuilder::default(),
            places: places(),
        })
    }

    /// Whether a peer may make a request at `now_ms` (any beginning, wrapping). It has then made it.
    pub(super) fn allows(&mut self, peer: Peer, now_ms: u32) -> bool {
        let hash = self.hasher.hash_one(peer);
        let key = (hash >> 32) as u32 | 1;
        let Some(place) = self.places.get_mut(hash as usize & (PLACES - 1)) else { return true };
        if place.key != key {
            *place = Place { key, at_ms: now_ms, credit: self.burst };
        }
        let earned = u64::from(now_ms.wrapping_sub(place.at_ms)) * self.per_s;
        place.credit = self.burst.min(place.credit + earned);
        place.at_ms = now_ms;
        match place.credit.checked_sub(REQUEST) {
            Some(rest) => {
                place.credit = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn peer(text: &str) -> Peer {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn credit_is_of_each_peer_and_grows_with_time() {
        assert!(RequestRate::new(0, 9).is_none());
        let mut rate = RequestRate::new(10, 3).unwrap();
        let mut made = |address: &str, at_ms: u32| (0..100).filter(|_| rate.allows(peer(address), at_ms)).count();
        assert_eq!((made("10.0.0.1", 0), made("10.0.0.2", 0)), (3, 3));
        // A tenth of a second is a request; an hour is no more than the burst.
        assert_eq!((made("10.0.0.1", 99), made("10.0.0.1", 100), made("10.0.0.1", 3_600_000)), (0, 1, 3));
        // One network of IPv6 is one peer.
        assert_eq!((made("2001:db8::1", 0), made("2001:db8::2", 0), made("2001:db8:0:1::1", 0)), (3, 0, 3));
        // As many as are allowed may come, however small the burst is.
        let mut fast = RequestRate::new(500_000, 3).unwrap();
        let mut made_fast = |at_ms: u32| (0..500).filter(|_| fast.allows(peer("10.0.0.1"), at_ms)).count();
        assert_eq!((0..10).map(&mut made_fast).sum::<usize>(), 5_000);
        // The clock begins anew.
        assert_eq!((made("10.0.0.3", u32::MAX - 50), made("10.0.0.3", 49)), (3, 1));
    }
}
