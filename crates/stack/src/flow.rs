//! Demultiplexing: from a packet's addresses and ports to the object that owns the flow.
//!
//! An open-addressing table with linear probing and backward-shift deletion, at most half full. Hashes are kept apart
//! from the flows, sixteen to a cache line: looking for a stranger's flow and closing the gap of a deleted one touch one
//! line as a rule, and a table of 32,768 flows' hashes stays in a core's own cache. Placement is keyed ([`Secret::table_hash`](crate::secret::Secret)).

use crate::secret::Secret;

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A flow as seen from here: local and remote address and port. IPv4 addresses are held in mapped form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowKey {
    local: u128,
    remote: u128,
    ports: u32,
}

const MAPPED: u128 = 0xffff_0000_0000;

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => MAPPED | u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn from_bits(bits: u128) -> IpAddr {
    if bits >> 32 == MAPPED >> 32 {
        IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
    } else {
        IpAddr::V6(Ipv6Addr::from_bits(bits))
    }
}

impl FlowKey {
    pub(crate) fn new(local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> FlowKey {
        FlowKey {
            local: to_bits(local),
            remote: to_bits(remote),
            ports: u32::from(local_port) << 16 | u32::from(remote_port),
        }
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

    #[inline]
    pub(crate) fn hash_into(&self, hasher: &mut (impl Hasher + ?Sized)) {
        if self.local >> 32 == MAPPED >> 32 && self.remote >> 32 == MAPPED >> 32 {
            hasher.write_u64((self.local as u64) << 32 | (self.remote as u64 & 0xffff_ffff));
        } else {
            hasher.write_u128(self.local);
            hasher.write_u128(self.remote);
        }
        hasher.write_u32(self.ports);
    }

    /// The same flow with another local port.
    pub(crate) fn with_local_port(self, port: u16) -> FlowKey {
        FlowKey { ports: u32::from(port) << 16 | self.ports & 0xffff, ..self }
    }
}

/// What owns a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowOwner {
    Connection(u32),
    HalfOpen(u32),
    TimeWait(u32),
}

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry {
    key: FlowKey,
    owner: FlowOwner,
}

const _: () = assert!(size_of::<Entry>() == 64);

const EMPTY: Entry = Entry { key: FlowKey { local: 0, remote: 0, ports: 0 }, owner: FlowOwner::Connection(0) };

/// Flows by key.
pub(crate) struct FlowTable {
    /// Of each entry; 0: unused (bit 0 is always set in a used one).
    hashes: Vec<u32>,
    entries: Vec<Entry>,
    mask: usize,
    count: usize,
}

impl FlowTable {
    /// Memory of a flow at the table's highest load.
    pub(crate) const BYTES_PER_FLOW: usize = 2 * (size_of::<Entry>() + size_of::<u32>());

    /// For at most `limit` flows.
    pub(crate) fn new(limit: usize) -> FlowTable {
        let size = (limit.max(8) * 2).next_power_of_two();
        FlowTable { hashes: vec![0; size], entries: vec![EMPTY; size], mask: size - 1, count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn place(secret: &Secret, key: &FlowKey) -> u32 {
        secret.table_hash(key) as u32 | 1
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> 1) as usize & self.mask
    }

    /// Where the flow is, or else the unused place where it would be.
    fn position(&self, hash: u32, key: &FlowKey) -> Result<usize, usize> {
        let mut index = self.home(hash);
        // Ends: the table is at most half full.
        loop {
            let found = self.hashes[index];
            if found == 0 {
                return Err(index);
            }
            if found == hash && self.entries[index].key == *key {
                return Ok(index);
            }
            index = (index + 1) & self.mask;
        }
    }

    #[inline]
    pub(crate) fn get(&self, secret: &Secret, key: &FlowKey) -> Option<FlowOwner> {
        self.position(FlowTable::place(secret, key), key).ok().map(|index| self.entries[index].owner)
    }

    /// Adds or replaces; `false` when full.
    pub(crate) fn insert(&mut self, secret: &Secret, key: FlowKey, owner: FlowOwner) -> bool {
        let hash = FlowTable::place(secret, &key);
        match self.position(hash, &key) {
            Ok(index) => self.entries[index].owner = owner,
            Err(_) if self.count * 2 >= self.entries.len() => return false,
            Err(index) => {
                self.hashes[index] = hash;
                self.entries[index] = Entry { key, owner };
                self.count += 1;
            }
        }
        true
    }

    pub(crate) fn remove(&mut self, secret: &Secret, key: &FlowKey) -> Option<FlowOwner> {
        let mut hole = self.position(FlowTable::place(secret, key), key).ok()?;
        let owner = self.entries[hole].owner;
        let mut index = hole;
        loop {
            index = (index + 1) & self.mask;
            let hash = self.hashes[index];
            if hash == 0 {
                break;
            }
            // Move the entry back if its home is not between the hole (exclusive) and where it is.
            let distance_home = index.wrapping_sub(self.home(hash)) & self.mask;
            let distance_hole = index.wrapping_sub(hole) & self.mask;
            if distance_home >= distance_hole {
                self.hashes[hole] = hash;
                self.entries[hole] = self.entries[index];
                hole = index;
            }
        }
        self.hashes[hole] = 0;
        self.count -= 1;
        Some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(number: u16) -> FlowKey {
        FlowKey::new(Ipv4Addr::LOCALHOST.into(), 80, Ipv4Addr::new(10, 0, 0, 1).into(), number)
    }

    #[test]
    fn keys_keep_their_parts() {
        let v6: IpAddr = "2001:db8::7".parse().unwrap();
        let flow = FlowKey::new(v6, 80, v6, 4_000);
        assert_eq!((flow.local(), flow.remote()), (SocketAddr::new(v6, 80), SocketAddr::new(v6, 4_000)));
        assert_eq!(key(9).with_local_port(81).local(), "127.0.0.1:81".parse().unwrap());
        assert_eq!(key(9).remote(), "10.0.0.1:9".parse().unwrap());
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((any::<bool>(), 0u16..40), 1..300)) {
            let secret = Secret::new([7; 32]);
            let mut table = FlowTable::new(32);
            let mut model = HashMap::new();
            for (step, (insert, number)) in steps.into_iter().enumerate() {
                let owner = FlowOwner::Connection(step as u32);
                if insert {
                    if table.insert(&secret, key(number), owner) { model.insert(number, owner); }
                    else { prop_assert!(model.len() >= 32); }
                } else {
                    prop_assert_eq!(table.remove(&secret, &key(number)), model.remove(&number));
                }
                prop_assert_eq!(table.len(), model.len());
                for other in 0..40 {
                    prop_assert_eq!(table.get(&secret, &key(other)), model.get(&other).copied());
                }
            }
        }
    }
}
