//! [`Space`]: which runs of units are free.

use crate::layout::UNIT_BYTES;
use std::collections::BTreeMap;

/// Free runs of bytes, in whole units: where each begins, and its length. No two touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Space {
    free: BTreeMap<u64, u64>,
}

impl Space {
    /// All of a range is free.
    pub(crate) fn new(from: u64, to: u64) -> Space {
        let length = to.saturating_sub(from);
        Space { free: if length > 0 { BTreeMap::from([(from, length)]) } else { BTreeMap::new() } }
    }

    /// The first run that is long enough, of which so many bytes are taken.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&place, &length) = self.free.iter().find(|(_, length)| **length >= bytes)?;
        self.free.remove(&place);
        if length > bytes {
            self.free.insert(place + bytes, length - bytes);
        }
        Some(place)
    }

    /// Takes a given range; whether it was free.
    pub(crate) fn take_at(&mut self, place: u64, bytes: u64) -> bool {
        let Some(end) = place.checked_add(bytes).filter(|_| place.is_multiple_of(UNIT_BYTES)) else { return false };
        let Some((&from, &length)) = self.free.range(..=place).next_back() else { return false };
        if end > from + length {
            return false;
        }
        self.free.remove(&from);
        for (from, to) in [(from, place), (end, from + length)] {
            if to > from {
                self.free.insert(from, to - from);
            }
        }
        true
    }

    /// Gives a range back that was taken.
    pub(crate) fn give(&mut self, place: u64, bytes: u64) {
        let (mut from, mut length) = (place, bytes);
        if let Some((&before, &its)) = self.free.range(..place).next_back()
            && before + its == place
        {
            self.free.remove(&before);
            (from, length) = (before, its + length);
        }
        if let Some(behind) = self.free.remove(&(place + bytes)) {
            length += behind;
        }
        self.free.insert(from, length);
    }

    /// All that is free, and the longest run.
    pub(crate) fn free(&self) -> (u64, u64) {
        (self.free.values().sum(), self.free.values().copied().max().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_given_back_is_whole_again() {
        let whole = Space::new(8_192, 8_192 + 10 * UNIT_BYTES);
        let mut space = whole.clone();
        let first = space.take(3 * UNIT_BYTES).unwrap();
        let second = space.take(4 * UNIT_BYTES).unwrap();
        assert_eq!((first, second, space.take(4 * UNIT_BYTES)), (8_192, 8_192 + 3 * UNIT_BYTES, None));
        space.give(first, 3 * UNIT_BYTES);
        assert!(!space.take_at(first, 4 * UNIT_BYTES), "a part of it is taken");
        assert!(space.take_at(first + UNIT_BYTES, UNIT_BYTES));
        assert!(
            !space.take_at(first + 1, 1)
                && !space.take_at(u64::MAX - 4_095, UNIT_BYTES)
                && !space.take_at(0, UNIT_BYTES)
        );
        assert_eq!(space.free(), (5 * UNIT_BYTES, 3 * UNIT_BYTES));
        space.give(second, 4 * UNIT_BYTES);
        space.give(first + UNIT_BYTES, UNIT_BYTES);
        assert_eq!(space, whole);
    }
}
