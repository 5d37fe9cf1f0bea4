//! Where the names are in the data of a type: to check data that is not ours, and to compress what may be (RFC 3597
//! section 4: only names in types of RFC 1035).

use crate::name;
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
    /// Bytes up to the end, written in hexadecimal digits.
    Hex,
    /// Anything up to the end.
    Rest,
}

use Field::{Bytes, Hex, LongText, Name, Rest, Text, Time, U8, U16, U32};

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
        rtype::RRSIG => &[Bytes(18), Name, Rest],
        rtype::NSEC => &[Name, Rest],
        rtype::DNSKEY | 60 => &[Bytes(4), Rest],
        rtype::NSEC3 => &[Bytes(4), Text, Text, Rest],
        rtype::NSEC3PARAM => &[Bytes(4), Text],
        // SVCB, HTTPS
        64 | 65 => &[U16, Name, Rest],
        _ => &[Rest],
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
        U8 => 1,
        U16 => 2,
        U32 | Time => 4,
        Bytes(count) => count,
        Name => name::wire_length(data)?,
        Text => usize::from(*data.first()?) + 1,
        LongText | Hex | Rest => data.len(),
    };
    (length <= data.len()).then_some(length)
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
