//! IP reassembly (RFC 791 section 3.2, RFC 8200 section 4.5) with hard limits.
//!
//! Fragments are copied into a frame of 64 KiB out of a small pool of their own: what an attacker can make us hold is that
//! pool and nothing else. A datagram with overlapping fragments is dropped whole (RFC 5722 for IPv6; we do the same for
//! IPv4, where honest senders don't overlap either).

use crate::ip::packet::IpMeta;
use crate::tables::peer::Peer;
use qanat_nic::{Frame, Pool, Region, Time};
use qanat_wire::ip::{Ecn, Protocol};
use std::net::IpAddr;
use std::time::Duration;

/// Datagrams put together at once.
const DATAGRAMS_MAX: usize = 16;
/// Of these, from one peer: a single host can't take all places, however many addresses its network gives it.
const DATAGRAMS_PER_PEER_MAX: usize = 4;
/// Fragments per datagram: 64 KiB in pieces of the smallest MTU's size.
const FRAGMENTS_MAX: usize = 128;
/// Largest payload of a datagram, bytes.
const LENGTH_MAX: usize = 65_535;
/// From the first fragment to the last (RFC 8200: 60 s; RFC 1122: 60 to 120; Linux: 30).
const TIMEOUT: Duration = Duration::from_secs(30);

/// A fragment's place in its datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentPlace {
    /// Names the datagram among those between two hosts.
    pub(crate) identification: u32,
    /// Where the fragment's payload belongs, bytes.
    pub(crate) offset: usize,
    /// Further fragments follow.
    pub(crate) more: bool,
}

/// What became of a fragment.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Kept.
    Waiting,
    /// It was the last one missing: the datagram's payload.
    Complete(Frame, IpMeta),
    /// Dropped, and perhaps its datagram with it.
    Dropped,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Datagram {
    source: IpAddr,
    destination: IpAddr,
    protocol: Protocol,
    identification: u32,
    frame: Frame,
    /// Filled ranges, in order, not touching: start and end.
    filled: Vec<(usize, usize)>,
    /// Known once the last fragment is here.
    length: Option<usize>,
    ecn: Ecn,
    expires: Time,
}

/// Datagrams being put together.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Reassembly {
    #[serde(skip, default = "pool")]
    pool: Option<Pool>,
    datagrams: Vec<Datagram>,
}

fn pool() -> Option<Pool> {
    // 1 MiB of address space, touched only when fragments come. One frame more than places: a finished datagram may
    // still be the service's.
    Region::new(DATAGRAMS_MAX as u32 * 2, 65_536).ok().and_then(|region| {
        let count = region.frame_count();
        region.pool(count)
    })
}

impl Reassembly {
    pub(crate) fn new() -> Reassembly {
        Reassembly { pool: pool(), datagrams: Vec::new() }
    }

    /// An empty frame that holds any datagram, for payloads that the device spread over several.
    pub(crate) fn large_frame(&self) -> Option<Frame> {
        self.pool.as_ref()?.allocate(0)
    }

    /// Datagrams waiting for fragments.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Takes a fragment with `payload`.
    pub(crate) fn add(&mut self, now: Time, meta: IpMeta, place: FragmentPlace, payload: &[u8]) -> Outcome {
        let end = place.offset + payload.len();
        // All but the last carry a multiple of eight bytes (RFC 8200 section 4.5).
        if payload.is_empty() || end > LENGTH_MAX || (place.more && !payload.len().is_multiple_of(8)) {
            return Outcome::Dropped;
        }
        let same = |datagram: &Datagram| {
            datagram.identification == place.identification
                && datagram.source == meta.source
                && datagram.destination == meta.destination
                && datagram.protocol == meta.protocol
        };
        let index = match self.datagrams.iter().position(same) {
            Some(index) => index,
            None => match self.begin(now, meta, place) {
                Some(index) => index,
                None => return Outcome::Dropped,
            },
        };
        let Some(datagram) = self.datagrams.get_mut(index) else { return Outcome::Dropped };
        if !datagram.add(place, payload) {
            self.datagrams.swap_remove(index);
            return Outcome::Dropped;
        }
        if meta.ecn == Ecn::CongestionExperienced {
            datagram.ecn = meta.ecn;
        }
        if datagram.is_complete() {
            let datagram = self.datagrams.swap_remove(index);
            return Outcome::Complete(datagram.frame, IpMeta { ecn: datagram.ecn, ..meta });
        }
        Outcome::Waiting
    }

    fn begin(&mut self, now: Time, meta: IpMeta, place: FragmentPlace) -> Option<usize> {
        let peer = Peer::from(meta.source);
        let of_source = self.datagrams.iter().filter(|datagram| Peer::from(datagram.source) == peer).count();
        if of_source >= DATAGRAMS_PER_PEER_MAX {
            return None;
        }
        if self.datagrams.len() >= DATAGRAMS_MAX {
            // The oldest has had the best chance.
            let oldest = self.datagrams.iter().enumerate().min_by_key(|(_, datagram)| datagram.expires)?.0;
            self.datagrams.swap_remove(oldest);
        }
        let mut frame = self.pool.as_ref()?.allocate(0)?;
        frame.append(LENGTH_MAX)?;
        self.datagrams.push(Datagram {
            source: meta.source,
            destination: meta.destination,
            protocol: meta.protocol,
            identification: place.identification,
            frame,
            filled: Vec::new(),
            length: None,
            ecn: meta.ecn,
            expires: now + TIMEOUT,
        });
        Some(self.datagrams.len() - 1)
    }

    /// Forgets datagrams that were not completed in time. Gives how many.
    pub(crate) fn expire(&mut self, now: Time) -> usize {
        let before = self.datagrams.len();
        self.datagrams.retain(|datagram| datagram.expires > now);
        before - self.datagrams.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.datagrams.iter().map(|datagram| datagram.expires).min()
    }
}

impl Datagram {
    /// Adds a fragment. Gives `false` if the datagram can't be completed any more.
    fn add(&mut self, place: FragmentPlace, payload: &[u8]) -> bool {
        let (start, end) = (place.offset, place.offset + payload.len());
        if !place.more {
            if self.length.is_some_and(|length| length != end) {
                return false;
            }
            self.length = Some(end);
        }
        if self.length.is_some_and(|length| end > length)
            || self.filled.iter().any(|&(_, filled)| self.length.is_some_and(|length| filled > length))
        {
            return false;
        }
        let position = self.filled.partition_point(|&(filled_start, _)| filled_start < start);
        let overlaps_before = position > 0 && self.filled.get(position - 1).is_some_and(|&(_, before)| before > start);
        let overlaps_after = self.filled.get(position).is_some_and(|&(after, _)| after < end);
        if overlaps_before || overlaps_after {
            // The very same fragment again is a duplicate of the network's making (RFC 8200 allows to ignore it).
            return self.filled.iter().any(|&(filled_start, filled_end)| filled_start <= start && end <= filled_end)
                && self.frame.bytes().get(start..end) == Some(payload);
        }
        let Some(target) = self.frame.bytes_mut().get_mut(start..end) else { return false };
        target.copy_from_slice(payload);
        self.filled.insert(position, (start, end));
        self.merge(position);
        self.filled.len() <= FRAGMENTS_MAX
    }

    fn merge(&mut self, position: usize) {
        let touches = |filled: &[(usize, usize)], at: usize| match (filled.get(at), filled.get(at + 1)) {
            (Some(&(_, end)), Some(&(start, _))) => end == start,
            _ => false,
        };
        for at in [Some(position), position.checked_sub(1)].into_iter().flatten() {
            if touches(&self.filled, at) {
                let (_, end) = self.filled.remove(at + 1);
                if let Some(range) = self.filled.get_mut(at) {
                    range.1 = end;
                }
            }
        }
    }

    fn is_complete(&mut self) -> bool {
        match (self.length, self.filled.as_slice()) {
            (Some(length), &[(0, end)]) if end == length => {
                self.frame.truncate(length);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meta(host: u8) -> IpMeta {
        IpMeta::new(IpAddr::from([10, 0, 0, host]), IpAddr::from([10, 0, 0, 100]), Protocol::UDP)
    }

    fn place(identification: u32, offset: usize, more: bool) -> FragmentPlace {
        FragmentPlace { identification, offset, more }
    }

    #[test]
    fn overlapping_fragments_cost_the_datagram() {
        let mut table = Reassembly::new();
        assert!(matches!(table.add(Time::ZERO, meta(1), place(1, 0, true), &[1; 16]), Outcome::Waiting));
        assert!(matches!(table.add(Time::ZERO, meta(1), place(1, 0, true), &[1; 16]), Outcome::Waiting), "a duplicate");
        assert!(matches!(table.add(Time::ZERO, meta(1), place(1, 8, false), &[2; 16]), Outcome::Dropped));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_bomb_holds_no_more_than_the_table() {
        let mut table = Reassembly::new();
        for identification in 0..100_000 {
            table.add(Time::ZERO, meta((identification % 200) as u8), place(identification, 0, true), &[0; 8]);
        }
        assert_eq!(table.len(), DATAGRAMS_MAX);
        assert_eq!(table.expire(Time::ZERO + TIMEOUT), DATAGRAMS_MAX);
        assert_eq!(table.pool.as_ref().unwrap().in_use_count(), 0);
    }

    #[test]
    fn the_ping_of_death_is_too_long() {
        let mut table = Reassembly::new();
        assert!(matches!(table.add(Time::ZERO, meta(1), place(1, 65_528, false), &[0; 64]), Outcome::Dropped));
        assert_eq!(table.len(), 0);
    }

    proptest! {
        /// Whatever the order, the payload comes out whole, once.
        #[test]
        fn any_order(length in 1usize..20_000, unit in 1usize..200, seed in any::<u64>()) {
            let payload: Vec<u8> = (0..length).map(|index| (index * 31 % 253) as u8).collect();
            let mut pieces: Vec<(usize, &[u8])> =
                payload.chunks(unit * 8 + length / 1_000 * 8).scan(0, |at, part| { let start = *at; *at += part.len(); Some((start, part)) }).collect();
            let mut state = seed | 1;
            for index in (1..pieces.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                pieces.swap(index, (state >> 33) as usize % (index + 1));
            }
            let mut table = Reassembly::new();
            let count = pieces.len();
            for (number, (offset, part)) in pieces.into_iter().enumerate() {
                let more = offset + part.len() < length;
                match table.add(Time::ZERO, meta(1), place(9, offset, more), part) {
                    Outcome::Complete(frame, _) => {
                        prop_assert_eq!(number, count - 1);
                        prop_assert_eq!(frame.bytes(), payload.as_slice());
                    }
                    Outcome::Waiting => prop_assert!(number < count - 1),
                    Outcome::Dropped => prop_assert!(false, "dropped"),
                }
            }
            prop_assert_eq!(table.len(), 0);
        }
    }
}
