//! Elements in one piece of memory, as older versions had them: ziplists and zipmaps.

use super::cursor::Cursor;
use super::error::Wrong;
use super::packed::{Element, Give, elements, give_text};

/// The next element of a ziplist; `Some(None)`: its end.
fn element<'a>(rest: &mut Cursor<'a>) -> Option<Option<Element<'a>>> {
    // The length of the one before it.
    match rest.byte()? {
        0xff => return Some(None),
        0xfe => drop(rest.array::<4>()?),
        _ => {}
    }
    let first = rest.byte()?;
    let low = usize::from(first & 0x3f);
    Some(Some(match first {
        0x00..=0x3f => Element::Text(rest.take(low)?),
        0x40..=0x7f => {
            let length = low << 8 | usize::from(rest.byte()?);
            Element::Text(rest.take(length)?)
        }
        0x80 => {
            let length = u32::from_be_bytes(rest.array()?);
            Element::Text(rest.take(length as usize)?)
        }
        0xc0 => Element::Number(rest.small()?),
        0xd0 => Element::Number(rest.large()?),
        0xe0 => Element::Number(rest.whole()?),
        0xf0 => Element::Number(rest.medium()?),
        0xf1..=0xfd => Element::Number(i64::from(first & 0x0f) - 1),
        0xfe => Element::Number(i64::from(i8::from_le_bytes(rest.array()?))),
        _ => return None,
    }))
}

/// Gives the elements of a ziplist.
pub fn ziplist(bytes: &[u8], give: Give<'_>) -> Result<(), Wrong> {
    const WHAT: &str = "ziplist";
    let wrong = || Wrong::Packed(WHAT);
    let mut rest = Cursor::new(bytes);
    let total = rest.array().map(u32::from_le_bytes).ok_or_else(wrong)?;
    let _place_of_last = rest.array::<4>().ok_or_else(wrong)?;
    let count = rest.array().map(u16::from_le_bytes).ok_or_else(wrong)?;
    if total as usize != bytes.len() {
        return Err(wrong());
    }
    elements(rest, count, element, WHAT, give)
}

/// A length of a zipmap; `Some(None)`: its end.
fn length(rest: &mut Cursor<'_>) -> Option<Option<usize>> {
    Some(match rest.byte()? {
        0xff => None,
        0xfe => Some(u32::from_le_bytes(rest.array()?) as usize),
        short => Some(usize::from(short)),
    })
}

/// Gives the fields and values of a zipmap, one after the other.
pub fn zipmap(bytes: &[u8], give: Give<'_>) -> Result<(), Wrong> {
    let wrong = || Wrong::Packed("zipmap");
    let mut rest = Cursor::new(bytes);
    rest.byte().ok_or_else(wrong)?;
    while let Some(of_field) = length(&mut rest).ok_or_else(wrong)? {
        give_text(rest.take(of_field).ok_or_else(wrong)?, give)?;
        let of_value = length(&mut rest).flatten().ok_or_else(wrong)?;
        let free = rest.byte().ok_or_else(wrong)?;
        give_text(rest.take(of_value).ok_or_else(wrong)?, give)?;
        rest.take(free.into()).ok_or_else(wrong)?;
    }
    if rest.rest().is_empty() { Ok(()) } else { Err(wrong()) }
}
