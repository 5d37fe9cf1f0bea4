//! The table of objects, and the records that it is made of.
//!
//! ```text
//!  1 an object:   generation 8   place 8   bytes 8   name
//!  2 removed:     generation 8   name
//!  3 generations: the next one 8
//! ```

use crate::codec::u64_at;
use crate::layout::UNIT_BYTES;
use crate::objects::sums::{PIECE_BYTES, SUMS_A_UNIT};
use std::collections::BTreeMap;

const OBJECT: u8 = 1;
const REMOVED: u8 = 2;
const GENERATIONS: u8 = 3;
/// A name has at most so many bytes, and at least one.
pub(crate) const NAME_BYTES_MAX: usize = 1_024;
/// An object has at most so many bytes: 256 TiB.
pub(crate) const OBJECT_BYTES_MAX: u64 = 1 << 48;

/// Where an object lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// No two objects of a store ever have the same.
    pub(crate) generation: u64,
    pub(crate) place: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    /// Pieces that it has.
    pub(crate) fn pieces(&self) -> u64 {
        self.bytes.div_ceil(PIECE_BYTES)
    }

    /// Where a piece lies, and its length there: whole units.
    pub(crate) fn piece(&self, index: u64) -> Option<(u64, u64)> {
        let from = index.checked_mul(PIECE_BYTES).filter(|from| *from < self.bytes)?;
        Some((self.place + from, (self.bytes - from).min(PIECE_BYTES).next_multiple_of(UNIT_BYTES)))
    }

    /// Units of checksums.
    pub(crate) fn sums_units(&self) -> u64 {
        self.pieces().div_ceil(SUMS_A_UNIT)
    }

    /// Where a unit of checksums lies.
    pub(crate) fn sums_place(&self, unit: u64) -> u64 {
        self.place + self.bytes.next_multiple_of(UNIT_BYTES) + unit * UNIT_BYTES
    }

    /// Bytes that it takes, checksums included.
    pub(crate) fn taken(&self) -> u64 {
        self.bytes.next_multiple_of(UNIT_BYTES) + self.sums_units() * UNIT_BYTES
    }
}

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record<'a> {
    Object(Extent, &'a [u8]),
    Removed(u64, &'a [u8]),
    Generations(u64),
}

impl Record<'_> {
    /// Its bytes, without the name.
    pub(crate) fn head(&self) -> Vec<u8> {
        let (kind, numbers) = match self {
            Record::Object(extent, _) => (OBJECT, vec![extent.generation, extent.place, extent.bytes]),
            Record::Removed(generation, _) => (REMOVED, vec![*generation]),
            Record::Generations(next) => (GENERATIONS, vec![*next]),
        };
        [kind].into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    /// A record as it was read; `None`: it is none, or says what can't be.
    pub(crate) fn read(bytes: &[u8]) -> Option<Record<'_>> {
        let (kind, rest) = bytes.split_first()?;
        let first = u64_at(rest, 0)?;
        let name = |at: usize| rest.get(at..).filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()));
        Some(match *kind {
            OBJECT => {
                let extent = Extent { generation: first, place: u64_at(rest, 8)?, bytes: u64_at(rest, 16)? };
                if extent.bytes > OBJECT_BYTES_MAX || extent.generation > u64::MAX >> 8 {
                    return None;
                }
                Record::Object(extent, name(24)?)
            }
            REMOVED => Record::Removed(first, name(8)?),
            GENERATIONS if rest.len() == 8 && first <= u64::MAX >> 8 => Record::Generations(first),
            _ => return None,
        })
    }
}

/// All objects.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) objects: BTreeMap<Vec<u8>, Extent>,
    /// Of the next object.
    pub(crate) next_generation: u64,
}

impl Table {
    /// Does what a record says.
    pub(crate) fn apply(&mut self, record: Record<'_>) {
        match record {
            Record::Object(extent, name) => {
                self.next_generation = self.next_generation.max(extent.generation + 1);
                self.objects.insert(name.to_vec(), extent);
            }
            Record::Removed(generation, name) => {
                if self.objects.get(name).is_some_and(|extent| extent.generation == generation) {
                    self.objects.remove(name);
                }
            }
            Record::Generations(next) => self.next_generation = self.next_generation.max(next),
        }
    }
}
