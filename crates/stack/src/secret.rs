//! Keyed hashes from the entropy a stack is started with: initial sequence numbers, ports, table placement.

use crate::flow::FlowKey;
use qanat_nic::Time;
use siphasher::sip::{SipHasher13, SipHasher24};
use std::hash::Hasher;

/// Keys no peer can guess. One per stack, never shared.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Secret {
    table: (u64, u64),
    sequence: (u64, u64),
}

impl Secret {
    pub(crate) fn new(entropy: [u8; 32]) -> Secret {
        let word = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&entropy[index * 8..index * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        Secret { table: (word(0), word(1)), sequence: (word(2), word(3)) }
    }

    /// Placement in hash tables: keyed, so that peers can't choose their collisions.
    #[inline]
    pub(crate) fn table_hash(&self, key: &FlowKey) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.table.0, self.table.1);
        key.hash_into(&mut hasher);
        hasher.finish()
    }

    /// RFC 6528: ISN = M + F(local, remote, secret), M a timer of 4 µs; and RFC 7323 section 5.4: a per-flow offset of the
    /// timestamp clock, so that it tells nothing about the machine. Two halves of one hash.
    pub(crate) fn initial_numbers(&self, key: &FlowKey, now: Time) -> (u32, u32) {
        let mut hasher = SipHasher24::new_with_keys(self.sequence.0, self.sequence.1);
        key.hash_into(&mut hasher);
        let hash = hasher.finish();
        ((hash as u32).wrapping_add((now.as_nanos() / 4_000) as u32), (hash >> 32) as u32)
    }

    /// RFC 6056 algorithm 3: where the search for an ephemeral port to this destination starts.
    pub(crate) fn port_offset(&self, key: &FlowKey) -> u32 {
        let mut hasher = SipHasher24::new_with_keys(self.table.1, self.sequence.0);
        key.hash_into(&mut hasher);
        hasher.finish() as u32
    }

    /// The hash in SYN cookies (RFC 4987 section 3.6).
    pub(crate) fn cookie_hash(&self, key: &FlowKey, count: u32) -> u32 {
        let mut hasher = SipHasher24::new_with_keys(self.sequence.0 ^ self.table.1, self.sequence.1 ^ self.table.0);
        key.hash_into(&mut hasher);
        hasher.write_u32(count);
        hasher.finish() as u32
    }

    /// The key of Fast Open cookies (RFC 7413 section 4.1.2).
    pub(crate) fn fast_open_key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        for (half, bytes) in key.chunks_exact_mut(8).enumerate() {
            let mut hasher = SipHasher24::new_with_keys(self.sequence.0 ^ self.table.0, self.sequence.1 ^ self.table.1);
            hasher.write_u64(half as u64);
            bytes.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        key
    }

    /// The key of the neighbour table.
    pub(crate) fn neighbour_key(&self) -> (u64, u64) {
        (self.table.1, self.table.0)
    }
}
