//! The scenarios' dice.

/// splitmix64: small, seedable, the same everywhere.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low + 1)
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.draw().is_multiple_of(count)
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.draw() as usize % choices.len()]
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
