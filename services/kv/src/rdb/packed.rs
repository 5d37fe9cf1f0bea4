//! Elements in one piece of memory: listpacks and sets of integers.

use super::cursor::Cursor;
use super::error::Wrong;
use crate::keyspace::text::TEXT_BYTES_MAX;

/// What is done with each element.
pub type Give<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Wrong>;

/// Gives an integer as its text.
pub fn give_integer(number: i64, give: Give<'_>) -> Result<(), Wrong> {
    give(itoa::Buffer::new().format(number).as_bytes())
}

/// Gives a text. One that is longer than any string may be is none, though its piece may be as long.
pub fn give_text(text: &[u8], give: Give<'_>) -> Result<(), Wrong> {
    match text.len() > TEXT_BYTES_MAX {
        true => Err(Wrong::TooLong { bytes: text.len() as u64, most: TEXT_BYTES_MAX as u64 }),
        false => give(text),
    }
}

/// An element: a text, or a number.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    /// Bytes.
    Text(&'a [u8]),
    /// An integer.
    Number(i64),
}

impl Element<'_> {
    /// Gives it as bytes.
    pub fn give(self, give: Give<'_>) -> Result<(), Wrong> {
        match self {
            Element::Text(text) => give_text(text, give),
            Element::Number(number) => give_integer(number, give),
        }
    }
}

/// Bytes of the length that is written behind an element.
fn tail_bytes(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// The next element of a listpack; `Some(None)`: its end.
pub fn of_listpack<'a>(rest: &mut Cursor<'a>) -> Option<Option<Element<'a>>> {
    let before = rest.rest().len();
    let first = rest.byte()?;
    let low = usize::from(first);
    let element = match first {
        0x00..=0x7f => Element::Number(i64::from(first)),
        0x80..=0xbf => Element::Text(rest.take(low & 0x3f)?),
        0xc0..=0xdf => {
            let number = i64::from(first & 0x1f) << 8 | i64::from(rest.byte()?);
            Element::Number(if number < 1 << 12 { number } else { number - (1 << 13) })
        }
        0xe0..=0xef => {
            let length = (low & 0x0f) << 8 | usize::from(rest.byte()?);
            Element::Text(rest.take(length)?)
        }
        0xf0 => {
            let length = u32::from_le_bytes(rest.array()?);
            Element::Text(rest.take(length as usize)?)
        }
        0xf1 => Element::Number(rest.small()?),
        0xf2 => Element::Number(rest.medium()?),
        0xf3 => Element::Number(rest.large()?),
        0xf4 => Element::Number(rest.whole()?),
        0xff => return Some(None),
        _ => return None,
    };
    rest.take(tail_bytes(before - rest.rest().len()))?;
    Some(Some(element))
}

/// Gives elements up to their end, of which there are as many as `count` says; the greatest number says that there are more. `next`: the
/// next one; `Some(None)`: the end. `what`: what it all is, for errors.
pub fn elements<'a>(
    mut rest: Cursor<'a>,
    count: u16,
    next: fn(&mut Cursor<'a>) -> Option<Option<Element<'a>>>,
    what: &'static str,
    give: Give<'_>,
) -> Result<(), Wrong> {
    let mut seen = 0_u64;
    while let Some(element) = next(&mut rest).ok_or(Wrong::Packed(what))? {
        element.give(give)?;
        seen += 1;
    }
    let is_counted = u64::from(count) == seen || count == u16::MAX;
    if is_counted && rest.rest().is_empty() { Ok(()) } else { Err(Wrong::Packed(what)) }
}

/// The elements of a listpack behind its beginning, and how many there are; the greatest number says that there are more.
pub fn begun(bytes: &[u8]) -> Option<(Cursor<'_>, u16)> {
    let mut rest = Cursor::new(bytes);
    let total = rest.array().map(u32::from_le_bytes)?;
    let count = rest.array().map(u16::from_le_bytes)?;
    (total as usize == bytes.len()).then_some((rest, count))
}

/// Gives the elements of a listpack.
pub fn listpack(bytes: &[u8], give: Give<'_>) -> Result<(), Wrong> {
    const WHAT: &str = "listpack";
    let (rest, count) = begun(bytes).ok_or(Wrong::Packed(WHAT))?;
    elements(rest, count, of_listpack, WHAT, give)
}

/// Gives the members of a set of integers.
pub fn intset(bytes: &[u8], give: Give<'_>) -> Result<(), Wrong> {
    let wrong = || Wrong::Packed("set of integers");
    let mut rest = Cursor::new(bytes);
    let width = rest.array().map(u32::from_le_bytes).ok_or_else(wrong)?;
    let count = rest.array().map(u32::from_le_bytes).ok_or_else(wrong)?;
    if !matches!(width, 2 | 4 | 8) || u64::from(width) * u64::from(count) != rest.rest().len() as u64 {
        return Err(wrong());
    }
    for _ in 0..count {
        let number = match width {
            2 => rest.small(),
            4 => rest.large(),
            _ => rest.whole(),
        };
        give_integer(number.ok_or_else(wrong)?, give)?;
    }
    Ok(())
}
