//! Messages read record by record: where each begins, names followed through compression, data made whole.

use domain::base::iana::Class;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, Record};
use domain::rdata::AllRecordData;

pub use crate::message::HEADER_LENGTH;

/// Longest name, bytes.
const NAME_LENGTH_MAX: usize = 255;
/// Pointers followed in one name: more lead nowhere.
const POINTERS_MAX: usize = 126;

/// Not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// Answers.
    Answer,
    /// Authority.
    Authority,
    /// Additional.
    Additional,
}

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its section.
    pub section: Section,
    /// Its first byte: its owner.
    pub start: usize,
    /// Its type.
    pub rtype: u16,
    /// Its class.
    pub class: u16,
    /// Its data.
    pub data_start: usize,
    /// The byte after it.
    pub data_end: usize,
}

fn number(message: &[u8], at: usize) -> Result<u16, Malformed> {
    let bytes = message.get(at..at + 2).and_then(|bytes| bytes.first_chunk()).ok_or(Malformed)?;
    Ok(u16::from_be_bytes(*bytes))
}

/// The byte after the name at `at`, which is not followed.
fn skip_name(message: &[u8], mut at: usize) -> Result<usize, Malformed> {
    // Each turn goes forward: bounded by the message.
    loop {
        match *message.get(at).ok_or(Malformed)? {
            0 => return Ok(at + 1),
            length @ 1..=63 => at += usize::from(length) + 1,
            0xc0.. => return Ok(at + 2),
            _ => return Err(Malformed),
        }
    }
}

/// The name at `at`, whole, and the byte after it.
///
/// # Errors
/// It is none.
pub fn read_name(message: &[u8], mut at: usize) -> Result<(Vec<u8>, usize), Malformed> {
    let mut name = Vec::with_capacity(32);
    let mut end = None;
    let mut pointers = 0;
    loop {
        let length = *message.get(at).ok_or(Malformed)?;
        match length {
            0..=63 => {
                let label = message.get(at..=at + usize::from(length)).ok_or(Malformed)?;
                name.extend_from_slice(label);
                if name.len() > NAME_LENGTH_MAX {
                    return Err(Malformed);
                }
                at += usize::from(length) + 1;
                if length == 0 {
                    return Ok((name, end.unwrap_or(at)));
                }
            }
            0xc0.. => {
                pointers += 1;
                let target = usize::from(number(message, at)? & 0x3fff);
                if target >= at || pointers > POINTERS_MAX {
                    return Err(Malformed);
                }
                end.get_or_insert(at + 2);
                at = target;
            }
            _ => return Err(Malformed),
        }
    }
}

/// The byte after the questions.
///
/// # Errors
/// They are cut.
pub fn question_end(message: &[u8]) -> Result<usize, Malformed> {
    let mut at = HEADER_LENGTH;
    for _ in 0..number(message, 4)? {
        at = skip_name(message, at)? + 4;
    }
    if at > message.len() { Err(Malformed) } else { Ok(at) }
}

/// The records, in order.
///
/// # Errors
/// No header, or questions cut.
pub fn records(message: &[u8]) -> Result<impl Iterator<Item = Result<Place, Malformed>> + '_, Malformed> {
    let counts = [number(message, 6)?, number(message, 8)?, number(message, 10)?].map(usize::from);
    let sections = [Section::Answer, Section::Authority, Section::Additional].into_iter().zip(counts);
    let mut sections = sections.flat_map(|(section, count)| std::iter::repeat_n(section, count));
    let mut at = question_end(message)?;
    let next = move || -> Option<Result<Place, Malformed>> {
        let section = sections.next()?;
        let place = place(message, at, section);
        match place {
            Ok(place) => at = place.data_end,
            // Nothing can be read after it.
            Err(Malformed) => sections.by_ref().for_each(drop),
        }
        Some(place)
    };
    Ok(std::iter::from_fn(next))
}

fn place(message: &[u8], start: usize, section: Section) -> Result<Place, Malformed> {
    let head = skip_name(message, start)?;
    let data_start = head + 10;
    let data_end = data_start + usize::from(number(message, head + 8)?);
    if data_end > message.len() {
        return Err(Malformed);
    }
    Ok(Place { section, start, rtype: number(message, head)?, class: number(message, head + 2)?, data_start, data_end })
}

/// A record with nothing compressed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WholeRecord {
    /// Its name in wire format, as it came.
    pub owner: Vec<u8>,
    /// Its type.
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Its data in wire format.
    pub data: Vec<u8>,
}

/// The records of the answer section, whole.
///
/// # Errors
/// One is malformed, or of another class than IN.
pub fn answers(message: &[u8]) -> Result<Vec<WholeRecord>, Malformed> {
    let parsed = Message::from_octets(message).map_err(|_| Malformed)?;
    let mut whole = Vec::with_capacity(usize::from(parsed.header_counts().ancount()));
    for record in parsed.answer().map_err(|_| Malformed)? {
        let record = record.map_err(|_| Malformed)?;
        if record.class() != Class::IN {
            return Err(Malformed);
        }
        let record: Record<_, AllRecordData<_, _>> = record.to_any_record().map_err(|_| Malformed)?;
        let mut owner = Vec::with_capacity(32);
        domain::base::name::ToName::compose(record.owner(), &mut owner).map_err(|_| Malformed)?;
        let mut data = Vec::with_capacity(32);
        record.data().compose_rdata(&mut data).map_err(|_| Malformed)?;
        whole.push(WholeRecord { owner, rtype: record.rtype().to_int(), ttl: record.ttl().as_secs(), data });
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_and_made_whole() {
        let mut message = b"\0\x01\x84\0\0\x01\0\x02\0\0\0\0\x07example\0\0\xfc\0\x01".to_vec();
        message.extend_from_slice(b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x09\0\x0a\x04mail\xc0\x0c");
        message.extend_from_slice(b"\xc0\x27\xff\x01\0\x01\0\0\0\x3c\0\x02\xc0\x0c");
        let places: Vec<Place> = records(&message).unwrap().map(Result::unwrap).collect();
        assert_eq!((places.len(), places[0].rtype, places[1].data_end), (2, 15, message.len()));
        let whole = answers(&message).unwrap();
        assert_eq!(whole[0].data, b"\0\x0a\x04mail\x07example\0");
        assert_eq!(whole[1].owner, b"\x04mail\x07example\0");
        assert_eq!(whole[1].data, b"\xc0\x0c", "an unknown type's data is what it is");
        for length in 0..message.len() {
            let cut = &message[..length];
            assert!(answers(cut).is_err());
            assert!(records(cut).map_or(true, |mut records| records.any(|record| record.is_err())));
        }
    }

    #[test]
    fn names_that_lead_nowhere() {
        let mut message = vec![0; HEADER_LENGTH];
        message.extend_from_slice(&[0xc0, 12]);
        assert_eq!(read_name(&message, 12), Err(Malformed));
        message.extend_from_slice(&[0x80, 0]);
        assert_eq!(read_name(&message, 14), Err(Malformed));
        let long: Vec<u8> = std::iter::repeat_n([63u8; 64], 5).flatten().collect();
        assert_eq!(read_name(&long, 0), Err(Malformed));
    }
}
