//! [`Groups`]: which frames for groups the host's driver is asked to let through.

use super::mailbox::PUT_WORDS;
use super::registers::MESSAGE_SET_GROUPS;
use qanat_wire::ethernet::MacAddress;
use qanat_wire::neighbor_discovery::solicited_node;
use std::net::Ipv6Addr;

/// Hashes in a message, two in a word.
const HASHES_MAX: usize = 2 * (PUT_WORDS - 1);
/// Addresses whose groups there is room for, beside that of all nodes.
pub(super) const ADDRESSES_MAX: usize = HASHES_MAX - 1;
/// The group of all nodes (RFC 4291, section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The IPv6 addresses that neighbours may ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    addresses: Vec<Ipv6Addr>,
}

/// What the card's table of groups knows a group by: 12 bits of its address.
fn hash_of(group: Ipv6Addr) -> u16 {
    let MacAddress([.., low, high]) = MacAddress::for_ipv6_multicast(group);
    u16::from(low) >> 4 | u16::from(high) << 4
}

impl Groups {
    /// Adds an address; `None`: there is no room. Whether it is new.
    pub(super) fn add(&mut self, address: Ipv6Addr) -> Option<bool> {
        if self.addresses.contains(&address) {
            return Some(false);
        }
        if self.addresses.len() >= ADDRESSES_MAX {
            return None;
        }
        self.addresses.push(address);
        Some(true)
    }

    /// Takes an address away. The host needn't be told: a frame too many is dropped by the stack.
    pub(super) fn remove(&mut self, address: Ipv6Addr) {
        self.addresses.retain(|other| *other != address);
    }

    /// The message that asks for them.
    pub(super) fn words(&self) -> [u32; PUT_WORDS] {
        let mut hashes: Vec<u16> = self.addresses.iter().map(|address| hash_of(solicited_node(*address))).collect();
        hashes.push(hash_of(ALL_NODES));
        hashes.sort_unstable();
        hashes.dedup();
        let mut words = [0; PUT_WORDS];
        let [head, rest @ ..] = &mut words;
        *head = MESSAGE_SET_GROUPS | (hashes.len() as u32) << 16;
        for (word, pair) in rest.iter_mut().zip(hashes.chunks(2)) {
            *word = pair.iter().rev().fold(0, |word, hash| word << 16 | u32::from(*hash));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_by_their_hashes() {
        // 33:33:00:00:00:01, and 33:33:ff:00:01:02 of the address that ends in 1:0102.
        assert_eq!(hash_of(ALL_NODES), 0x010);
        let mut groups = Groups::default();
        assert_eq!(groups.words()[..2], [3 | 1 << 16, 0x010]);
        let address: Ipv6Addr = "fd00::1:102".parse().unwrap();
        assert_eq!((groups.add(address), groups.add(address)), (Some(true), Some(false)));
        assert_eq!(groups.words()[..3], [3 | 2 << 16, 0x020 << 16 | 0x010, 0]);
        groups.remove(address);
        assert_eq!(groups.words()[0], 3 | 1 << 16);
    }

    #[test]
    fn there_is_room_for_some() {
        let mut groups = Groups::default();
        for index in 2..2 + ADDRESSES_MAX as u16 {
            assert_eq!(groups.add(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, index)), Some(true));
        }
        assert_eq!(groups.add(ALL_NODES), None);
        assert_eq!(groups.words()[0] >> 16, HASHES_MAX as u32);
    }
}
