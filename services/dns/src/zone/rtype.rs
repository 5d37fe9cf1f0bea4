//! Types of records that mean something to a server. All others are data.
#![expect(missing_docs, reason = "the constants are named as IANA names them")]

use domain::base::iana::Rtype;

pub const A: u16 = 1;
pub const NS: u16 = 2;
pub const CNAME: u16 = 5;
pub const SOA: u16 = 6;
pub const PTR: u16 = 12;
pub const MX: u16 = 15;
pub const TXT: u16 = 16;
pub const AAAA: u16 = 28;
pub const DNAME: u16 = 39;
pub const OPT: u16 = 41;
pub const DS: u16 = 43;
pub const RRSIG: u16 = 46;
pub const NSEC: u16 = 47;
pub const DNSKEY: u16 = 48;
pub const NSEC3: u16 = 50;
pub const NSEC3PARAM: u16 = 51;
pub const TSIG: u16 = 250;
pub const IXFR: u16 = 251;
pub const AXFR: u16 = 252;
pub const ANY: u16 = 255;

/// The mnemonic of a type, or `TYPE…` (RFC 3597).
pub fn type_name(rtype: u16) -> String {
    Rtype::from_int(rtype).to_string()
}

/// The number of a type's name.
pub(super) fn type_of(word: &str) -> Option<u16> {
    Some(match word {
        "A" => A,
        "AAAA" => AAAA,
        "NS" => NS,
        "RRSIG" => RRSIG,
        "NSEC3" => NSEC3,
        word if word.eq_ignore_ascii_case("NSAP-PTR") => 23,
        word => Rtype::from_bytes(word.as_bytes())?.to_int(),
    })
}
