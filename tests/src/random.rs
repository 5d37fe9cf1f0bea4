//! Choices that a seed decides. A failing scenario is named by its seed, so a seed's choices never change.

/// Choices from the project's seeded generator ([`qanat_nic::Random`]).
#[derive(Clone, Debug)]
pub struct Random(qanat_nic::Random);

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(qanat_nic::Random::new(seed))
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
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

#[cfg(test)]
mod tests {
    use super::*;

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
