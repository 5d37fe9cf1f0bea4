//! What a log tells.

use crate::chain::frame::RecordKind;
use crate::error::StoreError;
use crate::position::Position;

/// What a log was found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Records given.
    pub records: u64,
    /// Bytes of the log in use.
    pub bytes: u64,
    /// Whether the end was torn by a crash and cut off: nothing of it was acknowledged.
    pub was_torn: bool,
    /// Whether one of the two superblocks was damaged. It is written anew, unless the log is read only.
    pub was_damaged: bool,
    /// Whether the store was made now.
    pub is_new: bool,
}

/// What a log tells.
#[derive(Debug)]
pub enum LogEvent<'a> {
    /// A record, while the log is recovered: all of them come, in order.
    Record {
        /// Which.
        position: Position,
        /// [`RecordKind::Data`] or [`RecordKind::Checkpoint`].
        kind: RecordKind,
        /// What was appended.
        bytes: &'a [u8],
    },
    /// The log is recovered: it takes records from now on.
    Recovered(Recovered),
    /// All records before this position are durable.
    Durable {
        /// The first one that is not.
        before: Position,
    },
    /// The checkpoint is complete: what was before it is given up, and the log begins with it.
    Checkpointed {
        /// Its beginning.
        start: Position,
    },
    /// The log begins where [`Log::truncate`](crate::Log::truncate) said, or later.
    Truncated {
        /// The first position that it has.
        start: Position,
    },
    /// A record that was asked for by [`Log::read`](crate::Log::read).
    Read {
        /// The token that was given.
        token: u64,
        /// What was appended.
        result: Result<&'a [u8], StoreError>,
    },
    /// The log can't go on. Nothing more is acknowledged; it is to be opened again. This comes once.
    Failed(StoreError),
}

/// What is to be told, without the bytes that it is about: the log has them.
#[derive(Debug)]
pub(crate) enum Told {
    Record(Position, RecordKind),
    /// All records were told of. Whoever finds that they can't all be so fails the log now: nothing was written yet.
    Whole,
    Recovered(Recovered),
    Durable,
    Checkpointed(u64),
    Truncated(u64),
    Fetched(u64, Result<(), StoreError>),
    Failed(StoreError),
}
