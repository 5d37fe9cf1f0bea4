//! Multicast listener discovery for IPv6: version 2 (RFC 3810) and version 1 (RFC 2710), in ICMPv6 messages.
//!
//! Every message is preceded by [`ROUTER_ALERT`] and has hop limit 1.

use crate::icmpv6::Message;
use crate::{Error, checksum, field};
use std::net::Ipv6Addr;
use std::time::Duration;

/// Hop limit these messages are sent with and must arrive with.
pub const HOP_LIMIT: u8 = 1;
/// The hop-by-hop options header (RFC 8200) with a router alert (RFC 2711) that goes before each; next header: ICMPv6.
pub const ROUTER_ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];
/// Where version 2 reports go: all MLDv2-capable routers.
pub const REPORT_DESTINATION: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Where version 1's "done" goes: all routers.
pub const DONE_DESTINATION: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Bytes of a version 1 message.
pub const VERSION_1_LENGTH: usize = 24;
/// Bytes of a version 2 report without records.
pub const REPORT_HEADER_LENGTH: usize = 8;
/// Bytes of a record without sources.
pub const RECORD_LENGTH: usize = 20;

const QUERY: u8 = 130;
const REPORT_1: u8 = 131;
const DONE_1: u8 = 132;
const REPORT_2: u8 = 143;

/// What a router asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// 1 or 2: the version in which to answer.
    pub version: u8,
    /// Answers are to be spread over this time.
    pub response_max: Duration,
    /// The group asked about; `None`: all.
    pub group: Option<Ipv6Addr>,
}

impl Query {
    /// Reads a query; `None` if it is another kind of message.
    pub fn parse(message: &Message<'_>) -> Option<Result<Query, Error>> {
        (message.message_type() == QUERY).then(|| Query::parse_query(message))
    }

    fn parse_query(message: &Message<'_>) -> Result<Query, Error> {
        let (group, rest) = message.payload().split_first_chunk::<16>().ok_or(Error::Truncated)?;
        let group = Ipv6Addr::from(*group);
        if !group.is_unspecified() && !group.is_multicast() {
            return Err(Error::BadValue);
        }
        let [high, low, ..] = message.rest();
        let code = u16::from_be_bytes([high, low]);
        // RFC 3810 section 8.1: the length tells the version; between the two lengths it is neither.
        let version = match rest.len() {
            0 => 1,
            1..4 => return Err(Error::BadLength),
            _ => 2,
        };
        let response_max = Duration::from_millis(if version == 1 { code.into() } else { maximum_response(code) });
        Ok(Query { version, response_max, group: (!group.is_unspecified()).then_some(group) })
    }
}

/// RFC 3810 section 5.1.3, milliseconds.
fn maximum_response(code: u16) -> u64 {
    let code = u64::from(code);
    if code < 0x8000 { code } else { (code & 0x0fff | 0x1000) << ((code >> 12 & 7) + 3) }
}

/// What a record of a version 2 report says of its group (section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// In answer to a query: listening, to all sources.
    IsListening = 2,
    /// It no longer listens.
    Left = 3,
    /// From now on it listens, to all sources.
    Joined = 4,
}

/// A record without sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// What.
    pub kind: RecordKind,
    /// Of which group.
    pub group: Ipv6Addr,
}

/// Writes a version 2 report, checksum included; returns its length.
pub fn emit_report(bytes: &mut [u8], records: &[Record], pseudo_header_sum: u16) -> Result<usize, Error> {
    let length = REPORT_HEADER_LENGTH + records.len() * RECORD_LENGTH;
    let bytes = bytes.get_mut(..length).ok_or(Error::NoRoom)?;
    let count = u16::try_from(records.len()).map_err(|_| Error::TooMany)?;
    let (header, places) = bytes.split_first_chunk_mut::<REPORT_HEADER_LENGTH>().ok_or(Error::NoRoom)?;
    *header = [REPORT_2, 0, 0, 0, 0, 0, 0, 0];
    field::put_u16_at::<6, _>(header, count);
    for (place, record) in places.chunks_exact_mut(RECORD_LENGTH).zip(records) {
        let place: &mut [u8; RECORD_LENGTH] = place.first_chunk_mut().ok_or(Error::NoRoom)?;
        field::put_array_at::<0, 4, _>(place, [record.kind as u8, 0, 0, 0]);
        field::put_array_at::<4, 16, _>(place, record.group.octets());
    }
    put_checksum(bytes, pseudo_header_sum)?;
    Ok(length)
}

/// Writes a version 1 report (`listening`) or "done", checksum included; returns its length.
pub fn emit_version_1(
    bytes: &mut [u8],
    group: Ipv6Addr,
    listening: bool,
    pseudo_header_sum: u16,
) -> Result<usize, Error> {
    let message: &mut [u8; VERSION_1_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
    *message = [0; VERSION_1_LENGTH];
    field::put_u8_at::<0, _>(message, if listening { REPORT_1 } else { DONE_1 });
    field::put_array_at::<8, 16, _>(message, group.octets());
    put_checksum(message, pseudo_header_sum)?;
    Ok(VERSION_1_LENGTH)
}

fn put_checksum(bytes: &mut [u8], pseudo_header_sum: u16) -> Result<(), Error> {
    let sum = checksum::combine(pseudo_header_sum, checksum::sum(bytes));
    let header: &mut [u8; 8] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
    field::put_u16_at::<2, _>(header, checksum::finish(sum));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(code: u16, group: Ipv6Addr, rest: &[u8]) -> Result<Query, Error> {
        let mut bytes = vec![QUERY, 0, 0, 0];
        bytes.extend(code.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(group.octets());
        bytes.extend(rest);
        Query::parse(&Message::parse(&bytes).unwrap()).unwrap()
    }

    #[test]
    fn queries() {
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
        let all = Ipv6Addr::UNSPECIFIED;
        let milliseconds = Duration::from_millis;
        assert_eq!(query(10_000, all, &[]), Ok(Query { version: 1, response_max: milliseconds(10_000), group: None }));
        let specific = Query { version: 2, response_max: milliseconds(1_000), group: Some(group) };
        assert_eq!(query(1_000, group, &[0, 0, 0, 0]), Ok(specific));
        // The floating point of section 5.1.3.
        assert_eq!(query(0x8000, all, &[0; 4]).unwrap().response_max, milliseconds(32_768));
        assert_eq!(query(0xffff, all, &[0; 4]).unwrap().response_max, milliseconds(0x1fff << 10));
        assert_eq!(query(1, all, &[0; 3]), Err(Error::BadLength));
        assert_eq!(query(1, Ipv6Addr::LOCALHOST, &[]), Err(Error::BadValue));
    }

    #[test]
    fn reports() {
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
        let mut bytes = [0xee; 64];
        let records = [Record { kind: RecordKind::Joined, group }, Record { kind: RecordKind::Left, group }];
        assert_eq!(emit_report(&mut bytes, &records, 0), Ok(48));
        assert_eq!((bytes[0], bytes[7], bytes[8], bytes[28], &bytes[12..28]), (143, 2, 4, 3, &group.octets()[..]));
        assert!(Message::parse(&bytes[..48]).unwrap().checksum_is_valid(0));
        assert_eq!(emit_version_1(&mut bytes, group, true, 0), Ok(24));
        assert_eq!((bytes[0], &bytes[8..24]), (131, &group.octets()[..]));
        assert!(Message::parse(&bytes[..24]).unwrap().checksum_is_valid(0));
        assert_eq!(emit_report(&mut bytes[..20], &records, 0), Err(Error::NoRoom));
    }
}
