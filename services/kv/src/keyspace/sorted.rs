//! [`Sorted`]: members with scores, and their order.

use crate::keyspace::ranked::Ranked;
use crate::keyspace::shapes::Small;
use indexmap::IndexMap;

/// What a member costs in a record besides its bytes.
const MEMBER_BYTES: usize = 14;

/// A sorted set. Members have places, by which it is scanned, besides their ranks.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    scores: IndexMap<Box<[u8]>, f64>,
    order: Ranked,
    bytes: usize,
    is_large: bool,
}

impl Sorted {
    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of its members alone.
    pub fn content_bytes(&self) -> usize {
        self.bytes - MEMBER_BYTES * self.scores.len()
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// The member at a place.
    pub fn at(&self, index: usize) -> Option<(&[u8], f64)> {
        self.scores.get_index(index).map(|(member, score)| (member.as_ref(), *score))
    }

    /// All, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.scores.iter().map(|(member, score)| (member.as_ref(), *score))
    }

    /// All, in their order.
    pub fn order(&self) -> &Ranked {
        &self.order
    }

    /// How many are before a member.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.score(member).map(|score| self.order.rank(score, member))
    }

    /// Gives a member a score. A sorted set that is no longer `small` is large from then on.
    pub fn set(&mut self, member: &[u8], score: f64, small: Small) {
        match self.scores.get_mut(member) {
            Some(old) => self.order.remove(std::mem::replace(old, score), member),
            None => {
                self.scores.insert(member.into(), score);
                self.bytes += MEMBER_BYTES + member.len();
            }
        }
        self.order.insert(score, member);
        self.is_large |= self.scores.len() > small.entries || member.len() > small.bytes;
    }

    /// Removes a member. The last one takes its place.
    pub fn remove(&mut self, member: &[u8]) {
        if let Some(score) = self.scores.swap_remove(member) {
            self.order.remove(score, member);
            self.bytes -= MEMBER_BYTES + member.len();
        }
    }

    /// As `OBJECT ENCODING` names it.
    pub fn encoding(&self) -> &'static str {
        if self.is_large { "skiplist" } else { "listpack" }
    }
}
