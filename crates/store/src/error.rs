//! [`StoreError`]: what can be wrong with an area, or with what is asked of a structure on it.

use crate::kind::Kind;
use qanat_api::{CommandError, StorageError};

/// Why a structure can't be opened, or a request can't be done. Places are in bytes from the area's beginning.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk said no.
    #[error("the disk, at byte {place} of the area: {error}")]
    Disk {
        /// Where the request began.
        place: u64,
        /// What it said.
        error: StorageError,
    },
    /// The area's owner refused a command that it had room for.
    #[error(
        "a command at byte {place} of the area was refused: {error}; an area in use by a store is to be used by nobody else"
    )]
    Refused {
        /// Where the request began.
        place: u64,
        /// Why.
        error: CommandError,
    },
    /// An earlier failure ended this structure.
    #[error("stopped by an earlier failure ({0}); what was acknowledged is on the disk: open the store again")]
    Stopped(Box<StoreError>),
    /// Nothing is there, and nothing was to be made.
    #[error("the area is empty: open it with options that make a store")]
    Empty,
    /// Something else is there.
    #[error(
        "the area holds something that is no store, first at byte {place}; nothing was written; overwrite it only if nobody needs that"
    )]
    Foreign {
        /// The first byte that is not zero.
        place: u64,
    },
    /// Both superblocks are damaged.
    #[error(
        "both superblocks of the store (at bytes 0 and 32768 of the area) are damaged; nothing was written; restore the area from a copy, or overwrite it"
    )]
    Superblocks,
    /// Made by another version.
    #[error("the store has format {found}, this program knows {known}; use the program that made it")]
    Version {
        /// The store's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// It is another structure.
    #[error("the area holds a store of kind {found:?}, and {wanted:?} was to be opened")]
    Kind {
        /// What it is.
        found: Kind,
        /// What was asked for.
        wanted: Kind,
    },
    /// The area is smaller than it was.
    #[error("the store was made on {recorded} bytes and the area has {bytes}; give it its whole area")]
    Shrunk {
        /// As recorded.
        recorded: u64,
        /// As it is.
        bytes: u64,
    },
    /// The area is too small.
    #[error("an area of {bytes} bytes is too small: at least {needed} are needed")]
    AreaTooSmall {
        /// What it has.
        bytes: u64,
        /// What is needed.
        needed: u64,
    },
    /// The device is not fit for it.
    #[error(
        "the device has blocks of {block_bytes} bytes and transfers of {transfer_bytes}; a store needs blocks of at most 4096 bytes, and transfers of at least {needed}"
    )]
    Geometry {
        /// Its blocks.
        block_bytes: u32,
        /// Its largest transfer, or the size of its buffers.
        transfer_bytes: u32,
        /// What a transfer must be able to have.
        needed: u32,
    },
    /// What was durable can't be read any more.
    #[error(
        "byte {place} of the area is not what was written there, and was acknowledged as durable; restore the area from a copy"
    )]
    Rotten {
        /// Where.
        place: u64,
    },
    /// A piece has a right checksum and contradicts others.
    #[error(
        "byte {place} of the area: {what}; the area was written by something else, or by a broken program: restore it from a copy"
    )]
    Contradiction {
        /// Where.
        place: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The log has no room.
    #[error(
        "the log is full: {wanted} bytes are wanted, {free} are free; make a checkpoint, or acknowledge what is queued"
    )]
    Full {
        /// What was wanted, with what belongs to it on the disk.
        wanted: u64,
        /// What there is.
        free: u64,
    },
    /// There is no run of free space that is long enough.
    #[error(
        "no room for an object of {wanted} bytes: the longest free run has {free}; remove objects, or use a larger area"
    )]
    NoRoom {
        /// What was wanted, with its checksums.
        wanted: u64,
        /// The longest run.
        free: u64,
    },
    /// So much waits for the disk that nothing more is taken.
    #[error("{pending} bytes wait for the disk, as many as may; try again after the next event")]
    Busy {
        /// What waits.
        pending: u64,
    },
    /// It is longer than it may be.
    #[error("{bytes} bytes are too long: at most {most}")]
    TooLong {
        /// What was given.
        bytes: u64,
        /// What may be.
        most: u64,
    },
    /// It is still being opened, or was opened to be read only.
    #[error("the store takes no changes: wait until it has recovered, and don't open it read-only")]
    NotReady,
    /// The queue has as many elements as it may have.
    #[error("the queue has {most} elements, as many as it may; take some first")]
    Crowded {
        /// As many.
        most: usize,
    },
    /// A checkpoint is under way.
    #[error("a checkpoint is under way")]
    CheckpointRuns,
    /// No checkpoint is under way.
    #[error("no checkpoint is under way")]
    NoCheckpoint,
    /// There is no such record, element or object.
    #[error("there is none of that number; it may have been removed")]
    None,
    /// There is one of that name.
    #[error("there is an object of that name; remove it first")]
    Exists,
}
