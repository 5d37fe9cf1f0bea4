//! Reading a value of any type.

use super::budget::Budget;
use super::error::{RdbError, Wrong};
use super::kind::of_value as kind;
use super::packed::{Give, intset, listpack};
use super::skip;
use super::source::Source;
use super::stream;
use super::ziplist::{ziplist, zipmap};
use crate::keyspace::change::End;
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::shapes::Shapes;
use crate::keyspace::sorted::Sorted;
use crate::keyspace::text::{TEXT_BYTES_MAX, Text};
use crate::keyspace::value::Value;
use crate::resp::number::double;
use std::io::Read;

/// Bytes of a piece with elements, at most.
const PACKED_BYTES_MAX: usize = 64 << 20;

/// Elements that come in twos.
fn pairs(
    walk: fn(&[u8], Give<'_>) -> Result<(), Wrong>,
    bytes: &[u8],
    mut give: impl FnMut(&[u8], &[u8]) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut first: Option<Vec<u8>> = None;
    walk(bytes, &mut |piece| match first.take() {
        None => {
            first = Some(piece.to_vec());
            Ok(())
        }
        Some(first) => give(&first, piece),
    })?;
    if first.is_none() { Ok(()) } else { Err(Wrong::Packed("list of pairs")) }
}

/// A value that is being made.
struct Maker {
    budget: Budget,
    value: Value,
    shapes: Shapes,
}

impl Maker {
    fn push(&mut self, element: &[u8]) -> Result<(), Wrong> {
        self.budget.take(element.len())?;
        if let Value::List(list) = &mut self.value {
            list.push(End::Back, element);
        }
        Ok(())
    }

    fn add(&mut self, member: &[u8]) -> Result<(), Wrong> {
        self.budget.take(member.len())?;
        let Value::Set(set) = &mut self.value else { return Ok(()) };
        if set.contains(member) {
            return Err(Wrong::Duplicate);
        }
        set.insert(member, self.shapes.set());
        Ok(())
    }

    fn field(&mut self, field: &[u8], value: &[u8]) -> Result<(), Wrong> {
        self.budget.take(field.len() + value.len())?;
        let Value::Hash(hash) = &mut self.value else { return Ok(()) };
        if hash.get(field).is_some() {
            return Err(Wrong::Duplicate);
        }
        hash.set(field, value, self.shapes.hash());
        Ok(())
    }

    fn score(&mut self, member: &[u8], score: f64) -> Result<(), Wrong> {
        self.budget.take(member.len() + 8)?;
        let Value::Sorted(sorted) = &mut self.value else { return Ok(()) };
        if score.is_nan() {
            return Err(Wrong::Score);
        }
        if sorted.score(member).is_some() {
            return Err(Wrong::Duplicate);
        }
        sorted.set(member, score, self.shapes.sorted());
        Ok(())
    }

    fn score_text(&mut self, member: &[u8], score: &[u8]) -> Result<(), Wrong> {
        self.score(member, double(score).ok_or(Wrong::Score)?)
    }
}

fn empty_of(number: u8) -> Option<Value> {
    Some(match number {
        kind::STRING => Value::Text(Text::default()),
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => {
            Value::List(Box::<List>::default())
        }
        kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => Value::Set(Box::<Set>::default()),
        kind::ZSET | kind::ZSET_2 | kind::ZSET_ZIPLIST | kind::ZSET_LISTPACK => Value::Sorted(Box::<Sorted>::default()),
        kind::HASH | kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
            Value::Hash(Box::<Hash>::default())
        }
        _ => return None,
    })
}

/// A score as older versions wrote it: a length and digits, or one of three numbers for what has none.
fn old_score<R: Read>(source: &mut Source<R>) -> Result<f64, RdbError> {
    match source.byte()? {
        255 => Ok(f64::NEG_INFINITY),
        254 => Ok(f64::INFINITY),
        253 => Err(source.wrong(Wrong::Score)),
        length => {
            let text = source.bytes(length.into(), 255)?;
            double(&text).ok_or_else(|| source.wrong(Wrong::Score))
        }
    }
}

/// Reads a value of a type. An empty collection is given as one.
pub fn read<R: Read>(source: &mut Source<R>, number: u8, budget: Budget) -> Result<Value, RdbError> {
    if let Some(kind) = skip::name(number) {
        return Err(source.wrong(Wrong::Unsupported { kind, number }));
    }
    if stream::is_one(number) {
        return stream::reader::read(source, number, budget).map(|stream| Value::Stream(Box::new(stream)));
    }
    let value = empty_of(number).ok_or_else(|| source.wrong(Wrong::Type(number)))?;
    let mut maker = Maker { budget, value, shapes: Shapes::default() };
    match number {
        kind::STRING => {
            let text = source.string(TEXT_BYTES_MAX)?;
            maker.budget.take(text.len()).map_err(|wrong| source.wrong(wrong))?;
            maker.value = Value::Text(text.as_slice().into());
        }
        kind::LIST | kind::SET | kind::HASH | kind::ZSET | kind::ZSET_2 => {
            for _ in 0..source.length()? {
                plain(source, number, &mut maker)?;
            }
        }
        kind::LIST_QUICKLIST => {
            for _ in 0..source.length()? {
                let bytes = piece(source, &mut maker)?;
                ziplist(&bytes, &mut |element| maker.push(element)).map_err(|wrong| source.wrong(wrong))?;
            }
        }
        kind::LIST_QUICKLIST_2 => {
            for _ in 0..source.length()? {
                let made = match source.length()? {
                    1 => maker.push(&source.string(TEXT_BYTES_MAX)?),
                    2 => listpack(&piece(source, &mut maker)?, &mut |element| maker.push(element)),
                    _ => Err(Wrong::Packed("quicklist")),
                };
                made.map_err(|wrong| source.wrong(wrong))?;
            }
        }
        _ => {
            let bytes = piece(source, &mut maker)?;
            packed(&bytes, number, &mut maker).map_err(|wrong| source.wrong(wrong))?;
        }
    }
    Ok(maker.value)
}

/// A piece with packed elements.
fn piece<R: Read>(source: &mut Source<R>, maker: &mut Maker) -> Result<Vec<u8>, RdbError> {
    let bytes = source.string(PACKED_BYTES_MAX)?;
    maker.budget.take_piece(bytes.len()).map_err(|wrong| source.wrong(wrong))?;
    Ok(bytes)
}

/// One element of a collection that is not packed.
fn plain<R: Read>(source: &mut Source<R>, number: u8, maker: &mut Maker) -> Result<(), RdbError> {
    let first = source.string(TEXT_BYTES_MAX)?;
    let made = match number {
        kind::LIST => maker.push(&first),
        kind::SET => maker.add(&first),
        kind::HASH => {
            let value = source.string(TEXT_BYTES_MAX)?;
            maker.field(&first, &value)
        }
        kind::ZSET => {
            let score = old_score(source)?;
            maker.score(&first, score)
        }
        _ => {
            let score = f64::from_le_bytes(source.array()?);
            maker.score(&first, score)
        }
    };
    made.map_err(|wrong| source.wrong(wrong))
}

/// A collection in one piece.
fn packed(bytes: &[u8], number: u8, maker: &mut Maker) -> Result<(), Wrong> {
    match number {
        kind::LIST_ZIPLIST => ziplist(bytes, &mut |element| maker.push(element)),
        kind::SET_INTSET => intset(bytes, &mut |member| maker.add(member)),
        kind::SET_LISTPACK => listpack(bytes, &mut |member| maker.add(member)),
        kind::HASH_ZIPMAP => pairs(zipmap, bytes, |field, value| maker.field(field, value)),
        kind::HASH_ZIPLIST => pairs(ziplist, bytes, |field, value| maker.field(field, value)),
        kind::HASH_LISTPACK => pairs(listpack, bytes, |field, value| maker.field(field, value)),
        kind::ZSET_ZIPLIST => pairs(ziplist, bytes, |member, score| maker.score_text(member, score)),
        kind::ZSET_LISTPACK => pairs(listpack, bytes, |member, score| maker.score_text(member, score)),
        _ => Err(Wrong::Type(number)),
    }
}
