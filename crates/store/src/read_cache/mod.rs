//! [`ReadCache`]: pieces of files and objects that were read, in memory that the application chose, kept for who asks next.
//!
//! ```text
//!  ask ──► get ── there ──► a clone: the same memory, lent once more
//!           └── not there ──► (the application reads it) ──► insert ──► the policy's victim leaves, if all places are taken
//! ```
//! This is the cache of an application that has its own policy ("The Case Against User-Level Networking", sections 3 and 4): the kernel's
//! page cache knows neither what a piece is nor who asks for it. It does no I/O, and it has no clock.

mod figures;
mod kind;
mod lru;
mod policy;
mod s3_fifo;

pub use figures::ReadCacheFigures;
pub use kind::PolicyKind;
pub use lru::Lru;
pub use policy::Policy;
pub use s3_fifo::S3Fifo;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

/// A bounded number of pieces.
///
/// A value is what lends a piece's memory, and its clones are the same memory (`Bytes`, `FilledBlock`). A piece that has left is in
/// memory as long as somebody has a clone. So the most that there is, is this cache's pieces and those that are lent.
///
/// ```
/// use qanat_store::{Lru, ReadCache};
///
/// let mut cache: ReadCache<(u32, u64), std::rc::Rc<[u8]>> = ReadCache::new(2, Box::new(Lru::default()));
/// assert!(cache.get(&(1, 0)).is_none());
/// cache.insert((1, 0), [1; 4].into());
/// cache.insert((1, 1), [2; 4].into());
/// assert_eq!(cache.get(&(1, 0)).map(|piece| piece[0]), Some(1));
/// // There are two places: what was not used for longest leaves.
/// cache.insert((1, 2), [3; 4].into());
/// assert!(cache.get(&(1, 1)).is_none() && cache.get(&(1, 0)).is_some());
/// assert_eq!((cache.figures().hits, cache.figures().misses, cache.figures().evicted), (2, 2, 1));
/// ```
#[derive(Debug)]
pub struct ReadCache<K, V> {
    /// Where each piece is. The keys may be a peer's choice, so their hashes can't be foreseen.
    slots: HashMap<K, usize, RandomState>,
    pieces: Vec<(K, V)>,
    pieces_max: usize,
    policy: Box<dyn Policy>,
    figures: ReadCacheFigures,
}

impl<K: Copy + Eq + Hash, V> ReadCache<K, V> {
    /// Of so many pieces at most; `policy` says which of them leave. If `pieces_max` is 0, nothing is kept.
    pub fn new(pieces_max: usize, policy: Box<dyn Policy>) -> ReadCache<K, V> {
        let figures = ReadCacheFigures { pieces_max: pieces_max as u64, ..ReadCacheFigures::default() };
        ReadCache { slots: HashMap::default(), pieces: Vec::new(), pieces_max, policy, figures }
    }

    /// A piece, if it is there. Each call counts as a hit or a miss.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let Some(slot) = self.slots.get(key).copied() else {
            self.figures.misses += 1;
            return None;
        };
        self.figures.hits += 1;
        self.policy.used(slot);
        self.pieces.get(slot).map(|(_, value)| value)
    }

    /// Keeps a piece that was read. One that is there by this key is replaced.
    pub fn insert(&mut self, key: K, value: V) {
        if let Some((_, kept)) = self.slots.get(&key).and_then(|slot| self.pieces.get_mut(*slot)) {
            *kept = value;
            return;
        }
        let fingerprint = self.slots.hasher().hash_one(key);
        let slot = if self.pieces.len() < self.pieces_max {
            self.pieces.push((key, value));
            self.pieces.len() - 1
        } else {
            let Some(slot) = self.policy.victim() else { return };
            let Some(piece) = self.pieces.get_mut(slot) else { return };
            let (left, _) = std::mem::replace(piece, (key, value));
            self.slots.remove(&left);
            self.figures.evicted += 1;
            slot
        };
        self.figures.inserted += 1;
        self.slots.insert(key, slot);
        self.policy.inserted(slot, fingerprint);
    }

    /// Forgets all pieces. The figures go on.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.pieces.clear();
        self.policy.clear();
    }

    /// What happened so far, and what is there now.
    pub fn figures(&self) -> ReadCacheFigures {
        ReadCacheFigures { pieces: self.pieces.len() as u64, ..self.figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in an order that a seed determines.
    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    fn caches(pieces_max: usize) -> Vec<ReadCache<u64, u64>> {
        PolicyKind::ALL.iter().map(|kind| ReadCache::new(pieces_max, kind.policy(pieces_max))).collect()
    }

    #[test]
    fn what_is_there_is_what_was_put_there_and_never_more_than_the_bound() {
        for pieces_max in [0, 1, 2, 3, 10, 100] {
            for mut cache in caches(pieces_max) {
                let (mut seed, mut lookups) = (pieces_max as u64, 0);
                for step in 0..20_000 {
                    let key = random(&mut seed) % 300;
                    match random(&mut seed) % 1_000 {
                        0 => cache.clear(),
                        1..500 => cache.insert(key, key + 1_000 * step),
                        _ => {
                            lookups += 1;
                            let found = cache.get(&key).copied();
                            assert!(found.is_none_or(|value| value % 1_000 == key), "{cache:?}");
                        }
                    }
                    assert!(cache.pieces.len() <= pieces_max && cache.slots.len() == cache.pieces.len());
                }
                let ReadCacheFigures { hits, misses, inserted, evicted, .. } = cache.figures();
                assert_eq!(hits + misses, lookups);
                assert!(inserted >= evicted && (hits > 0) == (pieces_max > 0), "{:?}", cache.figures());
            }
        }
    }

    #[test]
    fn a_piece_that_is_replaced_has_the_new_value() {
        for mut cache in caches(4) {
            cache.insert(1, 10);
            cache.insert(1, 11);
            assert_eq!(cache.get(&1), Some(&11));
            assert_eq!(cache.figures().pieces, 1);
        }
    }

    /// What a reader of everything does to pieces that are asked for again and again: the reason for a policy of one's own.
    #[test]
    fn a_walk_over_everything_does_not_put_out_what_is_popular_unless_the_policy_is_lru() {
        let rates: Vec<f64> = caches(100)
            .into_iter()
            .map(|mut cache| {
                let (mut seed, mut popular, mut found) = (7, 0, 0);
                for step in 0..50_000_u64 {
                    // Two of three are one of 80 pieces; the third one comes never again.
                    let key = if step % 3 < 2 { random(&mut seed) % 80 } else { 1_000 + step };
                    let is_there = cache.get(&key).is_some();
                    (popular, found) = (popular + u64::from(key < 80), found + u64::from(key < 80 && is_there));
                    if !is_there {
                        cache.insert(key, 0);
                    }
                }
                found as f64 / popular as f64
            })
            .collect();
        let [s3_fifo, lru] = rates.as_slice() else { panic!("{rates:?}") };
        assert!(*s3_fifo > 0.98 && *lru < 0.9, "S3-FIFO {s3_fifo}, LRU {lru}");
    }
}
