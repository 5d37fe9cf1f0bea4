//! [`Position`]: which record of a log.

use crate::layout::UNIT_BYTES;

/// Which record of a log. Later records have greater positions, and none is given twice to records that were durable.
// The position of the frame, which is of whole units, and in the bits below it the record's number within the frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position(u64);

/// Records that a frame has at most.
pub(crate) const RECORDS_MAX: u32 = UNIT_BYTES as u32 - 1;

impl Position {
    pub(crate) const fn new(frame: u64, index: u32) -> Position {
        Position(frame | index as u64 & (UNIT_BYTES - 1))
    }

    /// The position as a number, to be kept in a record.
    pub const fn to_number(self) -> u64 {
        self.0
    }

    /// The position that [`to_number`](Self::to_number) made a number of.
    pub const fn from_number(number: u64) -> Position {
        Position(number)
    }

    /// The position of the frame that it is in.
    pub(crate) const fn frame(self) -> u64 {
        self.0 - self.0 % UNIT_BYTES
    }

    /// Which record of its frame it is.
    pub(crate) const fn index(self) -> u32 {
        (self.0 % UNIT_BYTES) as u32
    }
}
