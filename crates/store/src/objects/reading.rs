//! An object that is open, and what is read of it.

use crate::objects::sums::SUMS_A_UNIT;
use crate::objects::table::Extent;
use std::collections::BTreeMap;

/// Units of checksums that an open object keeps in memory: for 64 MiB of it. Those used last stay.
const UNITS_MAX: usize = 4;

/// An object that somebody has open. Its extent is not given up.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) extent: Extent,
    pub(crate) opens: u32,
    /// It was removed meanwhile: its extent is free when the last one closes it.
    pub(crate) is_removed: bool,
    /// Checksums that were read, by unit, and when each was used last.
    units: BTreeMap<u64, (u64, Vec<u32>)>,
    uses: u64,
}

impl Opened {
    pub(crate) fn new(extent: Extent) -> Opened {
        Opened { extent, opens: 0, is_removed: false, units: BTreeMap::new(), uses: 0 }
    }

    /// A piece's checksum, if it is in memory.
    pub(crate) fn sum(&mut self, piece: u64) -> Option<u32> {
        self.uses += 1;
        let (used, sums) = self.units.get_mut(&(piece / SUMS_A_UNIT))?;
        *used = self.uses;
        sums.get((piece % SUMS_A_UNIT) as usize).copied()
    }

    /// Keeps a unit of checksums.
    pub(crate) fn keep(&mut self, unit: u64, sums: Vec<u32>) {
        let oldest = self.units.iter().min_by_key(|(_, (used, _))| *used).map(|(unit, _)| *unit);
        if let Some(oldest) = oldest.filter(|_| self.units.len() >= UNITS_MAX) {
            self.units.remove(&oldest);
        }
        self.uses += 1;
        self.units.insert(unit, (self.uses, sums));
    }
}

/// A piece that was asked for.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) generation: u64,
    pub(crate) piece: u64,
    pub(crate) token: u64,
    /// The piece's checksum, once it is known: it is read before the piece.
    pub(crate) sum: Option<u32>,
    /// Something of it is being read.
    pub(crate) is_under_way: bool,
    /// What came was not right: it is read once more.
    pub(crate) is_doubted: bool,
}
