//! Where what lies in an area, in bytes from its beginning.

/// Everything is in units of this size, aligned to it: larger than any disk's physical sector, so that a write that is torn by a loss
/// of power harms nothing beside it.
pub const UNIT_BYTES: u64 = 4_096;
/// The two superblocks.
pub(crate) const SUPERBLOCKS: [u64; 2] = [0, 32 << 10];
/// Where the log begins. All before it that is no superblock is zero.
pub(crate) const DATA: u64 = 64 << 10;
/// A frame of the log has at most so many bytes, and no more than a transfer of the device that the store was made on.
pub(crate) const FRAME_BYTES_MAX: u32 = 64 << 10;
/// So many bytes of the log are under way to the disk at most.
pub(crate) const IN_FLIGHT_BYTES_MAX: u64 = 4 << 20;
/// So far behind the end of the log recovery looks for what should not be there: twice what can be under way.
pub(crate) const LOOK_AHEAD_BYTES: u64 = 2 * IN_FLIGHT_BYTES_MAX;
/// The smallest log.
pub(crate) const LOG_BYTES_MIN: u64 = 16 * UNIT_BYTES;
/// The smallest log of a store of objects: a half is for the table, and has units of its own.
pub(crate) const OBJECTS_LOG_BYTES_MIN: u64 = 48 * UNIT_BYTES;
/// What appends leave free, so that there is room to give up what is not needed any more.
pub(crate) const BASE_RESERVE_BYTES: u64 = 6 * UNIT_BYTES;

/// The log's part of the area, used round and round. A position counts the bytes ever written, a place where they lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ring {
    /// Its first byte's place.
    pub(crate) start: u64,
    /// Its length: whole units, not zero.
    pub(crate) bytes: u64,
}

impl Ring {
    pub(crate) fn place(self, position: u64) -> u64 {
        self.start + position % self.bytes.max(1)
    }

    /// Bytes from a position to the place where the ring begins again.
    pub(crate) fn until_wrap(self, position: u64) -> u64 {
        self.bytes - position % self.bytes.max(1)
    }
}

/// `bytes` without what is beyond its last whole unit.
pub(crate) fn whole_units(bytes: u64) -> u64 {
    bytes - bytes % UNIT_BYTES
}
