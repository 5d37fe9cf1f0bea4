//! Demultiplexing: from a packet's addresses and ports to the object that owns the flow.
//!
//! An open-addressing table with linear probing and backward-shift deletion, at most half full. It holds a hash and an
//! owner per flow, eight flows to a cache line, and no keys: the owner of a flow has its key, and that memory is wanted next
//! anyway. So a stranger's look-up, and closing the gap of a flow that ended, touch one line as a rule. Placement is
//! keyed ([`Secret::table_hash`](crate::secret::Secret)).

use crate::secret::{KeyedHash, Secret};
use crate::snapshot;
use serde::{Deserializer, Serializer};

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A flow as seen from here: local and remote address and port. IPv4 addresses are held in mapped form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct FlowKey {
    /// Its place in the table: computed once, for it is looked for, moved and removed by it.
    hash: u32,
    local: u128,
    remote: u128,
    ports: u32,
}

const MAPPED: u128 = 0xffff_0000_0000;

/// An address as bits, IPv4 in mapped form.
pub(crate) fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => MAPPED | u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Whether these bits are an IPv4 address's.
#[inline]
pub(crate) fn is_mapped(bits: u128) -> bool {
    bits >> 32 == MAPPED >> 32
}

fn from_bits(bits: u128) -> IpAddr {
    if is_mapped(bits) { IpAddr::V4(Ipv4Addr::from_bits(bits as u32)) } else { IpAddr::V6(Ipv6Addr::from_bits(bits)) }
}

impl FlowKey {
    pub(crate) fn new(secret: &Secret, local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> FlowKey {
        let ports = u32::from(local_port) << 16 | u32::from(remote_port);
        FlowKey { hash: 0, local: to_bits(local), remote: to_bits(remote), ports }.hashed(secret)
    }

    fn hashed(self, secret: &Secret) -> FlowKey {
        // Never 0, which is an unused entry.
        FlowKey { hash: secret.table_hash(&self) as u32 | 1, ..self }
    }

    pub(crate) fn hash(&self) -> u32 {
        self.hash
    }

    pub(crate) fn local_address(&self) -> IpAddr {
        from_bits(self.local)
    }

    pub(crate) fn remote_address(&self) -> IpAddr {
        from_bits(self.remote)
    }

    pub(crate) fn local_port(&self) -> u16 {
        (self.ports >> 16) as u16
    }

    pub(crate) fn remote_port(&self) -> u16 {
        self.ports as u16
    }

    pub(crate) fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local_address(), self.local_port())
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.remote_address(), self.remote_port())
    }

    /// The same flow with another local port.
    pub(crate) fn with_local_port(self, secret: &Secret, port: u16) -> FlowKey {
        FlowKey { ports: u32::from(port) << 16 | self.ports & 0xffff, ..self }.hashed(secret)
    }
}

impl KeyedHash for FlowKey {
    #[inline]
    fn hash_into(&self, hasher: &mut impl Hasher) {
        if is_mapped(self.local) && is_mapped(self.remote) {
            hasher.write_u64((self.local as u64) << 32 | (self.remote as u64 & 0xffff_ffff));
        } else {
            hasher.write_u128(self.local);
            hasher.write_u128(self.remote);
        }
        hasher.write_u32(self.ports);
    }
}

/// What owns a flow: the slot of one of three slabs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowOwner {
    Connection(u32),
    HalfOpen(u32),
    TimeWait(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Entry {
    /// 0: unused.
    hash: u32,
    /// [`pack`]ed.
    owner: u32,
}

const _: () = assert!(size_of::<Entry>() == 8);
const EMPTY: Entry = Entry { hash: 0, owner: 0 };
const SLOT_BITS: u32 = 30;
/// Slots of a slab that an entry can name.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;

fn pack(owner: FlowOwner) -> u32 {
    match owner {
        FlowOwner::Connection(slot) => slot,
        FlowOwner::HalfOpen(slot) => 1 << SLOT_BITS | slot,
        FlowOwner::TimeWait(slot) => 2 << SLOT_BITS | slot,
    }
}

fn unpack(owner: u32) -> FlowOwner {
    let slot = owner & (SLOTS_MAX as u32 - 1);
    match owner >> SLOT_BITS {
        0 => FlowOwner::Connection(slot),
        1 => FlowOwner::HalfOpen(slot),
        _ => FlowOwner::TimeWait(slot),
    }
}

/// Owners of flows, by [`FlowKey::hash`].
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct FlowTable {
    #[serde(serialize_with = "write_entries", deserialize_with = "read_entries")]
    entries: Vec<Entry>,
    mask: usize,
    count: usize,
}

fn write_entries<S: Serializer>(entries: &[Entry], serializer: S) -> Result<S::Ok, S::Error> {
    snapshot::write_sparse(entries, |entry| *entry == EMPTY, serializer)
}

fn read_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Entry>, D::Error> {
    snapshot::read_sparse(EMPTY, 8 * snapshot::OBJECTS_MAX, deserializer)
}

impl FlowTable {
    /// Memory of a flow at the table's highest load.
    pub(crate) const BYTES_PER_FLOW: usize = 2 * size_of::<Entry>();

    /// For at most `limit` flows.
    pub(crate) fn new(limit: usize) -> FlowTable {
        let size = (limit.max(8) * 2).next_power_of_two();
        FlowTable { entries: vec![EMPTY; size], mask: size - 1, count: 0 }
    }

    /// Whether searches in a table that was read from a snapshot end.
    pub(crate) fn is_sound(&self) -> bool {
        let used = self.entries.iter().filter(|entry| entry.hash != 0).count();
        self.entries.len().is_power_of_two()
            && self.mask == self.entries.len() - 1
            && used == self.count
            && used * 2 <= self.entries.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> 1) as usize & self.mask
    }

    /// The first entry from the hash's home on that `wanted` likes, or else the unused one after them.
    #[inline]
    fn find(&self, hash: u32, mut wanted: impl FnMut(u32) -> bool) -> Result<usize, usize> {
        let mut index = self.home(hash);
        // Ends: the table is at most half full.
        loop {
            let entry = self.entries[index];
            if entry.hash == 0 {
                return Err(index);
            }
            if entry.hash == hash && wanted(entry.owner) {
                return Ok(index);
            }
            index = (index + 1) & self.mask;
        }
    }

    /// The owner of this hash that `is_it` knows by its key.
    #[inline]
    pub(crate) fn get(&self, hash: u32, is_it: impl Fn(FlowOwner) -> bool) -> Option<FlowOwner> {
        self.find(hash, |owner| is_it(unpack(owner))).ok().map(|index| unpack(self.entries[index].owner))
    }

    /// Adds a flow that is not there yet; `false` when full.
    pub(crate) fn insert(&mut self, hash: u32, owner: FlowOwner) -> bool {
        if self.count * 2 >= self.entries.len() {
            return false;
        }
        if let Err(index) = self.find(hash, |_| false) {
            self.entries[index] = Entry { hash, owner: pack(owner) };
            self.count += 1;
        }
        true
    }

    /// Hands a flow over. Gives whether `from` had it.
    pub(crate) fn replace(&mut self, hash: u32, from: FlowOwner, to: FlowOwner) -> bool {
        let found = self.find(hash, |owner| owner == pack(from));
        if let Ok(index) = found {
            self.entries[index].owner = pack(to);
        }
        found.is_ok()
    }

    /// Removes a flow. Gives whether `owner` had it.
    pub(crate) fn remove(&mut self, hash: u32, owner: FlowOwner) -> bool {
        let Ok(mut hole) = self.find(hash, |found| found == pack(owner)) else { return false };
        let mut index = hole;
        loop {
            index = (index + 1) & self.mask;
            let entry = self.entries[index];
            if entry.hash == 0 {
                break;
            }
            // Move the entry back if its home is not between the hole (exclusive) and where it is.
            let distance_home = index.wrapping_sub(self.home(entry.hash)) & self.mask;
            let distance_hole = index.wrapping_sub(hole) & self.mask;
            if distance_home >= distance_hole {
                self.entries[hole] = entry;
                hole = index;
            }
        }
        self.entries[hole] = EMPTY;
        self.count -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u16) -> FlowKey {
        FlowKey::new(&Secret::new([7; 32]), Ipv4Addr::LOCALHOST.into(), 80, Ipv4Addr::new(10, 0, 0, 1).into(), number)
    }

    #[test]
    fn keys_keep_their_parts() {
        let secret = Secret::new([7; 32]);
        let v6: IpAddr = "2001:db8::7".parse().unwrap();
        let flow = FlowKey::new(&secret, v6, 80, v6, 4_000);
        assert_eq!((flow.local(), flow.remote()), (SocketAddr::new(v6, 80), SocketAddr::new(v6, 4_000)));
        assert_eq!(key(9).with_local_port(&secret, 81).local(), "127.0.0.1:81".parse().unwrap());
        assert_eq!(key(9).remote(), "10.0.0.1:9".parse().unwrap());
        assert_eq!(key(9).with_local_port(&secret, 81).with_local_port(&secret, 80), key(9));
    }

    #[test]
    fn owners_keep_their_slots() {
        for slot in [0, 1, SLOTS_MAX as u32 - 1] {
            for owner in [FlowOwner::Connection(slot), FlowOwner::HalfOpen(slot), FlowOwner::TimeWait(slot)] {
                assert_eq!(unpack(pack(owner)), owner);
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(usize),
        Replace(usize),
        Remove(usize),
    }

    proptest! {
        /// Hashes collide here as they please: few values for many flows.
        #[test]
        fn agrees_with_a_list(
            hashes in prop::collection::vec((0u32..40).prop_map(|hash| (hash * 2) | 1), 48),
            steps in prop::collection::vec((0usize..48).prop_flat_map(|flow| prop_oneof![
                Just(Step::Insert(flow)), Just(Step::Replace(flow)), Just(Step::Remove(flow))
            ]), 1..300),
        ) {
            let mut table = FlowTable::new(32);
            let mut model: Vec<Option<FlowOwner>> = vec![None; hashes.len()];
            for step in steps {
                match step {
                    Step::Insert(flow) if model[flow].is_none() => {
                        let owner = FlowOwner::HalfOpen(flow as u32);
                        if table.insert(hashes[flow], owner) { model[flow] = Some(owner); }
                        else { prop_assert!(table.len() >= 32); }
                    }
                    Step::Replace(flow) => {
                        let (from, to) = (FlowOwner::HalfOpen(flow as u32), FlowOwner::Connection(flow as u32));
                        prop_assert_eq!(table.replace(hashes[flow], from, to), model[flow] == Some(from));
                        if model[flow] == Some(from) { model[flow] = Some(to); }
                    }
                    Step::Remove(flow) if model[flow].is_some() => {
                        prop_assert!(table.remove(hashes[flow], model[flow].take().unwrap()));
                    }
                    Step::Insert(_) | Step::Remove(_) => {}
                }
                prop_assert_eq!(table.len(), model.iter().flatten().count());
                for (flow, owner) in model.iter().enumerate() {
                    prop_assert_eq!(table.get(hashes[flow], |found| Some(found) == *owner), *owner);
                    prop_assert!(!table.remove(hashes[flow], FlowOwner::TimeWait(flow as u32)));
                }
            }
        }
    }
}
