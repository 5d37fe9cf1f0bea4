//! Where the names are in the data of a type: to check data that is not ours, and to compress what may be (RFC 3597
//! section 4: only names in types of RFC 1035).

use crate::name;
use crate::zone::Words;
use crate::zone::rtype;

/// A part of a record's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// A byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Four bytes, written as seconds or as `1h30m`.
    Time,
    /// So many bytes.
    Bytes(usize),
    /// A name.
    Name,
    /// Text of at most 255 bytes after its length.
    Text,
    /// Text up to the end.
    LongText,
    /// One text or more, up to the end.
    Texts,
    /// Bytes up to the end, written in hexadecimal digits.
    Hex,
    /// Bytes up to the end, written in base 64: at least one.
    Base64,
    /// Bytes up to the end, written in base 64, or none.
    Base64OrNothing,
    /// So many bytes, written as pairs of hexadecimal digits with dashes between.
    Dashed(usize),
    /// Eight bytes, written as four groups of hexadecimal digits with colons between.
    Groups,
    /// An IPv4 address.
    Address,
    /// A byte that words stand for.
    ByteOf(Words),
    /// Two bytes that words stand for.
    PairOf(Words),
    /// Flags of a key, two bytes.
    KeyFlags,
    /// A type, two bytes.
    Type,
    /// A date, four bytes: seconds since 1970, or written as 20300101000000.
    Date,
    /// Bytes after their length, in hexadecimal digits; `-`: none (RFC 5155 section 3.3).
    Salt,
    /// Bytes after their length, in base 32 (RFC 5155 section 3.3).
    HashedOwner,
    /// An NSAP address up to the end: hexadecimal digits with dots between (RFC 1706).
    NetworkAddress,
    /// A set of types (RFC 4034 section 4.1.2), up to the end.
    Types,
    /// Address prefixes (RFC 3123 section 4), up to the end.
    Prefixes,
    /// Anything up to the end.
    Rest,
}

use Field::{
    Address, Base64, Base64OrNothing, ByteOf, Bytes, Dashed, Date, Groups, HashedOwner, Hex, KeyFlags, LongText, Name,
    NetworkAddress, PairOf, Prefixes, Rest, Salt, Text, Texts, Time, Type, Types, U8, U16, U32,
};

/// The parts of the data of a type; `[Rest]` if nothing is known about it.
pub fn fields(rtype: u16) -> &'static [Field] {
    match rtype {
        rtype::A => &[Bytes(4)],
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME, NSAP-PTR
        2..=5 | 7..=9 | 12 | 23 | 39 => &[Name],
        rtype::SOA => &[Name, Name, Bytes(20)],
        13 => &[Text, Text],
        // MINFO, RP
        14 | 17 => &[Name, Name],
        // MX, AFSDB, RT, KX, LP
        15 | 18 | 21 | 36 | 107 => &[U16, Name],
        26 => &[U16, Name, Name],
        rtype::AAAA => &[Bytes(16)],
        33 => &[Bytes(6), Name],
        35 => &[Bytes(4), Text, Text, Text, Name],
        rtype::DS | 59 => &[Bytes(4), Rest],
        // SIG
        rtype::RRSIG | 24 => &[Bytes(18), Name, Rest],
        // NXT
        rtype::NSEC | 30 => &[Name, Rest],
        rtype::DNSKEY | 60 => &[Bytes(4), Rest],
        rtype::NSEC3 => &[Bytes(4), Text, Text, Rest],
        rtype::NSEC3PARAM => &[Bytes(4), Text],
        // SVCB, HTTPS
        64 | 65 => &[U16, Name, Rest],
        _ => presented_fields(rtype).unwrap_or(&[Rest]),
    }
}

/// The parts of types that `domain` does not read from master files.
pub(crate) fn presented_fields(rtype: u16) -> Option<&'static [Field]> {
    Some(match rtype {
        // Its times may have units.
        rtype::SOA => &[Name, Name, U32, Time, Time, Time, Time],
        // AFSDB, RT, KX, LP
        18 | 21 | 36 | 107 => &[U16, Name],
        26 => &[U16, Name, Name],
        // X25, PSDN
        19 => &[Text],
        23 => &[Name],
        // ISDN, NINFO, SPF, AVC, RESINFO, WALLET
        20 | 56 | 99 | 258 | 261 | 262 => &[Texts],
        // SIG, as RRSIG
        rtype::RRSIG | 24 => &[Type, ByteOf(Words::Algorithm), U8, Time, Date, Date, U16, Name, Base64],
        // CDNSKEY
        rtype::DNSKEY | 60 => &[KeyFlags, ByteOf(Words::KeyProtocol), ByteOf(Words::Algorithm), Base64],
        // KEY and RKEY, whose flags may say that there is none
        25 | 57 => &[KeyFlags, ByteOf(Words::KeyProtocol), ByteOf(Words::Algorithm), Base64OrNothing],
        rtype::NSEC3 => &[ByteOf(Words::Hash), U8, U16, Salt, HashedOwner, Types],
        rtype::NSEC3PARAM => &[ByteOf(Words::Hash), U8, U16, Salt],
        22 => &[NetworkAddress],
        // GPOS
        27 => &[Text, Text, Text],
        // EID, NIMLOC
        31 | 32 => &[Hex],
        // SINK
        40 => &[U8, U8, U8, Base64OrNothing],
        // DSYNC
        66 => &[Type, ByteOf(Words::Scheme), U16, Name],
        37 => &[PairOf(Words::Certificate), U16, ByteOf(Words::Algorithm), Base64],
        42 => &[Prefixes],
        49 => &[Base64],
        // TALINK
        58 => &[Name, Name],
        // CSYNC
        62 => &[U32, U16, Types],
        // NID, L64; L32
        104 | 106 => &[U16, Groups],
        105 => &[U16, Address],
        // EUI48, EUI64
        108 => &[Dashed(6)],
        109 => &[Dashed(8)],
        // CDS, TA, DLV
        rtype::DS | 59 | 32_768 | 32_769 => &[U16, ByteOf(Words::Algorithm), ByteOf(Words::Digest), Hex],
        // SMIMEA, as TLSA
        53 => &[U8, U8, U8, Hex],
        // URI
        256 => &[U16, U16, LongText],
        _ => return None,
    })
}

/// Whether names in the data of a type may be compressed in messages, and may come compressed.
pub fn is_compressible(rtype: u16) -> bool {
    matches!(rtype, 2..=9 | 12 | 14 | 15)
}

/// Whether answers of a type have the addresses of the names in it: NS, MX and SRV.
pub fn has_addressed_names(rtype: u16) -> bool {
    matches!(rtype, 2 | 15 | 33)
}

/// Whether `data` has the parts its type has.
pub fn is_well_formed(rtype: u16, data: &[u8]) -> bool {
    let mut at = 0;
    for field in fields(rtype) {
        match length(*field, data.get(at..).unwrap_or_default()) {
            Some(length) => at += length,
            None => return false,
        }
    }
    at == data.len()
}

/// Length of a part at the start of `data`; `None`: it does not fit.
pub fn length(field: Field, data: &[u8]) -> Option<usize> {
    let length = match field {
        U8 | ByteOf(_) => 1,
        U16 | PairOf(_) | KeyFlags | Type => 2,
        U32 | Time | Date | Address => 4,
        Groups => 8,
        Bytes(count) | Dashed(count) => count,
        Name => name::wire_length(data)?,
        Text | Salt | HashedOwner => usize::from(*data.first()?) + 1,
        Texts => texts_length(data)?,
        LongText | Hex | Base64 | Base64OrNothing | NetworkAddress | Types | Prefixes | Rest => data.len(),
    };
    (length <= data.len()).then_some(length)
}

/// Length of all texts in `data`, of which there is one or more.
fn texts_length(data: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < data.len() || at == 0 {
        at += usize::from(*data.get(at)?) + 1;
    }
    Some(at)
}

/// The first name in the data of a type of which `fields` has one: an NS record's server, a CNAME record's target.
pub fn first_name(rtype: u16, data: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    for field in fields(rtype) {
        let rest = data.get(at..)?;
        let length = length(*field, rest)?;
        if *field == Name {
            return rest.get(..length);
        }
        at += length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        assert!(is_well_formed(rtype::A, &[1, 2, 3, 4]));
        assert!(!is_well_formed(rtype::A, &[1, 2, 3]));
        assert!(!is_well_formed(rtype::A, &[1, 2, 3, 4, 5]));
        assert!(is_well_formed(rtype::MX, b"\0\x0a\x01a\0"));
        assert!(!is_well_formed(rtype::MX, b"\0\x0a\x01a\0\0"));
        assert!(!is_well_formed(rtype::NS, b"\xc0\x0c"));
        assert!(is_well_formed(65_280, b"anything"));
        assert_eq!(first_name(rtype::MX, b"\0\x0a\x01a\0"), Some(&b"\x01a\0"[..]));
        assert_eq!(first_name(rtype::A, b"abcd"), None);
    }
}
