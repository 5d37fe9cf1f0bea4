//! Streams whose every byte is known from its place: a byte lost, repeated or moved is seen at once.

use qanat::{Fill, Source};

/// A number whose bits all depend on all of `value`'s (splitmix64's finaliser).
pub fn mix(value: u64) -> u64 {
    let mut mixed = value;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Writes the bytes from `offset` on of the stream called `salt`.
pub fn fill(salt: u64, offset: u64, target: &mut [u8]) {
    let mut at = offset;
    let mut rest = target;
    while !rest.is_empty() {
        let word = mix(salt ^ (at / 8)).to_le_bytes();
        let from = (at % 8) as usize;
        let count = (8 - from).min(rest.len());
        rest[..count].copy_from_slice(&word[from..from + count]);
        rest = &mut rest[count..];
        at += count as u64;
    }
}

/// Where `bytes` differ from the stream called `salt` from `offset` on, if anywhere.
pub fn first_difference(salt: u64, offset: u64, bytes: &[u8]) -> Option<usize> {
    let mut expected = [0u8; 512];
    for (index, piece) in bytes.chunks(expected.len()).enumerate() {
        let start = index * 512;
        let expected = &mut expected[..piece.len()];
        fill(salt, offset + start as u64, expected);
        if expected != piece {
            return piece.iter().zip(expected.iter()).position(|(a, b)| a != b).map(|at| start + at);
        }
    }
    None
}

/// The same bytes as a prepared object; the stamp is the salt.
#[derive(Debug)]
pub struct PatternSource {
    /// Segments should end at multiples of it.
    pub boundary_bytes: u64,
    /// Give sums with the bytes.
    pub with_sums: bool,
}

impl Source for PatternSource {
    fn fill(&self, stamp: u64, offset: u64, target: &mut [u8]) -> Fill {
        fill(stamp, offset, target);
        Fill { sum: self.with_sums.then(|| qanat_wire::checksum::sum(target)) }
    }

    fn boundary(&self, _stamp: u64, offset: u64) -> Option<usize> {
        Some((self.boundary_bytes - offset % self.boundary_bytes) as usize)
    }
}
