//! MurmurHash64A by Austin Appleby, with the seed that Redis takes.

use crate::commands::hyperloglog::{REGISTER_BITS, REGISTERS};

const SEED: u64 = 0xadc8_3b19;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

fn hash(bytes: &[u8]) -> u64 {
    let mut state = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed = (mixed ^ mixed >> SHIFT).wrapping_mul(MULTIPLIER);
        state = (state ^ mixed).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
        state = (state ^ last).wrapping_mul(MULTIPLIER);
    }
    state = (state ^ state >> SHIFT).wrapping_mul(MULTIPLIER);
    state ^ state >> SHIFT
}

/// An element's register, and what that has at least: the zeroes at the end of the hash's other bits, and one.
pub fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    // A one behind the last bit, so that a run of zeroes ends.
    let rest = hash >> REGISTER_BITS | 1 << (u64::BITS - REGISTER_BITS);
    (hash as usize & (REGISTERS - 1), rest.trailing_zeros() as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::place;

    /// What Redis 7.0.15 has in its registers after PFADD of these (`PFDEBUG DECODE`).
    #[test]
    fn places_are_those_of_redis() {
        let mut places = [&b"a"[..], b"b", b"c"].map(place);
        places.sort_unstable();
        assert_eq!(places, [(8_436, 1), (12_711, 2), (15_780, 1)]);
    }
}
