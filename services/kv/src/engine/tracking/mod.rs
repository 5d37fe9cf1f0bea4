//! [`Tracking`]: which clients have read which keys, and want to know when these change (client-side caching). Data only;
//! [`invalidation`](crate::engine::invalidation) tells them.

pub mod prefixes;
pub mod table;
pub mod tracker;

use prefixes::Prefixes;
use table::Table;

/// See the module.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Who has read what.
    pub table: Table,
    /// Who wants to know of all keys with some prefix.
    pub prefixes: Prefixes,
    /// Clients that track. While there is none, nothing is noted.
    pub clients: usize,
    /// Keys that were forgotten because there were too many, whose readers were told so.
    pub evicted: u64,
    /// Reads that were not noted because their client had too many, or the key was too long. The client was told at once.
    pub refused: u64,
    /// The script that is being executed has read something.
    pub has_read: bool,
    /// What the command that is being executed has read and was not noted.
    pub unnoted: Unnoted,
}

/// Keys that could not be noted.
#[derive(Debug, Default)]
pub struct Unnoted {
    /// The first ones.
    pub keys: Vec<Box<[u8]>>,
    bytes: usize,
    /// There were more, so their reader may keep nothing.
    pub is_more: bool,
}

impl Unnoted {
    /// Adds one.
    pub fn add(&mut self, key: &[u8]) {
        /// Bytes of keys that are told one by one.
        const BYTES_MAX: usize = 1 << 20;
        self.bytes += key.len() + size_of::<Box<[u8]>>();
        self.is_more |= self.bytes > BYTES_MAX;
        if !self.is_more {
            self.keys.push(key.into());
        }
    }
}
