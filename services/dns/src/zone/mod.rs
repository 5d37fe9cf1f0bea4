//! A zone: its record sets, sorted, from a master file or from records that came otherwise.
//!
//! ```text
//!   master file ─ lexer ─ entries ─ parse ($ORIGIN, $TTL, $INCLUDE, $GENERATE; data by `domain`) ─┐
//!   records of a transfer ────────────────────────────────────────────────────── ZoneBuilder::add ┴─ finish ─▶ Zone
//! ```

mod ambiguity;
mod builder;
pub mod check;
mod fields;
mod generate;
mod lexer;
mod location;
pub mod members;
mod mnemonics;
pub mod parse;
mod scanner;

pub use builder::ZoneBuilder;
pub use mnemonics::Words;

use crate::name::Name;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Types of records that mean something to a server; all others are data.
pub mod rtype {
    #![expect(missing_docs, reason = "they are named as IANA names them")]
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
}

/// The mnemonic of a type, or `TYPE…` (RFC 3597).
pub fn type_name(rtype: u16) -> String {
    domain::base::iana::Rtype::from_int(rtype).to_string()
}

/// A place in a master file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which file; `None`: it came otherwise.
    pub file: Option<Arc<PathBuf>>,
    /// Counted from 1; 0: the file as a whole.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), 0) => write!(f, "{}", file.display()),
            (Some(file), line) => write!(f, "{}:{line}", file.display()),
            (None, _) => f.write_str("(received)"),
        }
    }
}

/// Something wrong with a zone: where, what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, and what to do about it.
    pub message: String,
    /// The zone is served all the same.
    pub is_warning: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_warning { "warning" } else { "error" };
        write!(f, "{}: {kind}: {}", self.place, self.message)
    }
}

/// Why there is no zone: at least one error, and the warnings met on the way.
#[derive(Clone, Debug)]
pub struct ZoneError(pub Vec<Problem>);

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut errors = self.0.iter().filter(|problem| !problem.is_warning);
        match errors.next() {
            Some(first) => write!(f, "{first}")?,
            None => f.write_str("the zone is unusable")?,
        }
        match errors.count() {
            0 => Ok(()),
            more => write!(f, " (and {more} more: `qanat dns check` lists them)"),
        }
    }
}

impl std::error::Error for ZoneError {}

/// A record's parts within a zone.
#[derive(Clone, Copy, Debug)]
struct Record {
    owner: u32,
    data: u32,
    line: u32,
    ttl: u32,
    rtype: u16,
    data_length: u16,
    file: u16,
    owner_length: u8,
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordView<'a> {
    /// Its name in wire format, small letters.
    pub owner: &'a [u8],
    /// Its type.
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Its data in wire format, names in it whole.
    pub data: &'a [u8],
}

/// Records of one name and type.
#[derive(Clone, Copy)]
pub struct SetView<'a> {
    zone: &'a Zone,
    /// Where they are in the zone.
    first: usize,
    records: &'a [Record],
}

impl<'a> SetView<'a> {
    /// Their name in wire format, small letters.
    pub fn owner(&self) -> &'a [u8] {
        self.records.first().map_or(&[], |record| self.zone.view(record).owner)
    }

    /// Their type.
    pub fn rtype(&self) -> u16 {
        self.records.first().map_or(0, |record| record.rtype)
    }

    /// Their TTL in seconds: one for all (RFC 2181 section 5.2).
    pub fn ttl(&self) -> u32 {
        self.records.first().map_or(0, |record| record.ttl)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The data of each, in canonical order.
    pub fn data(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let zone = self.zone;
        self.records.iter().map(move |record| zone.view(record).data)
    }

    /// Each of them.
    pub fn records(&self) -> impl Iterator<Item = RecordView<'a>> + use<'a> {
        let zone = self.zone;
        self.records.iter().map(move |record| zone.view(record))
    }

    /// Where its first record was written.
    pub fn place(&self) -> Place {
        self.zone.place(self.first)
    }
}

/// A zone's records in canonical order (names as RFC 4034 section 6.1, then types, then data), each once.
#[derive(Debug)]
pub struct Zone {
    apex: Name,
    serial: u32,
    bytes: Vec<u8>,
    records: Vec<Record>,
    files: Vec<Arc<PathBuf>>,
    /// Of owners not written in small letters: where the owner is, and where it is as it was written.
    spellings: Vec<(u32, u32)>,
}

impl Zone {
    /// Its name, small letters.
    pub fn apex(&self) -> &Name {
        &self.apex
    }

    /// The serial number of its SOA record.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// How many records.
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    /// Memory it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<Record>()
    }

    /// Every record in order. The SOA record is where its name and type put it: among the apex's.
    pub fn records(&self) -> impl Iterator<Item = RecordView<'_>> {
        self.records.iter().map(|record| self.view(record))
    }

    /// The record of number `index` in that order.
    pub fn record(&self, index: usize) -> Option<RecordView<'_>> {
        self.records.get(index).map(|record| self.view(record))
    }

    /// Every record set in order.
    pub fn sets(&self) -> impl Iterator<Item = SetView<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = self.records.get(at..)?;
            let first = self.view(rest.first()?);
            let same = |record: &&Record| record.rtype == first.rtype && self.view(record).owner == first.owner;
            let count = rest.iter().take_while(same).count();
            let set = SetView { zone: self, first: at, records: rest.get(..count)? };
            at += count;
            Some(set)
        })
    }

    /// Whether `owner` (wire format) has records of this type.
    pub fn has(&self, owner: &[u8], rtype: u16) -> bool {
        self.set(owner, rtype).is_some()
    }

    /// The records of one name (wire format) and type.
    pub fn set(&self, owner: &[u8], rtype: u16) -> Option<SetView<'_>> {
        let order = |record: &Record| {
            crate::name::canonical_order(self.view(record).owner, owner).then(record.rtype.cmp(&rtype))
        };
        let first = self.records.partition_point(|record| order(record).is_lt());
        let rest = self.records.get(first..)?;
        let count = rest.iter().take_while(|record| order(record).is_eq()).count();
        let records = rest.get(..count).filter(|records| !records.is_empty())?;
        Some(SetView { zone: self, first, records })
    }

    /// The SOA record.
    pub fn soa(&self) -> Option<RecordView<'_>> {
        self.record(self.soa_index()?)
    }

    /// The number of the SOA record in order.
    pub fn soa_index(&self) -> Option<usize> {
        self.records()
            .take_while(|record| record.owner == self.apex.wire())
            .position(|record| record.rtype == rtype::SOA)
    }

    /// The record of number `index`, its owner as it was written.
    pub fn spelled_record(&self, index: usize) -> Option<RecordView<'_>> {
        self.record(index).map(|record| RecordView { owner: self.spelling(index), ..record })
    }

    /// The owner of the record of number `index` as it was written (RFC 5936 section 3.3 wants it kept in transfers).
    pub fn spelling(&self, index: usize) -> &[u8] {
        let Some(record) = self.records.get(index) else { return &[] };
        let other = self.spellings.binary_search_by_key(&record.owner, |(owner, _)| *owner).ok();
        let start = other.and_then(|at| self.spellings.get(at)).map_or(record.owner, |(_, spelling)| *spelling);
        self.bytes.get(start as usize..start as usize + usize::from(record.owner_length)).unwrap_or_default()
    }

    fn view(&self, record: &Record) -> RecordView<'_> {
        let part = |start: u32, length: usize| self.bytes.get(start as usize..start as usize + length);
        RecordView {
            owner: part(record.owner, record.owner_length.into()).unwrap_or_default(),
            rtype: record.rtype,
            ttl: record.ttl,
            data: part(record.data, record.data_length.into()).unwrap_or_default(),
        }
    }

    fn place(&self, index: usize) -> Place {
        match self.records.get(index) {
            Some(record) => Place { file: self.files.get(usize::from(record.file)).cloned(), line: record.line },
            None => Place { file: None, line: 0 },
        }
    }
}
