//! A zone's records, sorted, and views of them.

use super::problem::Place;
use super::rtype;
use crate::name::Name;
use std::path::PathBuf;
use std::sync::Arc;

/// A record's parts within a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) owner: u32,
    pub(super) data: u32,
    pub(super) line: u32,
    pub(super) ttl: u32,
    pub(super) rtype: u16,
    pub(super) data_length: u16,
    pub(super) file: u16,
    pub(super) owner_length: u8,
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
    pub(super) apex: Name,
    pub(super) serial: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) records: Vec<Record>,
    pub(super) files: Vec<Arc<PathBuf>>,
    /// Of owners not written in small letters: where the owner is, and where it is as it was written.
    pub(super) spellings: Vec<(u32, u32)>,
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

    pub(super) fn view(&self, record: &Record) -> RecordView<'_> {
        let part = |start: u32, length: usize| self.bytes.get(start as usize..start as usize + length);
        RecordView {
            owner: part(record.owner, record.owner_length.into()).unwrap_or_default(),
            rtype: record.rtype,
            ttl: record.ttl,
            data: part(record.data, record.data_length.into()).unwrap_or_default(),
        }
    }

    pub(super) fn place(&self, index: usize) -> Place {
        match self.records.get(index) {
            Some(record) => Place { file: self.files.get(usize::from(record.file)).cloned(), line: record.line },
            None => Place { file: None, line: 0 },
        }
    }
}
