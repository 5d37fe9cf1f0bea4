//! The entries of a piece. It begins with the names of its first entry's fields; others that have the same ones do not repeat them.
//!
//! ```text
//!  entries · entries that are gone · names (count, names) · 0 · entry entry …
//!  entry:  flags · time and number, from those of the piece on · [fields] · values, or names and values by turns · elements of it
//! ```

use super::{GONE, SAME, WHAT};
use crate::keyspace::leb::put_piece;
use crate::keyspace::stream::id::Id;
use crate::rdb::cursor::Cursor;
use crate::rdb::error::Wrong;
use crate::rdb::packed::{Element, begun, of_listpack};

fn wrong() -> Wrong {
    Wrong::Packed(WHAT)
}

/// Elements, one after the other.
#[derive(Clone, Copy)]
struct Elements<'a>(Cursor<'a>);

impl<'a> Elements<'a> {
    fn next(&mut self) -> Result<Element<'a>, Wrong> {
        of_listpack(&mut self.0).flatten().ok_or_else(wrong)
    }

    fn number(&mut self) -> Result<i64, Wrong> {
        match self.next()? {
            Element::Number(number) => Ok(number),
            Element::Text(_) => Err(wrong()),
        }
    }

    /// How many there are of something. Each of them is an element at least.
    fn count(&mut self) -> Result<usize, Wrong> {
        let count = usize::try_from(self.number()?).ok();
        count.filter(|count| *count <= self.0.rest().len()).ok_or_else(wrong)
    }

    /// Adds the next one to the fields of an entry.
    fn put(&mut self, fields: &mut Vec<u8>) -> Result<(), Wrong> {
        self.next()?.give(&mut |piece| {
            put_piece(fields, piece);
            Ok(())
        })
    }

    /// Passes over so many.
    fn pass(&mut self, count: usize) -> Result<(), Wrong> {
        (0..count).try_for_each(|_| self.next().map(drop))
    }
}

/// Gives the entries of a piece, with their fields [packed](crate::keyspace::stream::fields). `first`: what their ids are told from.
pub fn entries(first: Id, bytes: &[u8], mut give: impl FnMut(Id, &[u8]) -> Result<(), Wrong>) -> Result<(), Wrong> {
    let (rest, _) = begun(bytes).ok_or_else(wrong)?;
    let mut all = Elements(rest);
    let (there, gone, count) = (all.count()?, all.count()?, all.count()?);
    // Names are read again for each entry that has them: to keep them would take many times the memory of the piece.
    let (names, count_of_names) = (all, count);
    all.pass(count)?;
    if all.number()? != 0 {
        return Err(wrong());
    }
    let (mut there_left, mut gone_left) = (there, gone);
    while there_left + gone_left > 0 {
        let flags = all.number()?;
        let (ms, number) = (all.number()? as u64, all.number()? as u64);
        let id = Id { ms: first.ms.wrapping_add(ms), number: first.number.wrapping_add(number) };
        let is_same = flags & SAME != 0;
        let count = if is_same { count_of_names } else { all.count()? };
        // What is gone is passed over, and not put together: that may be long though its piece is short.
        let left = if flags & GONE != 0 {
            all.pass(if is_same { count } else { count.saturating_mul(2) })?;
            &mut gone_left
        } else {
            let (mut fields, mut names) = (Vec::new(), names);
            for _ in 0..count {
                if is_same {
                    names.put(&mut fields)?
                } else {
                    all.put(&mut fields)?
                }
                all.put(&mut fields)?;
            }
            give(id, &fields)?;
            &mut there_left
        };
        let elements =
            if is_same { count.checked_add(3) } else { count.checked_mul(2).and_then(|it| it.checked_add(4)) };
        if count == 0 || !(0..=GONE | SAME).contains(&flags) || usize::try_from(all.number()?).ok() != elements {
            return Err(wrong());
        }
        *left = left.checked_sub(1).ok_or_else(wrong)?;
    }
    match of_listpack(&mut all.0) {
        Some(None) if all.0.rest().is_empty() => Ok(()),
        _ => Err(wrong()),
    }
}
