//! The chain of hashed names (RFC 5155).

use super::node::NodeReference;
use sha1::{Digest, Sha1};

/// Length of a hash, bytes.
pub const HASH_LENGTH: usize = 20;
/// Rounds a zone may ask for. RFC 9276 section 3.2: resolvers take answers with more as unsigned from 100 or 150 on.
pub const ITERATIONS_MAX: u16 = 150;

/// The hash of a name in wire format, small letters (RFC 5155 section 5).
pub fn nsec3_hash(name: &[u8], salt: &[u8], iterations: u16) -> [u8; HASH_LENGTH] {
    let mut hash: [u8; HASH_LENGTH] = Sha1::new_with_prefix(name).chain_update(salt).finalize().into();
    for _ in 0..iterations {
        hash = Sha1::new_with_prefix(hash).chain_update(salt).finalize().into();
    }
    hash
}

/// The NSEC3 records of a zone in order of their hashes.
#[derive(Debug)]
pub struct Nsec3Chain {
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u16,
    pub(super) entries: Vec<([u8; HASH_LENGTH], NodeReference)>,
}

impl Nsec3Chain {
    /// The hash of a name in wire format, small letters.
    pub fn hash(&self, name: &[u8]) -> [u8; HASH_LENGTH] {
        nsec3_hash(name, &self.salt, self.iterations)
    }

    /// The record of exactly this hash.
    pub fn matching(&self, hash: &[u8; HASH_LENGTH]) -> Option<NodeReference> {
        let index = self.entries.binary_search_by(|(own, _)| own.cmp(hash)).ok()?;
        self.entries.get(index).map(|(_, reference)| *reference)
    }

    /// The record whose range the hash is in: the last before it, or the last of all.
    pub fn covering(&self, hash: &[u8; HASH_LENGTH]) -> Option<NodeReference> {
        let after = self.entries.partition_point(|(own, _)| own <= hash);
        let index = after.checked_sub(1).unwrap_or(self.entries.len().checked_sub(1)?);
        self.entries.get(index).map(|(_, reference)| *reference)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<([u8; HASH_LENGTH], NodeReference)>()
    }
}

/// The hash in a label (RFC 4648 section 7, base 32 with the extended hex alphabet).
pub(super) fn hash_of_label(label: &[u8]) -> Option<[u8; HASH_LENGTH]> {
    if label.len() != 32 {
        return None;
    }
    let mut hash = [0; HASH_LENGTH];
    for (eight, five) in label.chunks_exact(8).zip(hash.chunks_exact_mut(5)) {
        let mut value = 0u64;
        for digit in eight {
            let digit = char::from(*digit).to_digit(32)?;
            value = value << 5 | u64::from(digit);
        }
        five.copy_from_slice(value.to_be_bytes().get(3..)?);
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5155 appendix A: H(example) and H(ns1.example), salt aabbccdd, 12 iterations.
    #[test]
    fn the_hashes_of_the_rfc() {
        let salt = [0xaa, 0xbb, 0xcc, 0xdd];
        let expected = |text: &[u8]| hash_of_label(text).unwrap();
        assert_eq!(nsec3_hash(b"\x07example\0", &salt, 12), expected(b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"));
        assert_eq!(nsec3_hash(b"\x03ns1\x07example\0", &salt, 12), expected(b"2t7b4g4vsa5smi47k61mv5bv1a22bojr"));
        assert_eq!(hash_of_label(b"short"), None);
        assert_eq!(hash_of_label(&[b'z'; 32]), None);
    }
}
