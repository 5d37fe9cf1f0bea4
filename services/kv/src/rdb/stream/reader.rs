//! Reading a stream, of any of the three types.

use super::WHAT;
use super::entries::entries;
use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::items::{DELIVERY_BYTES, Delivery, put_delivery};
use crate::keyspace::stream::progress::counter;
use crate::keyspace::text::TEXT_BYTES_MAX;
use crate::rdb::budget::Budget;
use crate::rdb::error::{RdbError, Wrong};
use crate::rdb::kind::of_value as kind;
use crate::rdb::source::Source;
use std::collections::BTreeMap;
use std::io::Read;

/// Bytes of a piece with entries, at most.
const PIECE_BYTES_MAX: usize = 64 << 20;
/// What an entry, a group or a consumer takes besides its bytes.
const OVERHEAD_BYTES: usize = 24;

/// A stream that is being read.
struct Reading<'a, R> {
    source: &'a mut Source<R>,
    number: u8,
    budget: Budget,
    stream: Stream,
}

/// An id as it is sorted by its bytes.
fn id_of(bytes: &[u8]) -> Option<Id> {
    let (ms, number) = bytes.split_first_chunk::<8>()?;
    let number = <[u8; 8]>::try_from(number).ok()?;
    Some(Id { ms: u64::from_be_bytes(*ms), number: u64::from_be_bytes(number) })
}

impl<R: Read> Reading<'_, R> {
    fn wrong(&self) -> RdbError {
        self.source.wrong(Wrong::Packed(WHAT))
    }

    fn take(&mut self, bytes: usize) -> Result<(), RdbError> {
        let taken = self.budget.take(bytes + OVERHEAD_BYTES);
        taken.map_err(|wrong| self.source.wrong(wrong))
    }

    /// A name of a group or of a consumer.
    fn name(&mut self) -> Result<Vec<u8>, RdbError> {
        let name = self.source.string(TEXT_BYTES_MAX)?;
        self.take(name.len())?;
        Ok(name)
    }

    /// An id of two numbers.
    fn id(&mut self) -> Result<Id, RdbError> {
        Ok(Id { ms: self.source.length()?, number: self.source.length()? })
    }

    /// An id of sixteen bytes.
    fn whole_id(&mut self) -> Result<Id, RdbError> {
        let bytes: [u8; 16] = self.source.array()?;
        id_of(&bytes).ok_or_else(|| self.wrong())
    }

    /// A time (Unix, ms).
    fn time(&mut self) -> Result<i64, RdbError> {
        self.source.array().map(i64::from_le_bytes)
    }

    fn entries(&mut self) -> Result<(), RdbError> {
        let mut top = Id::MIN;
        for _ in 0..self.source.length()? {
            let first = self.source.string(16)?;
            let first = id_of(&first).ok_or_else(|| self.wrong())?;
            let piece = self.source.string(PIECE_BYTES_MAX)?;
            self.budget.take_piece(piece.len()).map_err(|wrong| self.source.wrong(wrong))?;
            let Reading { budget, stream, .. } = self;
            let made = entries(first, &piece, |id, fields| {
                if id <= top {
                    return Err(Wrong::Packed(WHAT));
                }
                top = id;
                budget.take(fields.len() + OVERHEAD_BYTES)?;
                stream.apply(&StreamChange::Append { id, fields });
                Ok(())
            });
            made.map_err(|wrong| self.source.wrong(wrong))?;
        }
        let (length, last) = (self.source.length()?, self.id()?);
        if length != self.stream.len() as u64 || last < top {
            return Err(self.wrong());
        }
        let (mut added, mut removed) = (length, Id::MIN);
        if self.number != kind::STREAM {
            // The first id is that of the first entry.
            self.id()?;
            removed = self.id()?;
            added = self.source.length()?;
        }
        self.stream.apply(&StreamChange::SetMarks { last, added, removed });
        Ok(())
    }

    fn group(&mut self) -> Result<(), RdbError> {
        let (name, last) = (self.name()?, self.id()?);
        if self.stream.group(&name).is_some() {
            return Err(self.source.wrong(Wrong::Duplicate));
        }
        let read = match self.number {
            kind::STREAM => counter(&self.stream, last),
            // What is not known is a negative number.
            _ => Some(self.source.length()?).filter(|read| i64::try_from(*read).is_ok()),
        };
        self.stream.apply(&StreamChange::SetGroup { group: &name, last, read });
        let mut pending = BTreeMap::new();
        for _ in 0..self.source.length()? {
            let (id, at, count) = (self.whole_id()?, self.time()?, self.source.length()?);
            self.take(DELIVERY_BYTES)?;
            if pending.insert(id, Delivery { id, at, count }).is_some() {
                return Err(self.source.wrong(Wrong::Duplicate));
            }
        }
        for _ in 0..self.source.length()? {
            self.consumer(&name, &mut pending)?;
        }
        // What is pending is somebody's.
        if pending.is_empty() { Ok(()) } else { Err(self.wrong()) }
    }

    fn consumer(&mut self, group: &[u8], pending: &mut BTreeMap<Id, Delivery>) -> Result<(), RdbError> {
        let (consumer, seen) = (self.name()?, self.time()?);
        if self.number == kind::STREAM_3 {
            // When it got something last.
            self.time()?;
        }
        if self.stream.group(group).is_some_and(|group| group.consumer(&consumer).is_some()) {
            return Err(self.source.wrong(Wrong::Duplicate));
        }
        self.stream.apply(&StreamChange::SetConsumer { group, consumer: &consumer, seen });
        let mut deliveries = Vec::new();
        for _ in 0..self.source.length()? {
            let id = self.whole_id()?;
            let delivery = pending.remove(&id).ok_or_else(|| self.wrong())?;
            put_delivery(&mut deliveries, delivery);
        }
        self.stream.apply(&StreamChange::SetPending { group, consumer: &consumer, deliveries: &deliveries });
        Ok(())
    }
}

/// Reads a stream of this type.
pub fn read<R: Read>(source: &mut Source<R>, number: u8, budget: Budget) -> Result<Stream, RdbError> {
    let mut reading = Reading { source, number, budget, stream: Stream::default() };
    reading.entries()?;
    for _ in 0..reading.source.length()? {
        reading.group()?;
    }
    Ok(reading.stream)
}
