//! Random numbers: a small seeded generator for what does faults, and the kernel's for what nobody may guess.

use rustix::rand::GetRandomFlags;
use std::io;

/// Bytes that nobody can guess, from the kernel.
///
/// # Errors
/// What the system says.
pub(crate) fn unpredictable<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    // So few bytes come at once (getrandom(2)).
    match rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())? {
        count if count == N => Ok(bytes),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// A seeded generator: the same seed gives the same numbers on every machine and version.
///
/// It is xoshiro256** (Blackman, Vigna), seeded through splitmix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        let mut seed = seed;
        let mut next = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = seed;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        Random { state: [next(), next(), next(), next()] }
    }

    /// The next 64 random bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends, and an Option would be in the way")]
    pub fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True `parts_per_million` times in a million. Draws even for 0, so that changing one rate leaves the others' dice
    /// alone.
    pub fn chance(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        // Reference implementation with state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        assert_eq!([random.next(), random.next(), random.next()], [11520, 0, 1_509_978_240]);
    }

    #[test]
    fn chances_come_out() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(10_000)).count();
        assert!((800..1200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !random.chance(0) && random.chance(1_000_000) && random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
