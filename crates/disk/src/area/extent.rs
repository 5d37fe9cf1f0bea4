//! Extents: runs of a disk that an area is made of, and where an area's blocks lie in them.

use super::layout::{UNIT_BYTES, data_units};

/// A run of units of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Extent {
    /// The first unit, from the disk's beginning.
    pub unit: u64,
    /// How many.
    pub units: u64,
}

impl Extent {
    /// The unit behind it; `None` if there can be none.
    pub fn end(&self) -> Option<u64> {
        self.unit.checked_add(self.units)
    }

    /// Whether all of it is for areas, on a disk of `bytes`: not where the superblocks and journals are, nor beyond the end.
    pub fn is_for_areas(&self, bytes: u64) -> bool {
        let all = data_units(bytes);
        self.units > 0 && self.unit >= all.start && self.end().is_some_and(|end| end <= all.end)
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.units.saturating_mul(UNIT_BYTES)
    }
}

/// A part of a request that lies in one extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where on the disk, bytes.
    pub place: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// Where `bytes` bytes of an area from `offset` on lie on the disk, in order. `None` if they reach beyond the area's end.
///
/// ```
/// use qanat_disk::area::{Extent, Piece, pieces};
/// let extents = [Extent { unit: 1000, units: 1 }, Extent { unit: 600, units: 2 }];
/// let found: Vec<Piece> = pieces(&extents, 4000, 200).unwrap().collect();
/// assert_eq!(found, [Piece { place: 4_100_000, bytes: 96 }, Piece { place: 2_457_600, bytes: 104 }]);
/// assert!(pieces(&extents, 12_000, 289).is_none());
/// ```
pub fn pieces(extents: &[Extent], offset: u64, bytes: u64) -> Option<impl Iterator<Item = Piece> + '_> {
    let total: u64 = extents.iter().map(Extent::bytes).fold(0, u64::saturating_add);
    offset.checked_add(bytes).filter(|end| *end <= total)?;
    let (mut skip, mut left) = (offset, bytes);
    Some(extents.iter().filter_map(move |extent| {
        let here = extent.bytes();
        if skip >= here {
            skip -= here;
            return None;
        }
        let count = left.min(here - skip);
        let piece = Piece { place: extent.unit * UNIT_BYTES + skip, bytes: count };
        (skip, left) = (0, left - count);
        (count > 0).then_some(piece)
    }))
}
