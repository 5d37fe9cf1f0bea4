//! Numbers that must not come again soon and must not tell how many were used: ephemeral ports (RFC 6056) and identifications
//! of fragments (RFC 7739).
//!
//! A counter gives no number twice, but whoever sees two of its numbers knows how many came between them, for whomever. So what
//! leaves is not the counter but its image under a permutation that only we know. Each purpose (a destination, a pair of hosts)
//! has a permutation of its own, and a new one each time all numbers have been used. Purposes share counters, and nothing shows
//! of it.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Counters, each shared by all purposes with the same hash.
const COUNTERS: usize = 64;
/// Rounds of the Feistel network: four make a strong pseudo-random permutation (Luby and Rackoff 1988).
const ROUNDS: u64 = 4;

/// Numbers in an order that nobody can foresee.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Numbers {
    key: (u64, u64),
    counters: Vec<u64>,
}

impl Numbers {
    pub(crate) fn new(key: (u64, u64)) -> Numbers {
        Numbers { key, counters: vec![0; COUNTERS] }
    }

    /// The next of the numbers below `range` for a purpose, given as its keyed hash.
    pub(crate) fn next(&mut self, purpose: u64, range: u64) -> u64 {
        let range = range.max(1);
        let Some(counter) = self.counters.get_mut(purpose as usize % COUNTERS) else { return 0 };
        let (turn, mut number) = (*counter / range, *counter % range);
        *counter = counter.wrapping_add(1);
        let bits = u64::BITS - (range - 1).leading_zeros();
        // The smallest network with a place for all numbers has at most four times as many; from a number out of range it is
        // walked on, which ends within the range because it began there.
        loop {
            number = self.permute(purpose, turn, bits.div_ceil(2).max(1), number);
            if number < range {
                return number;
            }
        }
    }

    /// A permutation of the numbers of twice `half` bits.
    fn permute(&self, purpose: u64, turn: u64, half: u32, number: u64) -> u64 {
        let mask = (1 << half) - 1;
        let (mut left, mut right) = (number >> half & mask, number & mask);
        for round in 0..ROUNDS {
            let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
            hasher.write_u64(purpose);
            hasher.write_u64(turn);
            hasher.write_u64(round << 32 | right);
            (left, right) = (right, left ^ (hasher.finish() & mask));
        }
        left << half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn none_comes_again_before_all_others() {
        for range in [1, 2, 3, 5, 100, 4_096, 55_296, 65_536] {
            let mut numbers = Numbers::new((1, 2));
            for _ in 0..2 {
                let turn: HashSet<u64> = (0..range).map(|_| numbers.next(7, range)).collect();
                assert_eq!(turn.len() as u64, range);
                assert!(turn.iter().all(|number| *number < range));
            }
        }
        let mut numbers = Numbers::new((1, 2));
        assert!((0..100).map(|_| numbers.next(7, 1 << 32)).collect::<HashSet<u64>>().len() == 100);
    }

    #[test]
    fn steps_tell_nothing_of_those_who_share_the_counter() {
        // The same purpose, with and without another's numbers between its own: the steps are as likely.
        let small_steps = |between: u64| {
            let mut numbers = Numbers::new((between, 2));
            let mut last = 0;
            (0..10_000)
                .filter(|_| {
                    for _ in 0..between {
                        numbers.next(7 + COUNTERS as u64, 65_536);
                    }
                    let number = numbers.next(7, 65_536);
                    let step = number.abs_diff(std::mem::replace(&mut last, number));
                    step < 6_554
                })
                .count()
        };
        // A step of two random numbers is below a tenth of the range in 19 of 100 cases.
        for between in [0, 1, 5] {
            assert!((1_700..2_100).contains(&small_steps(between)), "{}", small_steps(between));
        }
    }
}
