//! [`Ranked`]: members in the order of their scores, and of their bytes if scores are equal. It knows which comes how manieth.
//!
//! Chunks of a few hundred: one is found by their first elements, a rank by their lengths. A million members are four thousand chunks.

use std::cmp::Ordering;

/// A chunk that has so many is divided.
const CHUNK_MAX: usize = 512;

/// A score with its member.
pub type Ranking = (f64, Box<[u8]>);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ranked {
    /// None of them is empty.
    chunks: Vec<Vec<Ranking>>,
    length: usize,
}

/// The order of a sorted set. Scores are never NaN.
pub fn compare(one: (f64, &[u8]), other: (f64, &[u8])) -> Ordering {
    one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal).then_with(|| one.1.cmp(other.1))
}

impl Ranked {
    /// How many.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunk in which the first element lies that is not before a bound, and its place there. `is_before` is true up to the bound.
    fn place(&self, is_before: impl Fn(f64, &[u8]) -> bool) -> (usize, usize) {
        let after =
            self.chunks.partition_point(|chunk| chunk.first().is_some_and(|(score, member)| is_before(*score, member)));
        let Some(chunk) = after.checked_sub(1) else { return (0, 0) };
        let place = self
            .chunks
            .get(chunk)
            .map_or(0, |chunk| chunk.partition_point(|(score, member)| is_before(*score, member)));
        (chunk, place)
    }

    /// How many come before a bound. `is_before` is true for those, and for no other.
    pub fn count_before(&self, is_before: impl Fn(f64, &[u8]) -> bool) -> usize {
        let (chunk, place) = self.place(is_before);
        self.chunks.iter().take(chunk).map(Vec::len).sum::<usize>() + place
    }

    /// How many come before this one.
    pub fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.count_before(|other, of| compare((other, of), (score, member)).is_lt())
    }

    /// Puts in one that is not there.
    pub fn insert(&mut self, score: f64, member: &[u8]) {
        let (index, place) = self.place(|other, of| compare((other, of), (score, member)).is_lt());
        self.length += 1;
        let Some(chunk) = self.chunks.get_mut(index) else {
            self.chunks.push(vec![(score, member.into())]);
            return;
        };
        chunk.insert(place, (score, member.into()));
        if chunk.len() > CHUNK_MAX {
            let back = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(index + 1, back);
        }
    }

    /// Removes one, if it is there with this score.
    pub fn remove(&mut self, score: f64, member: &[u8]) {
        let (index, place) = self.place(|other, of| compare((other, of), (score, member)).is_lt());
        // The first one of a chunk is found at the end of the one before it.
        let (index, place) = match self.chunks.get(index) {
            Some(chunk) if place == chunk.len() => (index + 1, 0),
            _ => (index, place),
        };
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        if chunk.get(place).is_some_and(|(of, found)| compare((*of, found), (score, member)).is_eq()) {
            chunk.remove(place);
            self.length -= 1;
            if chunk.is_empty() {
                self.chunks.remove(index);
            }
        }
    }

    /// All from rank `start` on.
    pub fn from(&self, start: usize) -> impl Iterator<Item = (f64, &[u8])> {
        let (mut index, mut place) = (0, start);
        while let Some(chunk) = self.chunks.get(index)
            && place >= chunk.len()
        {
            (index, place) = (index + 1, place - chunk.len());
        }
        let chunks = self.chunks.get(index..).unwrap_or_default();
        chunks.iter().flatten().skip(place).map(|(score, member)| (*score, member.as_ref()))
    }

    /// All from rank `start` down to the first.
    pub fn down_from(&self, start: usize) -> impl Iterator<Item = (f64, &[u8])> {
        let skip = self.length.saturating_sub(start + 1);
        // It skips whole chunks first.
        let (mut count, mut place) = (self.chunks.len(), skip);
        while let Some(chunk) = count.checked_sub(1).and_then(|last| self.chunks.get(last))
            && place >= chunk.len()
        {
            (count, place) = (count - 1, place - chunk.len());
        }
        let chunks = self.chunks.get(..count).unwrap_or_default();
        chunks
            .iter()
            .rev()
            .flat_map(|chunk| chunk.iter().rev())
            .skip(place)
            .map(|(score, member)| (*score, member.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_sorted_list(steps in prop::collection::vec((any::<bool>(), 0_u32..40, 0_u32..60), 0..2_500)) {
            let mut ranked = Ranked::default();
            let mut model = BTreeSet::new();
            for (removes, score, member) in steps {
                let name = member.to_be_bytes();
                // Most are put in, so that there are several chunks.
                if removes && member % 3 == 0 {
                    ranked.remove(f64::from(score), &name);
                    model.remove(&(score, name));
                } else if model.insert((score, name)) {
                    ranked.insert(f64::from(score), &name);
                }
            }
            let expected: Vec<_> = model.iter().map(|(score, name)| (f64::from(*score), name.as_slice())).collect();
            prop_assert_eq!(ranked.len(), expected.len());
            prop_assert_eq!(ranked.from(0).collect::<Vec<_>>(), expected.clone());
            for (rank, (score, name)) in expected.iter().enumerate() {
                prop_assert_eq!(ranked.rank(*score, name), rank);
                prop_assert_eq!(ranked.from(rank).next(), Some((*score, *name)));
                prop_assert_eq!(ranked.down_from(rank).next(), Some((*score, *name)));
            }
            prop_assert_eq!(ranked.down_from(usize::MAX - 1).count(), expected.len());
        }
    }
}
