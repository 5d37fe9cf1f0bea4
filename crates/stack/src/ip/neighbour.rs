//! Neighbours: from next-hop address to Ethernet address (ARP, RFC 826; ND, RFC 4861), bounded and hard to poison.
//!
//! An entry is made only by a need of ours, or by a neighbour on a local prefix asking for *our* address. An answer is
//! taken only while we are asking. A known address changes only [`LOCK`] after it was last confirmed, so a forger
//! racing the true owner does not flip it back and forth. When the table is full the least useful of a few entries
//! goes, unresolved ones first.

use qanat_nic::{Frame, Time, TransmitOptions};
use qanat_wire::ethernet::MacAddress;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use crate::tables::peer::Keyed;
use crate::tables::slab::Slab;

/// Between two requests for the same address (RFC 4861 RETRANS_TIMER).
pub(crate) const RETRANSMIT: Duration = Duration::from_secs(1);
/// Requests before giving up (RFC 4861 MAX_UNICAST_SOLICIT and MAX_MULTICAST_SOLICIT).
const REQUESTS_MAX: u8 = 3;
/// Unconfirmed for so long, an entry in use is asked again (RFC 4861 REACHABLE_TIME).
const REACHABLE: Duration = Duration::from_secs(30);
/// A confirmed address is not replaced for this long.
const LOCK: Duration = Duration::from_secs(1);
/// The use of an address is noted at least so often: what goes when the table is full is decided by it.
const USE_NOTED: Duration = Duration::from_secs(1);
/// Frames kept for each unresolved neighbour, whoever else is unresolved; the oldest goes first (RFC 1122 section 2.3.2.2 asks
/// for at least one).
const PENDING_OWN: usize = 4;
/// Frames beyond those, of all neighbours together: many connections may begin at once with one that is not known yet.
const PENDING_SHARED: usize = 256;
/// Entries looked at to find one to evict.
const EVICTION_CANDIDATES: u32 = 16;

/// A frame waiting for its Ethernet destination to be filled in.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    pub(crate) frame: Frame,
    pub(crate) options: TransmitOptions,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Neighbour {
    address: IpAddr,
    mac: Option<MacAddress>,
    confirmed: Time,
    /// It has been doubted since then.
    is_doubted: bool,
    used: Time,
    requests: u8,
    pending: VecDeque<Pending>,
}

impl Neighbour {
    fn confirm(&mut self, now: Time) {
        (self.confirmed, self.is_doubted, self.requests) = (now, false, 0);
    }
}

/// A place in the table that a connection may remember; stale when the entry is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct NeighbourHint {
    slot: u32,
    generation: u32,
}

impl NeighbourHint {
    /// No place.
    pub(crate) const NONE: NeighbourHint = NeighbourHint { slot: u32::MAX, generation: 0 };
}

/// What to do about a neighbour whose timer expired.
pub(crate) enum Retry {
    /// Nothing: it is resolved, or gone.
    Nothing,
    /// Ask again (to its known address first), and set the timer again.
    Ask(IpAddr, Option<MacAddress>),
    /// It did not answer; the frames that waited for it are lost (their number).
    Failed(IpAddr, usize),
}

/// The result of asking for an address.
pub(crate) enum Resolution {
    /// Known. `refresh`: confirmation is overdue, so ask it (and set its timer).
    Known { mac: MacAddress, hint: NeighbourHint, refresh: bool },
    /// Not known. `ask`: this is a new entry, so send a request (and set its timer).
    Unknown { hint: NeighbourHint, ask: bool },
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Neighbours {
    entries: Slab<Neighbour>,
    #[serde(serialize_with = "write_key", deserialize_with = "read_key")]
    by_address: HashMap<IpAddr, u32, Keyed>,
    /// Where the search for something to evict goes on.
    hand: u32,
    limit: u32,
    /// Of [`PENDING_SHARED`], how many may still be kept.
    shared_left: usize,
    /// Changes of addresses that were known: replaced, or gone.
    pub(crate) version: u64,
}

fn write_key<S: Serializer>(by_address: &HashMap<IpAddr, u32, Keyed>, serializer: S) -> Result<S::Ok, S::Error> {
    by_address.hasher().serialize(serializer)
}

/// Empty as yet: what is in it is seen from the entries.
fn read_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HashMap<IpAddr, u32, Keyed>, D::Error> {
    Ok(HashMap::with_hasher(Keyed::deserialize(deserializer)?))
}

impl Neighbours {
    /// Whether a table that was read from a snapshot is consistent. Frames that wait can be written.
    pub(crate) fn is_sound(&mut self) -> bool {
        if !self.entries.is_sound() || self.shared_left > PENDING_SHARED {
            return false;
        }
        self.by_address.reserve(self.limit.min(1 << 16) as usize);
        self.by_address.extend(self.entries.iter().map(|(slot, neighbour)| (neighbour.address, slot)));
        for slot in self.by_address.values() {
            let Some(neighbour) = self.entries.at_mut(*slot) else { return false };
            if neighbour.pending.iter_mut().any(|waiting| waiting.frame.writable().is_none()) {
                return false;
            }
        }
        true
    }

    pub(crate) fn new(limit: u32, key: (u64, u64)) -> Neighbours {
        Neighbours {
            entries: Slab::new(limit as usize),
            by_address: HashMap::with_capacity_and_hasher(limit as usize, Keyed(key.0, key.1)),
            hand: 0,
            limit,
            shared_left: PENDING_SHARED,
            version: 0,
        }
    }

    /// Entries, resolved or not.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Frames waiting for resolution.
    pub(crate) fn pending_count(&self) -> usize {
        self.entries.iter().map(|(_, neighbour)| neighbour.pending.len()).sum()
    }

    /// The Ethernet address for `address`, quickly if `hint` still holds.
    #[inline]
    pub(crate) fn resolve(&mut self, now: Time, address: IpAddr, hint: NeighbourHint) -> Resolution {
        let slot = match self.entries.get(hint.slot as usize, hint.generation) {
            Some(neighbour) if neighbour.address == address => Some(hint.slot),
            _ => self.by_address.get(&address).copied(),
        };
        let (slot, new) = match slot {
            Some(slot) => (slot, false),
            None => (self.create(now, address), true),
        };
        let hint = NeighbourHint { slot, generation: self.entries.generation(slot) };
        let Some(neighbour) = self.entries.at_mut(slot) else {
            return Resolution::Unknown { hint, ask: false };
        };
        neighbour.used = now;
        match neighbour.mac {
            Some(mac) => {
                let is_overdue = neighbour.is_doubted || now.since(neighbour.confirmed) > REACHABLE;
                let refresh = neighbour.requests == 0 && is_overdue;
                if refresh {
                    neighbour.requests = 1;
                }
                Resolution::Known { mac, hint, refresh }
            }
            None => {
                if new {
                    neighbour.requests = 1;
                }
                Resolution::Unknown { hint, ask: new }
            }
        }
    }

    fn create(&mut self, now: Time, address: IpAddr) -> u32 {
        if self.entries.is_full() {
            self.evict();
        }
        let neighbour = Neighbour {
            address,
            mac: None,
            confirmed: Time::ZERO,
            is_doubted: false,
            used: now,
            requests: 0,
            pending: VecDeque::new(),
        };
        match self.entries.insert(neighbour) {
            Ok((slot, _)) => {
                self.by_address.insert(address, slot);
                slot
            }
            Err(_) => u32::MAX,
        }
    }

    fn evict(&mut self) {
        let mut victim: Option<(bool, Time, u32)> = None;
        for _ in 0..EVICTION_CANDIDATES.min(self.limit) {
            self.hand = (self.hand + 1) % self.limit;
            if let Some(neighbour) = self.entries.at(self.hand) {
                let candidate = (neighbour.mac.is_some(), neighbour.used, self.hand);
                if victim.is_none_or(|best| candidate < best) {
                    victim = Some(candidate);
                }
            }
        }
        if let Some((_, _, slot)) = victim
            && let Some(neighbour) = self.entries.remove(slot)
        {
            self.version += 1;
            self.by_address.remove(&neighbour.address);
            self.leave(neighbour.pending.len());
        }
    }

    /// So many frames that waited for one neighbour wait no more.
    fn leave(&mut self, frames: usize) {
        self.shared_left += frames.saturating_sub(PENDING_OWN);
    }

    /// Until when a known address may be used without [`resolve`](Neighbours::resolve), while `version` stays the same: it is
    /// to be asked for again when its confirmation is due, and to count as used at least every [`USE_NOTED`]. `None`: not
    /// known.
    pub(crate) fn fresh_until(&self, now: Time, hint: NeighbourHint) -> Option<Time> {
        let neighbour = self.entries.get(hint.slot as usize, hint.generation)?;
        neighbour.mac?;
        Some((neighbour.confirmed + REACHABLE).min(now + USE_NOTED))
    }

    /// A packet came from the known address of a neighbour that is learnt by what it sends: what
    /// [`learn`](Neighbours::learn) does about it.
    #[inline]
    pub(crate) fn confirm(&mut self, now: Time, hint: NeighbourHint) {
        if let Some(neighbour) = self.entries.get_mut(hint.slot as usize, hint.generation) {
            neighbour.confirm(now);
        }
    }

    /// The entry of `address`, if `hint` still holds.
    #[inline]
    fn at_hint(&mut self, address: IpAddr, hint: NeighbourHint) -> Option<&mut Neighbour> {
        let neighbour = self.entries.get_mut(hint.slot as usize, hint.generation)?;
        (neighbour.address == address).then_some(neighbour)
    }

    /// A packet that this neighbour has passed on came from `mac`. Gives whether that is the known address, which is then
    /// confirmed.
    #[inline]
    pub(crate) fn is_from(&mut self, now: Time, address: IpAddr, hint: NeighbourHint, mac: MacAddress) -> bool {
        let known = self.at_hint(address, hint).filter(|neighbour| neighbour.mac == Some(mac));
        let is_known = known.is_some();
        if let Some(neighbour) = known {
            neighbour.confirm(now);
        }
        is_known
    }

    /// What went to a neighbour is not answered (RFC 1122 section 2.3.2.1, advice of a higher layer): if it has not been
    /// confirmed just now, it is asked again when it is needed next, which is at once.
    pub(crate) fn doubt(&mut self, now: Time, address: IpAddr, hint: NeighbourHint) {
        if let Some(neighbour) = self.at_hint(address, hint)
            && now.since(neighbour.confirmed) > LOCK
        {
            neighbour.is_doubted = true;
        }
    }

    /// As [`doubt`](Neighbours::doubt), of whoever is not remembered by anybody.
    pub(crate) fn doubt_address(&mut self, now: Time, address: IpAddr) {
        if let Some(&slot) = self.by_address.get(&address) {
            let hint = NeighbourHint { slot, generation: self.entries.generation(slot) };
            self.doubt(now, address, hint);
        }
    }

    /// Keeps a frame until its neighbour answers; gives back what had to go for it (the frame itself if the entry is
    /// gone).
    pub(crate) fn wait(&mut self, hint: NeighbourHint, pending: Pending) -> Option<Pending> {
        let Some(neighbour) = self.entries.get_mut(hint.slot as usize, hint.generation) else {
            return Some(pending);
        };
        let mut displaced = None;
        if neighbour.pending.len() >= PENDING_OWN {
            match self.shared_left.checked_sub(1) {
                Some(left) => self.shared_left = left,
                None => displaced = neighbour.pending.pop_front(),
            }
        }
        neighbour.pending.push_back(pending);
        displaced
    }

    /// A neighbour told its Ethernet address. `solicited`: it answers a question (else it asks us, or just says so);
    /// `create`: it may be entered unasked. Returns the frames that waited for it.
    pub(crate) fn learn(
        &mut self,
        now: Time,
        address: IpAddr,
        mac: MacAddress,
        solicited: bool,
        create: bool,
    ) -> VecDeque<Pending> {
        let slot = match self.by_address.get(&address) {
            Some(&slot) => slot,
            None if create => self.create(now, address),
            None => return VecDeque::new(),
        };
        let Some(neighbour) = self.entries.at_mut(slot) else { return VecDeque::new() };
        let asking = neighbour.requests > 0;
        let accept = match neighbour.mac {
            None => true,
            Some(known) if known == mac => true,
            Some(_) => (asking && solicited) || now.since(neighbour.confirmed) > LOCK,
        };
        if !accept {
            return VecDeque::new();
        }
        self.version += u64::from(neighbour.mac.is_some_and(|known| known != mac));
        neighbour.mac = Some(mac);
        neighbour.confirm(now);
        let waited = std::mem::take(&mut neighbour.pending);
        self.leave(waited.len());
        waited
    }

    /// The retransmission timer of an entry expired.
    pub(crate) fn retry(&mut self, hint: NeighbourHint) -> Retry {
        let Some(neighbour) = self.entries.get_mut(hint.slot as usize, hint.generation) else {
            return Retry::Nothing;
        };
        if neighbour.requests == 0 {
            return Retry::Nothing;
        }
        if neighbour.requests < REQUESTS_MAX {
            neighbour.requests += 1;
            // The last attempt to refresh asks everybody: the neighbour may have got another card.
            let mac = neighbour.mac.filter(|_| neighbour.requests < REQUESTS_MAX);
            return Retry::Ask(neighbour.address, mac);
        }
        let address = neighbour.address;
        let lost = neighbour.pending.len();
        self.leave(lost);
        self.version += 1;
        self.entries.remove(hint.slot);
        self.by_address.remove(&address);
        Retry::Failed(address, lost)
    }

    /// What is known now, for statistics.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, Option<MacAddress>)> {
        self.entries.iter().map(|(_, neighbour)| (neighbour.address, neighbour.mac))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const FORGED: MacAddress = MacAddress([2, 0, 0, 0, 0, 66]);

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    fn known(table: &mut Neighbours, now: Time, address: IpAddr) -> Option<MacAddress> {
        match table.resolve(now, address, NeighbourHint::default()) {
            Resolution::Known { mac, .. } => Some(mac),
            Resolution::Unknown { .. } => None,
        }
    }

    #[test]
    fn unasked_answers_are_not_entered() {
        let mut table = Neighbours::new(8, (1, 2));
        table.learn(Time::ZERO, address(1), FORGED, true, false);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_confirmed_address_is_not_flipped() {
        let mut table = Neighbours::new(8, (1, 2));
        assert_eq!(known(&mut table, Time::ZERO, address(1)), None);
        table.learn(Time::ZERO, address(1), MAC, true, false);
        table.learn(Time::from_millis(10), address(1), FORGED, false, true);
        assert_eq!(known(&mut table, Time::from_millis(11), address(1)), Some(MAC));
        table.learn(Time::from_millis(3_000), address(1), FORGED, false, true);
        assert_eq!(known(&mut table, Time::from_millis(3_001), address(1)), Some(FORGED), "a replaced card is learnt");
    }

    #[test]
    fn who_does_not_answer_is_asked_again() {
        let mut table = Neighbours::new(4, (1, 2));
        table.learn(Time::ZERO, address(1), MAC, false, true);
        let asks = |table: &mut Neighbours, now| {
            matches!(table.resolve(now, address(1), NeighbourHint::NONE), Resolution::Known { refresh: true, .. })
        };
        let later = Time::ZERO + LOCK + LOCK;
        assert!(!asks(&mut table, later));
        table.doubt_address(Time::ZERO + LOCK, address(1));
        assert!(!asks(&mut table, later), "it has been confirmed just now");
        table.doubt_address(later, address(2));
        assert!(!asks(&mut table, later), "another was doubted");
        table.doubt_address(later, address(1));
        assert!(asks(&mut table, later) && !asks(&mut table, later), "it is asked once at a time");
    }

    #[test]
    fn a_flood_of_unresolved_leaves_the_resolved() {
        let mut table = Neighbours::new(16, (1, 2));
        known(&mut table, Time::ZERO, address(1));
        table.learn(Time::ZERO, address(1), MAC, true, false);
        for number in 100..10_000 {
            known(&mut table, Time::from_millis(u64::from(number)), address(number));
        }
        assert_eq!(table.len(), 16);
        assert_eq!(known(&mut table, Time::from_millis(10_000), address(1)), Some(MAC));
    }

    #[test]
    fn many_frames_wait_for_one_neighbour_and_no_more_than_all_may() {
        let pool = qanat_nic::Region::new(1_024, 2_048).unwrap().pool(1_024).unwrap();
        let pending = || Pending { frame: pool.allocate(0).unwrap(), options: TransmitOptions::default() };
        let mut table = Neighbours::new(16, (1, 2));
        let unknown =
            |table: &mut Neighbours, number| match table.resolve(Time::ZERO, address(number), NeighbourHint::default())
            {
                Resolution::Unknown { hint, .. } => hint,
                Resolution::Known { .. } => panic!("nobody answered"),
            };
        let first = unknown(&mut table, 1);
        let kept = (0..64).filter(|_| table.wait(first, pending()).is_none()).count();
        assert_eq!(kept, 64, "64 connections begin at once");
        for number in 2..=16 {
            let hint = unknown(&mut table, number);
            (0..64).for_each(|_| drop(table.wait(hint, pending())));
        }
        assert_eq!(table.pending_count(), PENDING_SHARED + 16 * PENDING_OWN);
        assert_eq!(table.learn(Time::ZERO, address(1), MAC, true, false).len(), 64);
        // Each way out gives back what it held: an answer, silence, and another's place.
        let silent = unknown(&mut table, 2);
        while !matches!(table.retry(silent), Retry::Failed(..)) {}
        for number in 100..200 {
            table.resolve(Time::from_millis(number.into()), address(number), NeighbourHint::default());
        }
        assert_eq!((table.pending_count(), table.shared_left), (0, PENDING_SHARED));
    }

    #[test]
    fn gives_up_after_three_requests() {
        let mut table = Neighbours::new(8, (1, 2));
        let Resolution::Unknown { hint, ask: true } = table.resolve(Time::ZERO, address(1), NeighbourHint::default())
        else {
            panic!("must ask");
        };
        assert!(matches!(table.retry(hint), Retry::Ask(..)));
        assert!(matches!(table.retry(hint), Retry::Ask(..)));
        assert!(matches!(table.retry(hint), Retry::Failed(..)));
        assert!(matches!(table.retry(hint), Retry::Nothing));
    }
}
