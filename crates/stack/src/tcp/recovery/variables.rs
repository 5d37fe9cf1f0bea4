//! The variables of loss recovery.

use crate::tcp::recovery::prr::ProportionalRateReduction;
use crate::tcp::recovery::undo::Undo;
use crate::tcp::sequence::SequenceNumber;

/// Variables of loss recovery.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Recovery {
    /// RecoveryPoint: the episode ends when it is acknowledged.
    pub(in crate::tcp) point: SequenceNumber,
    pub(in crate::tcp) rate_reduction: ProportionalRateReduction,
    pub(in crate::tcp) undo: Undo,
    /// Duplicate ACKs in a row, for peers without SACK.
    pub(in crate::tcp) duplicates: u8,
}

impl Recovery {
    /// Nothing under way.
    pub fn new(start: SequenceNumber) -> Recovery {
        Recovery {
            point: start,
            rate_reduction: ProportionalRateReduction::default(),
            undo: Undo::default(),
            duplicates: 0,
        }
    }
}
