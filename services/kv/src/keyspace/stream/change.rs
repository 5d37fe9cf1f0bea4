//! [`StreamChange`]: all that can happen to a stream, and what a record has of it.

use crate::keyspace::stream::id::Id;

/// What happens to a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "each variant says what its fields are")]
pub enum StreamChange<'a> {
    /// It has this entry, which is the last one. Its fields are [packed](super::fields).
    Append { id: Id, fields: &'a [u8] },
    /// An entry is gone.
    Remove { id: Id },
    /// All entries up to this one are gone.
    Trim { through: Id },
    /// The last id that was given, how many entries there have been, and the greatest id that was removed.
    SetMarks { last: Id, added: u64, removed: Id },
    /// There is this group. Its last entry was this one, and so many were read, if that is known.
    SetGroup { group: &'a [u8], last: Id, read: Option<u64> },
    /// The group is gone.
    DropGroup { group: &'a [u8] },
    /// The group has this consumer, which was seen then (Unix, ms).
    SetConsumer { group: &'a [u8], consumer: &'a [u8], seen: i64 },
    /// The consumer is gone, with all that is pending for it.
    DropConsumer { group: &'a [u8], consumer: &'a [u8] },
    /// These [deliveries](super::items) are pending for the consumer, and for no other.
    SetPending { group: &'a [u8], consumer: &'a [u8], deliveries: &'a [u8] },
    /// These [ids](super::items) are not pending any more.
    DropPending { group: &'a [u8], ids: &'a [u8] },
}

/// Where the parts of a change are written.
pub trait Sink {
    /// Writes a number.
    fn put_number(&mut self, number: u64);
    /// Writes a number with a sign.
    fn put_signed(&mut self, number: i64);
    /// Writes bytes.
    fn put_piece(&mut self, piece: &[u8]);
}

/// Where they are read; nothing if it ends before.
pub trait Source<'a> {
    /// Reads a number.
    fn take_number(&mut self) -> Option<u64>;
    /// Reads a number with a sign.
    fn take_signed(&mut self) -> Option<i64>;
    /// Reads bytes.
    fn take_piece(&mut self) -> Option<&'a [u8]>;
}

fn put_id(sink: &mut impl Sink, id: Id) {
    sink.put_number(id.ms);
    sink.put_number(id.number);
}

fn take_id<'a>(source: &mut impl Source<'a>) -> Option<Id> {
    Some(Id { ms: source.take_number()?, number: source.take_number()? })
}

impl<'a> StreamChange<'a> {
    /// Whether it makes a stream, if there is none.
    pub fn makes(&self) -> bool {
        matches!(self, StreamChange::Append { .. } | StreamChange::SetMarks { .. })
    }

    /// Its number in a record.
    pub fn kind(&self) -> u8 {
        match self {
            StreamChange::Append { .. } => 19,
            StreamChange::Remove { .. } => 20,
            StreamChange::Trim { .. } => 21,
            StreamChange::SetMarks { .. } => 22,
            StreamChange::SetGroup { .. } => 23,
            StreamChange::DropGroup { .. } => 24,
            StreamChange::SetConsumer { .. } => 25,
            StreamChange::DropConsumer { .. } => 26,
            StreamChange::SetPending { .. } => 27,
            StreamChange::DropPending { .. } => 28,
        }
    }

    /// Writes what it has besides its number and its key.
    pub fn write(&self, sink: &mut impl Sink) {
        match *self {
            StreamChange::Append { id, fields } => {
                put_id(sink, id);
                sink.put_piece(fields);
            }
            StreamChange::Remove { id } | StreamChange::Trim { through: id } => put_id(sink, id),
            StreamChange::SetMarks { last, added, removed } => {
                put_id(sink, last);
                sink.put_number(added);
                put_id(sink, removed);
            }
            StreamChange::SetGroup { group, last, read } => {
                sink.put_piece(group);
                put_id(sink, last);
                sink.put_number(read.map_or(0, |read| read.saturating_add(1)));
            }
            StreamChange::DropGroup { group } => sink.put_piece(group),
            StreamChange::SetConsumer { group, consumer, seen } => {
                sink.put_piece(group);
                sink.put_piece(consumer);
                sink.put_signed(seen);
            }
            StreamChange::DropConsumer { group, consumer } => {
                sink.put_piece(group);
                sink.put_piece(consumer);
            }
            StreamChange::SetPending { group, consumer, deliveries } => {
                sink.put_piece(group);
                sink.put_piece(consumer);
                sink.put_piece(deliveries);
            }
            StreamChange::DropPending { group, ids } => {
                sink.put_piece(group);
                sink.put_piece(ids);
            }
        }
    }

    /// Reads what was written; nothing if there is no such number.
    pub fn read(kind: u8, source: &mut impl Source<'a>) -> Option<StreamChange<'a>> {
        let change = match kind {
            19 => StreamChange::Append { id: take_id(source)?, fields: source.take_piece()? },
            20 => StreamChange::Remove { id: take_id(source)? },
            21 => StreamChange::Trim { through: take_id(source)? },
            22 => {
                let (last, added) = (take_id(source)?, source.take_number()?);
                StreamChange::SetMarks { last, added, removed: take_id(source)? }
            }
            23 => {
                let (group, last) = (source.take_piece()?, take_id(source)?);
                StreamChange::SetGroup { group, last, read: source.take_number()?.checked_sub(1) }
            }
            24 => StreamChange::DropGroup { group: source.take_piece()? },
            25 => {
                let (group, consumer) = (source.take_piece()?, source.take_piece()?);
                StreamChange::SetConsumer { group, consumer, seen: source.take_signed()? }
            }
            26 => StreamChange::DropConsumer { group: source.take_piece()?, consumer: source.take_piece()? },
            27 => {
                let (group, consumer) = (source.take_piece()?, source.take_piece()?);
                StreamChange::SetPending { group, consumer, deliveries: source.take_piece()? }
            }
            28 => StreamChange::DropPending { group: source.take_piece()?, ids: source.take_piece()? },
            _ => return None,
        };
        Some(change)
    }
}
