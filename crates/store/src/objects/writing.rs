//! An object that is being written.

use crate::objects::table::Extent;
use crate::position::Position;

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Pieces come.
    Pieces,
    /// This unit of checksums is to be written next.
    Sums(u64),
    /// All is written: a flush is to follow.
    Written,
    Flushing,
    /// Its record is to be appended.
    Flushed,
    /// The record is in the log.
    Recorded(Position),
    /// It is given up, once nothing of it is under way.
    GivenUp,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) name: Vec<u8>,
    pub(crate) extent: Extent,
    pub(crate) stage: Stage,
    /// Checksums of the pieces given so far.
    pub(crate) sums: Vec<u32>,
    /// Requests under way.
    pub(crate) under_way: u32,
}

impl Writing {
    /// After a request has ended: goes on to the checksums, or to the flush, if all before that is written.
    pub(crate) fn go_on(&mut self) {
        if self.under_way > 0 {
            return;
        }
        match self.stage {
            Stage::Pieces if self.sums.len() as u64 == self.extent.pieces() => self.stage = Stage::Sums(0),
            Stage::Sums(unit) if unit == self.extent.sums_units() => self.stage = Stage::Written,
            _ => {}
        }
        // An object without bytes has no checksums either.
        if self.stage == Stage::Sums(0) && self.extent.sums_units() == 0 {
            self.stage = Stage::Written;
        }
    }
}
