//! Identifiers of our requests.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Identifiers nobody can guess, whichever others they have seen: a keyed hash of a count.
pub(super) struct Random {
    key: [u8; 16],
    count: u64,
}

impl Random {
    pub(super) fn new(key: [u8; 16]) -> Random {
        Random { key, count: 0 }
    }

    pub(super) fn identifier(&mut self) -> u16 {
        self.count = self.count.wrapping_add(1);
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(self.count);
        hasher.finish() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Attack: identity and names: the next identifier of a name server's requests, from those seen before
    #[test]
    fn identifiers_do_not_tell_the_next() {
        // A linear generator's identifiers, of seeds that differ in one bit, differ by as much whatever the seed.
        let of = |seed: u8, number: usize| {
            let mut key = [7; 16];
            key[0] = seed;
            let mut random = Random::new(key);
            (0..=number).map(|_| random.identifier()).last().unwrap_or_default()
        };
        for number in 0..4 {
            let differences: std::collections::BTreeSet<u16> =
                (0..64).map(|seed| of(2 * seed + 1, number).wrapping_sub(of(2 * seed, number))).collect();
            assert!(differences.len() > 60, "{differences:?}");
        }
    }
}
