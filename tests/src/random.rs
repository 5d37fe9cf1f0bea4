//! Numbers that a seed decides. Failing scenarios are named by their seeds, so these numbers never change.

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.draw().is_multiple_of(count)
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Puts a list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// 32 bytes to seed a stack with.
    pub fn entropy(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.draw().to_le_bytes());
        }
        bytes
    }
}

/// splitmix64's finaliser.
pub fn mix(value: u64) -> u64 {
    let mut mixed = value;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        // Reference implementation with seed 1234567.
        let mut random = Random::new(1_234_567);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn bounds_are_kept() {
        let mut random = Random::new(1);
        assert!((0..1_000).all(|_| random.below(3) < 3 && (5..=7).contains(&random.between(5, 7))));
        assert_eq!((random.below(0), random.pick(&["one"])), (0, "one"));
        let mut list: Vec<u32> = (0..100).collect();
        random.shuffle(&mut list);
        assert!(!list.is_sorted());
        list.sort_unstable();
        assert!(list.into_iter().eq(0..100));
    }
}
