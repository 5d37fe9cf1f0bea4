//! Where what is, in bytes from the beginning of the disk.

use std::ops::Range;

/// Areas are made of units of this size, aligned to it.
pub const UNIT_BYTES: u64 = 4_096;
/// Of one superblock: its head and the table.
pub(super) const SUPERBLOCK_BYTES: u64 = 512 << 10;
/// The two superblocks.
pub(super) const SUPERBLOCKS: [u64; 2] = [0, SUPERBLOCK_BYTES];
/// Of one journal.
const JOURNAL_BYTES: u64 = 512 << 10;
/// The two journals.
const JOURNALS: [u64; 2] = [1 << 20, (1 << 20) + JOURNAL_BYTES];
/// Of a record.
pub(super) const RECORD_BYTES: u64 = UNIT_BYTES;
/// Records in a journal.
pub(super) const RECORDS: u64 = JOURNAL_BYTES / RECORD_BYTES;
/// Where areas begin.
pub(super) const DATA: u64 = 2 << 20;
/// Smallest disk: one unit for areas.
pub(super) const DISK_BYTES_MIN: u64 = DATA + UNIT_BYTES;

/// A record's place in one of the journals.
pub(super) fn record(journal: usize, index: u64) -> u64 {
    JOURNALS[journal % 2] + index % RECORDS * RECORD_BYTES
}

/// The units that areas may be of, on a disk of `bytes`.
pub(super) fn data_units(bytes: u64) -> Range<u64> {
    DATA / UNIT_BYTES..(bytes / UNIT_BYTES).max(DATA / UNIT_BYTES)
}
