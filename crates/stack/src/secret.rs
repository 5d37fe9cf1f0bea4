//! Keyed hashes from the entropy a stack is started with: initial sequence numbers, ports, table placement.

use qanat_nic::Time;
use siphasher::sip::{SipHasher13, SipHasher24};
use std::hash::Hasher;

/// What can be hashed with a key.
pub(crate) trait KeyedHash {
    /// Gives the hasher all that matters.
    fn hash_into(&self, hasher: &mut impl Hasher);
}

/// Keys no peer can guess. One per stack, never shared.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Secret {
    table: (u64, u64),
    sequence: (u64, u64),
    draws: u64,
}

impl Secret {
    pub(crate) fn new(entropy: [u8; 32]) -> Secret {
        let word = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&entropy[index * 8..index * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        Secret { table: (word(0), word(1)), sequence: (word(2), word(3)), draws: 0 }
    }

    /// Placement in hash tables: keyed, so that peers can't choose their collisions.
    #[inline]
    pub(crate) fn table_hash(&self, key: &impl KeyedHash) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.table.0, self.table.1);
        key.hash_into(&mut hasher);
        hasher.finish()
    }

    /// RFC 6528: ISN = M + F(local, remote, secret), M a timer of 4 µs; and RFC 7323 section 5.4: a per-flow offset of the
    /// timestamp clock, so that it tells nothing about the machine. Two halves of one hash.
    pub(crate) fn initial_numbers(&self, key: &impl KeyedHash, now: Time) -> (u32, u32) {
        let mut hasher = SipHasher24::new_with_keys(self.sequence.0, self.sequence.1);
        key.hash_into(&mut hasher);
        let hash = hasher.finish();
        ((hash as u32).wrapping_add((now.as_nanos() / 4_000) as u32), (hash >> 32) as u32)
    }

    /// The destination that an order of ephemeral ports belongs to (RFC 6056). `key` has no local port yet.
    pub(crate) fn destination_hash(&self, key: &impl KeyedHash) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.table.1, self.sequence.0);
        key.hash_into(&mut hasher);
        hasher.finish()
    }

    /// A key for one purpose. What comes of one tells nothing about the others.
    fn derive(&self, purpose: u64) -> (u64, u64) {
        let half = |half: u64| {
            let mut hasher = SipHasher24::new_with_keys(self.sequence.0 ^ self.table.0, self.sequence.1 ^ self.table.1);
            hasher.write_u64(purpose << 1 | half);
            hasher.finish()
        };
        (half(0), half(1))
    }

    /// The key of the order of ephemeral ports.
    pub(crate) fn port_key(&self) -> (u64, u64) {
        self.derive(1)
    }

    /// The key of the count of half-open connections.
    pub(crate) fn half_open_key(&self) -> (u64, u64) {
        self.derive(2)
    }

    /// A number that nobody can foresee, each time another.
    pub(crate) fn draw(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(1);
        let mut hasher = SipHasher24::new_with_keys(self.sequence.1 ^ self.table.0, self.sequence.0 ^ !self.table.1);
        hasher.write_u64(self.draws);
        hasher.finish()
    }

    /// The key of a limit on answers.
    pub(crate) fn answer_key(&self, limit: u64) -> (u64, u64) {
        self.derive(16 + limit)
    }

    /// The hash in SYN cookies (RFC 4987 section 3.6).
    pub(crate) fn cookie_hash(&self, key: &impl KeyedHash, initial: u32, count: u32) -> u32 {
        let mut hasher = SipHasher24::new_with_keys(self.sequence.0 ^ self.table.1, self.sequence.1 ^ self.table.0);
        key.hash_into(&mut hasher);
        hasher.write_u32(initial);
        hasher.write_u32(count);
        hasher.finish() as u32
    }

    /// The key of Fast Open cookies (RFC 7413 section 4.1.2).
    pub(crate) fn fast_open_key(&self) -> [u8; 16] {
        let (first, second) = self.derive(0);
        let mut key = [0; 16];
        for (half, bytes) in [first, second].into_iter().zip(key.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&half.to_le_bytes());
        }
        key
    }

    /// The key of the neighbour table.
    pub(crate) fn neighbour_key(&self) -> (u64, u64) {
        (self.table.1, self.table.0)
    }
}
