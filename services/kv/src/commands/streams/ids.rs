//! Ids as clients say them.

use crate::engine::fault::Fault;
use crate::keyspace::stream::id::Id;

/// No text of an id is longer.
const TEXT_BYTES_MAX: usize = 127;
const INVALID: Fault = Fault::Said("ERR Invalid stream ID specified as stream command argument");

fn number(text: &[u8]) -> Option<u64> {
    // Signs and blanks are none of it.
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

/// The parts of an id: the time, and the text behind `-`, if there is one.
fn parts(text: &[u8]) -> Result<(u64, Option<&[u8]>), Fault> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(INVALID);
    }
    let mut halves = text.splitn(2, |byte| *byte == b'-');
    let ms = halves.next().and_then(number).ok_or(INVALID)?;
    Ok((ms, halves.next()))
}

/// An id, `ms` or `ms-number`. A number that is missing is `missing`.
pub fn strict(text: &[u8], missing: u64) -> Result<Id, Fault> {
    let (ms, rest) = parts(text)?;
    let number = rest.map_or(Some(missing), number).ok_or(INVALID)?;
    Ok(Id { ms, number })
}

/// The id of a new entry, as it is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewId {
    /// `*`: the next one.
    Next,
    /// `ms-*`: the next one of this time.
    NextOf(u64),
    /// This one.
    This(Id),
}

/// The id of a new entry.
pub fn new(text: &[u8]) -> Result<NewId, Fault> {
    if text == b"*" {
        return Ok(NewId::Next);
    }
    match parts(text)? {
        (ms, Some(b"*")) => Ok(NewId::NextOf(ms)),
        _ => strict(text, 0).map(NewId::This),
    }
}

/// An id, or `-` for the least and `+` for the greatest one.
pub fn or_edge(text: &[u8], missing: u64) -> Result<Id, Fault> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => strict(text, missing),
    }
}

/// Whether the end is not part of an interval, and its id.
fn end_of(text: &[u8], missing: u64) -> Result<(bool, Id), Fault> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => Ok((true, strict(rest, missing)?)),
        _ => Ok((false, or_edge(text, missing)?)),
    }
}

/// Where an interval begins. `(` before it means: behind it.
pub fn start(text: &[u8]) -> Result<Id, Fault> {
    match end_of(text, 0)? {
        (true, id) => id.next().ok_or(Fault::Said("ERR invalid start ID for the interval")),
        (false, id) => Ok(id),
    }
}

/// Where it ends.
pub fn end(text: &[u8]) -> Result<Id, Fault> {
    match end_of(text, u64::MAX)? {
        (true, id) => id.previous().ok_or(Fault::Said("ERR invalid end ID for the interval")),
        (false, id) => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_redis_takes() {
        for (text, expected) in [
            ("5", Some((5, 9))),
            ("5-0", Some((5, 0))),
            ("05-01", Some((5, 1))),
            ("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX))),
            ("18446744073709551616", None),
            ("-5", None),
            ("5-", None),
            ("5-6-7", None),
            ("", None),
            ("a", None),
        ] {
            let found = strict(text.as_bytes(), 9).ok().map(|id| (id.ms, id.number));
            assert_eq!(found, expected, "{text:?}");
        }
        assert_eq!(new(b"7-*"), Ok(NewId::NextOf(7)));
        assert_eq!((start(b"(0-0"), end(b"(1-0")), (Ok(Id { ms: 0, number: 1 }), Ok(Id { ms: 0, number: u64::MAX })));
        assert!(start(b"(18446744073709551615-18446744073709551615").is_err() && end(b"(0-0").is_err());
    }
}
