//! [`S3Fifo`]: three queues, first in, first out (Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023).
//!
//! ```text
//!  new ──► small (a tenth) ── used twice ──► main ── used ──┐
//!            │                                 │ ▲          │
//!            └──► ghosts: fingerprints         │ └──────────┘
//!                   └── asked for again ──► main            └──► leaves
//! ```

use super::policy::Policy;
use std::collections::{HashMap, VecDeque};

/// The small queue's share of all pieces is one of so many.
const SMALL_SHARE: usize = 10;
/// Uses that are counted at most.
const USES_MAX: u8 = 3;
/// A new piece that was used less often than this leaves at the end of the small queue.
const USES_TO_STAY: u8 = 2;
/// Pieces that are looked at for one that leaves: each has its uses counted down, so a longer walk is put off to the next ones.
const LOOKS_MAX: usize = 64;

/// Fingerprints of pieces that left lately without having been used: those that come again were not there long enough.
#[derive(Debug, Default)]
struct Ghosts {
    /// In the order in which they left, each with its number.
    order: VecDeque<(u64, u64)>,
    /// The number by which each left last.
    numbers: HashMap<u64, u64>,
    count: u64,
}

impl Ghosts {
    fn push(&mut self, fingerprint: u64, most: usize) {
        self.count += 1;
        self.order.push_back((fingerprint, self.count));
        self.numbers.insert(fingerprint, self.count);
        while self.order.len() > most
            && let Some((oldest, number)) = self.order.pop_front()
        {
            if self.numbers.get(&oldest) == Some(&number) {
                self.numbers.remove(&oldest);
            }
        }
    }

    /// Whether it is one. It is none any more.
    fn take(&mut self, fingerprint: u64) -> bool {
        self.numbers.remove(&fingerprint).is_some()
    }
}

/// A piece.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    fingerprint: u64,
    uses: u8,
}

/// Most pieces that come are never asked for again: they leave early, and what is popular stays, whoever walks over everything.
#[derive(Debug)]
pub struct S3Fifo {
    pieces_max: usize,
    pieces: Vec<Piece>,
    small: VecDeque<usize>,
    main: VecDeque<usize>,
    ghosts: Ghosts,
}

impl S3Fifo {
    /// For a cache of so many pieces.
    pub fn new(pieces_max: usize) -> S3Fifo {
        S3Fifo {
            pieces_max,
            pieces: Vec::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: Ghosts::default(),
        }
    }

    /// What is at the end of a queue leaves: the small one, if it has more than its share.
    fn leaves(&mut self, slot: usize, is_new: bool) -> usize {
        if is_new && let Some(piece) = self.pieces.get(slot) {
            self.ghosts.push(piece.fingerprint, self.pieces_max);
        }
        slot
    }
}

impl Policy for S3Fifo {
    fn inserted(&mut self, slot: usize, fingerprint: u64) {
        if slot >= self.pieces.len() {
            self.pieces.resize(slot + 1, Piece::default());
        }
        if let Some(piece) = self.pieces.get_mut(slot) {
            *piece = Piece { fingerprint, uses: 0 };
        }
        if self.ghosts.take(fingerprint) {
            self.main.push_back(slot);
        } else {
            self.small.push_back(slot);
        }
    }

    fn used(&mut self, slot: usize) {
        if let Some(piece) = self.pieces.get_mut(slot) {
            piece.uses = (piece.uses + 1).min(USES_MAX);
        }
    }

    fn victim(&mut self) -> Option<usize> {
        for _ in 0..LOOKS_MAX {
            let is_new = self.main.is_empty() || self.small.len() > self.pieces_max / SMALL_SHARE;
            let slot = if is_new { self.small.pop_front() } else { self.main.pop_front() }?;
            let Some(piece) = self.pieces.get_mut(slot) else { continue };
            if is_new && piece.uses >= USES_TO_STAY {
                piece.uses = 0;
            } else if !is_new && piece.uses > 0 {
                piece.uses -= 1;
            } else {
                return Some(self.leaves(slot, is_new));
            }
            self.main.push_back(slot);
        }
        let is_new = self.main.is_empty();
        let slot = if is_new { self.small.pop_front() } else { self.main.pop_front() }?;
        Some(self.leaves(slot, is_new))
    }

    fn clear(&mut self) {
        *self = S3Fifo::new(self.pieces_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_soon_after_it_left_stays_longer() {
        let mut policy = S3Fifo::new(10);
        (0..10).for_each(|slot| policy.inserted(slot, slot as u64));
        // The first one leaves the small queue unused, and comes again.
        assert_eq!(policy.victim(), Some(0));
        policy.inserted(0, 0);
        let left: Vec<usize> = (0..8).map(|_| policy.victim().unwrap()).collect();
        assert_eq!(left, [1, 2, 3, 4, 5, 6, 7, 8], "the new ones leave first");
    }

    #[test]
    fn a_search_for_one_that_leaves_is_bounded() {
        let mut policy = S3Fifo::new(1_000);
        for slot in 0..1_000 {
            policy.inserted(slot, slot as u64);
            (0..3).for_each(|_| policy.used(slot));
        }
        assert!(policy.victim().is_some());
        assert_eq!(policy.small.len() + policy.main.len(), 999);
        assert!(policy.small.len() >= 1_000 - 1 - LOOKS_MAX);
    }

    #[test]
    fn ghosts_are_bounded_and_each_counts_by_its_last_leaving() {
        let mut ghosts = Ghosts::default();
        for round in 0..100_u64 {
            ghosts.push(round % 7, 5);
            assert!(ghosts.order.len() <= 5 && ghosts.numbers.len() <= 5);
        }
        assert!(ghosts.take(99 % 7) && !ghosts.take(99 % 7) && !ghosts.take(1_000));
    }
}
