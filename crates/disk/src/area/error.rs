//! [`AreaError`]: what can be wrong with a disk of areas, or with what is asked of it.

use crate::error::StorageError;

/// Which of two copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copy {
    /// The first.
    A,
    /// The second.
    B,
}

impl Copy {
    pub(super) const BOTH: [Copy; 2] = [Copy::A, Copy::B];

    pub(super) fn index(self) -> usize {
        match self {
            Copy::A => 0,
            Copy::B => 1,
        }
    }
}

impl std::fmt::Display for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Copy::A => "A",
            Copy::B => "B",
        })
    }
}

/// Why a disk can't be used, or a change can't be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AreaError {
    /// The device said no.
    #[error("the disk, at byte {place}: {error}")]
    Device {
        /// Bytes from its beginning.
        place: u64,
        /// What it said.
        error: StorageError,
    },
    /// A change could not be made durable. Whether it is there shows when the disk is opened again; until then nothing more is changed.
    #[error("an earlier change could not be made durable ({error}); open the disk again")]
    Failed {
        /// What the device said.
        error: StorageError,
    },
    /// Something else is on it.
    #[error(
        "the disk is not empty: it has {what}; use an empty one, or wipe it yourself if nobody needs what is on it"
    )]
    Foreign {
        /// As far as it is known, with an article.
        what: String,
    },
    /// It is a disk of ours already.
    #[error("the disk has been prepared already (epoch {epoch}, {areas} areas); use it as it is")]
    Prepared {
        /// Its epoch.
        epoch: u64,
        /// Areas on it.
        areas: usize,
    },
    /// It has never been prepared.
    #[error("the disk has not been prepared: there is no superblock on it")]
    Unprepared,
    /// It was prepared by a later version.
    #[error(
        "the disk has format {found}, this version knows format {known}; use the version that prepared it, or a later one"
    )]
    Version {
        /// On the disk.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Both superblocks are damaged.
    #[error(
        "both superblocks are damaged (A at byte 0, B at byte 524288); restore one of them from a copy of the disk, nothing has been written"
    )]
    Superblocks,
    /// Records in the middle of the journal are damaged in both copies.
    #[error(
        "record {record} of the journal of epoch {epoch} is damaged in both copies, and a later one is there; restore the disk from a copy, nothing has been written"
    )]
    Journal {
        /// The epoch.
        epoch: u64,
        /// The record's number.
        record: u64,
    },
    /// The table contradicts itself: two areas have the same space, or one lies beyond the end.
    #[error("the table of areas contradicts itself ({what}); restore the disk from a copy, nothing has been written")]
    Table {
        /// How.
        what: String,
    },
    /// The device has become smaller than what was recorded.
    #[error("the disk has {found} bytes, and had {recorded} when it was prepared; areas would be cut off")]
    Shrunk {
        /// What it has.
        found: u64,
        /// What it had.
        recorded: u64,
    },
    /// It is too small.
    #[error("{bytes} bytes are too small for a disk of areas, which needs {needed}")]
    TooSmall {
        /// What it has.
        bytes: u64,
        /// What is needed.
        needed: u64,
    },
    /// Its blocks are larger than a unit.
    #[error("blocks of {bytes} bytes are larger than 4096")]
    Blocks {
        /// Bytes in a block.
        bytes: u32,
    },
    /// No memory for buffers.
    #[error("no memory for the disk's buffers: {0}")]
    Memory(String),
    /// The name is no name.
    #[error("{name:?} is no name of an area: 1 to 63 letters, digits, '-', '_' and '.', the first a letter or digit")]
    Name {
        /// What was given.
        name: String,
    },
    /// Another area has that name.
    #[error("the disk has an area {name} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is none of that name.
    #[error("the disk has no area {name}")]
    NoArea {
        /// The name.
        name: String,
    },
    /// The area is on its way out.
    #[error("the area {name} is being deleted")]
    Doomed {
        /// The name.
        name: String,
    },
    /// An area has at least one unit.
    #[error("an area of 0 bytes is none")]
    Empty,
    /// Areas grow, they don't shrink.
    #[error("the area {name} has {bytes} bytes and can't become smaller")]
    Shrinks {
        /// The name.
        name: String,
        /// What it has.
        bytes: u64,
    },
    /// No room.
    #[error("the disk is full: {wanted} bytes are wanted, {free} are free")]
    NoRoom {
        /// What was wanted.
        wanted: u64,
        /// What there is.
        free: u64,
    },
    /// There is room, in too many pieces.
    #[error(
        "the disk's free space is in too many pieces for an area of {wanted} bytes (an area has at most {pieces_max}); delete areas, or ask for less"
    )]
    Fragmented {
        /// What was wanted.
        wanted: u64,
        /// Pieces an area may have.
        pieces_max: usize,
    },
    /// A partition is one piece, and no free one is large enough.
    #[error(
        "no free piece of the disk is large enough for a partition of {wanted} bytes (the largest has {largest}); delete areas, or make one without --fenced, which may lie in several pieces"
    )]
    NotInOnePiece {
        /// What was wanted.
        wanted: u64,
        /// Bytes of the largest.
        largest: u64,
    },
    /// A partition grows to where it ends, and that is another's.
    #[error(
        "the area {name} is a partition, and there is not so much room behind it; make another one, or delete what is behind it"
    )]
    NoRoomBehind {
        /// Which.
        name: String,
    },
    /// The kernel refused the partition, or the file.
    #[error("the area {name}: {why}")]
    Fence {
        /// Which.
        name: String,
        /// What, with the remedy.
        why: String,
    },
    /// Somebody has a descriptor of an area.
    #[error("the area {name} is still open somewhere: end who has it")]
    Held {
        /// Which.
        name: String,
    },
    /// The table is full.
    #[error("the disk has {areas} areas, as many as its table holds")]
    TableFull {
        /// Areas there are.
        areas: usize,
    },
}
