//! [`Pool`]: keys that may be the next to go. Some are chosen by chance each time, and the best of them are kept for the next time. So few
//! samples come near to an order of all keys, as with Redis.

/// How many are kept.
const KEPT: usize = 16;
/// A key that is longer is not kept for the next time.
const KEY_BYTES_KEPT: usize = 1 << 10;

/// A key that may go: the higher the score, the sooner.
#[derive(Debug)]
struct Candidate {
    score: u64,
    database: u8,
    key: Box<[u8]>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pool {
    /// By their scores; the best is the last.
    candidates: Vec<Candidate>,
    /// Keys that have gone so far.
    pub evicted: u64,
    /// The database whose turn it is, if keys go by chance.
    pub turn: u8,
}

impl Pool {
    /// A key that may be kept.
    pub fn offer(&mut self, score: u64, database: u8, key: &[u8]) {
        let place = self.candidates.partition_point(|other| other.score < score);
        let is_there = |other: &Candidate| other.database == database && other.key.as_ref() == key;
        if place == 0 && self.candidates.len() >= KEPT || self.candidates.iter().any(is_there) {
            return;
        }
        self.candidates.insert(place, Candidate { score, database, key: key.into() });
        if self.candidates.len() > KEPT {
            self.candidates.remove(0);
        }
    }

    /// Takes the best.
    pub fn take(&mut self) -> Option<(u8, Box<[u8]>)> {
        self.candidates.pop().map(|best| (best.database, best.key))
    }

    /// Long keys are not kept.
    pub fn trim(&mut self) {
        self.candidates.retain(|candidate| candidate.key.len() <= KEY_BYTES_KEPT);
    }

    /// Scores mean something else from now on.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_and_taken_first() {
        let mut pool = Pool::default();
        for score in (0..40).rev().chain(0..40) {
            pool.offer(score, 0, &score.to_be_bytes());
        }
        let taken: Vec<u8> = std::iter::from_fn(|| pool.take()).filter_map(|(_, key)| key.last().copied()).collect();
        assert_eq!(taken, (24..40).rev().collect::<Vec<u8>>());
        pool.offer(1, 0, &[0; 2_000]);
        pool.trim();
        assert!(pool.take().is_none());
    }
}
