//! What a store of objects tells, and what it calls them.

use crate::error::StoreError;
use crate::told::Recovered;
use qanat_api::Block;

/// An object: its generation, which no other object of the store ever has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub(crate) u64);

impl ObjectId {
    /// Its generation.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What is known of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectInfo {
    /// Which.
    pub id: ObjectId,
    /// Its length.
    pub bytes: u64,
}

/// What a store of objects tells.
#[derive(Debug)]
pub enum ObjectEvent {
    /// The objects are there.
    Recovered {
        /// How many.
        objects: usize,
        /// What the log of their table was found to be.
        log: Recovered,
    },
    /// A piece was written: there may be room for the next.
    Written {
        /// Of which object.
        object: ObjectId,
    },
    /// An object is durable and can be held.
    Stored {
        /// Which.
        object: ObjectId,
    },
    /// An object could not be written, and was given up.
    NotStored {
        /// Which.
        object: ObjectId,
        /// Why.
        error: StoreError,
    },
    /// An object is gone for good. Its room is free once nobody holds it.
    Removed {
        /// Which.
        object: ObjectId,
    },
    /// What [`Objects::read`](crate::Objects::read) asked for.
    Read {
        /// The token that was given.
        token: u64,
        /// The piece, in the memory that the disk put it to; its checksum was right. Of the last piece the bytes of the object only.
        result: Result<Block, StoreError>,
    },
    /// The store can't go on. Nothing more is acknowledged; it is to be opened again. This comes once.
    Failed(StoreError),
}
