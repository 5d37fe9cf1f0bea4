//! The checksums of an object's pieces. They are behind its bytes, in units.
//!
//! ```text
//!  0 CRC-32C 4   4 number of the unit within the object 4   8 generation 8   16 CRC-32C of each piece, 4 each   zeroes
//! ```
//! A piece's checksum is over the store's identity, the place, the generation, and the bytes with the zeroes that fill its last unit.

use crate::codec::{put, sum, u32_at, u64_at};
use crate::layout::UNIT_BYTES;

/// An object is read and checked in pieces of so many bytes; the last one may be shorter.
pub const PIECE_BYTES: u64 = 16 << 10;
/// Of a unit's header.
const HEADER_BYTES: usize = 16;
/// Checksums of one unit.
pub(crate) const SUMS_A_UNIT: u64 = (UNIT_BYTES - HEADER_BYTES as u64) / 4;

/// The checksum of a piece.
pub(crate) fn piece(identity: &[u8; 16], place: u64, generation: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(sum(identity, place, &generation.to_le_bytes()), bytes)
}

/// Writes a unit of checksums for `place`.
pub(crate) fn write(identity: &[u8; 16], place: u64, (generation, number): (u64, u32), sums: &[u32], unit: &mut [u8]) {
    unit.fill(0);
    put(unit, 4, &number.to_le_bytes());
    put(unit, 8, &generation.to_le_bytes());
    for (index, piece) in sums.iter().take(SUMS_A_UNIT as usize).enumerate() {
        put(unit, HEADER_BYTES + 4 * index, &piece.to_le_bytes());
    }
    let seal = unit.get(4..).map_or(0, |body| sum(identity, place, body));
    put(unit, 0, &seal.to_le_bytes());
}

/// The first `count` checksums of a unit at `place`; `None` if it is not as it was written.
pub(crate) fn read(
    identity: &[u8; 16],
    place: u64,
    (generation, number): (u64, u32),
    (unit, count): (&[u8], usize),
) -> Option<Vec<u32>> {
    let sealed = u32_at(unit, 0)? == sum(identity, place, unit.get(4..UNIT_BYTES as usize)?);
    let is_it = u32_at(unit, 4)? == number && u64_at(unit, 8)? == generation;
    let sums = unit.get(HEADER_BYTES..UNIT_BYTES as usize)?;
    let sums = sums.chunks_exact(4).take(count).filter_map(|sum| sum.first_chunk().copied().map(u32::from_le_bytes));
    (sealed && is_it).then(|| sums.collect())
}
