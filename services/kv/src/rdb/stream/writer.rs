//! Writing a stream, as Redis 7.0 does.

use super::SAME;
use super::listpack::Listpack;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::fields::unpack;
use crate::keyspace::stream::group::Group;
use crate::keyspace::stream::id::Id;
use crate::rdb::lengths::{length, string};
use std::io::{self, Write};

/// Entries of a piece at most, and bytes of their fields if there is more than one: what Redis' settings are at first.
const PIECE_ENTRIES: usize = 100;
const PIECE_BYTES: usize = 4_096;

/// An entry: its id, and its fields.
type Entry<'a> = (Id, &'a [u8]);

/// The entries of a stream as they lie together.
fn pieces(stream: &Stream) -> impl Iterator<Item = Vec<Entry<'_>>> {
    let mut left = stream.range(Id::MIN, Id::MAX).peekable();
    std::iter::from_fn(move || {
        let mut piece = vec![left.next()?];
        let mut bytes = piece.iter().map(|(_, fields)| fields.len()).sum::<usize>();
        while piece.len() < PIECE_ENTRIES {
            let Some(entry) = left.next_if(|(_, fields)| bytes + fields.len() < PIECE_BYTES) else { break };
            bytes += entry.1.len();
            piece.push(entry);
        }
        Some(piece)
    })
}

fn packed(first: Id, entries: &[Entry<'_>]) -> Vec<u8> {
    let mut piece = Listpack::new();
    let names: Vec<&[u8]> = entries.iter().take(1).flat_map(|(_, fields)| unpack(fields).step_by(2)).collect();
    piece.number(entries.len() as i64);
    piece.number(0);
    piece.number(names.len() as i64);
    names.iter().for_each(|name| piece.text(name));
    piece.number(0);
    for (id, fields) in entries {
        let is_same = unpack(fields).step_by(2).eq(names.iter().copied());
        let count = unpack(fields).count() / 2;
        piece.number(if is_same { SAME } else { 0 });
        piece.number(id.ms.wrapping_sub(first.ms) as i64);
        piece.number(id.number.wrapping_sub(first.number) as i64);
        if is_same {
            unpack(fields).skip(1).step_by(2).for_each(|value| piece.text(value));
            piece.number(count as i64 + 3);
        } else {
            piece.number(count as i64);
            unpack(fields).for_each(|part| piece.text(part));
            piece.number(2 * count as i64 + 4);
        }
    }
    piece.finish()
}

fn id(id: Id, to: &mut impl Write) -> io::Result<()> {
    length(id.ms, to)?;
    length(id.number, to)
}

/// The bytes of an id, which are sorted as ids are.
fn whole(id: Id) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.number)).to_be_bytes()
}

/// Writes a stream, without its type.
///
/// # Errors
/// As the target has it.
pub fn write(stream: &Stream, to: &mut impl Write) -> io::Result<()> {
    length(pieces(stream).count() as u64, to)?;
    for entries in pieces(stream) {
        let first = entries.first().map_or(Id::MIN, |(id, _)| *id);
        string(&whole(first), to)?;
        string(&packed(first, &entries), to)?;
    }
    length(stream.len() as u64, to)?;
    id(stream.last(), to)?;
    id(stream.first(), to)?;
    id(stream.removed(), to)?;
    length(stream.added(), to)?;
    length(stream.groups().len() as u64, to)?;
    stream.groups().try_for_each(|(name, found)| group(name, found, to))
}

fn group(name: &[u8], group: &Group, to: &mut impl Write) -> io::Result<()> {
    string(name, to)?;
    id(group.last, to)?;
    length(group.read.unwrap_or(u64::MAX), to)?;
    length(group.pending().len() as u64, to)?;
    for (id, pending) in group.pending() {
        to.write_all(&whole(*id))?;
        to.write_all(&pending.at.to_le_bytes())?;
        length(pending.count, to)?;
    }
    length(group.consumers().len() as u64, to)?;
    for (name, consumer) in group.consumers() {
        string(name, to)?;
        to.write_all(&consumer.seen.to_le_bytes())?;
        length(consumer.pending().len() as u64, to)?;
        consumer.pending().iter().try_for_each(|id| to.write_all(&whole(*id)))?;
    }
    Ok(())
}
