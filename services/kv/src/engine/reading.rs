//! [`Reading`]: what a client wants to read of streams, at once or when it comes.

use crate::keyspace::stream::id::Id;

/// A consumer of a group that reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reader {
    /// The group.
    pub group: Box<[u8]>,
    /// The consumer.
    pub consumer: Box<[u8]>,
    /// What it gets is not pending afterwards.
    pub needs_no_acknowledgement: bool,
}

/// What a client wants to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Entries behind these, one for each key; for a group, [`Id::MAX`] means what nobody got yet.
    pub after: Vec<Id>,
    /// So many of each stream, at most.
    pub count: usize,
    /// For whom.
    pub reader: Option<Reader>,
}
