//! Records gathered in any order, sorted into a [`Zone`].

use super::error::RecordError;
use super::problem::{PROBLEMS_MAX, Place, Problem, ZoneError};
use super::records::{Record, Zone};
use super::{ambiguity, rtype};
use crate::name::{self, Name, Presentation};
use std::path::PathBuf;
use std::sync::Arc;

/// A zone under construction.
pub struct ZoneBuilder {
    apex: Name,
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// Canonical keys of owners, each record's in `keys`.
    key_bytes: Vec<u8>,
    keys: Vec<(u32, u16)>,
    files: Vec<Arc<PathBuf>>,
    problems: Vec<Problem>,
    errors: usize,
    /// Owners not written in small letters: the place of the owner, and that of how it was written, in order of the first.
    spellings: Vec<(u32, u32)>,
    /// Whether it is a copy of a primary's zone: see [`ZoneBuilder::copy`].
    is_copy: bool,
}

impl ZoneBuilder {
    /// An empty zone called `apex`.
    pub fn new(apex: &Name) -> ZoneBuilder {
        ZoneBuilder {
            apex: apex.to_lowercase(),
            bytes: Vec::new(),
            records: Vec::new(),
            key_bytes: Vec::new(),
            keys: Vec::new(),
            files: Vec::new(),
            problems: Vec::new(),
            errors: 0,
            spellings: Vec::new(),
            is_copy: false,
        }
    }

    /// An empty zone that is filled with what a primary sent. The primary decides whether its zone is fit to be served: what
    /// makes it ambiguous is no error here, or all its secondaries would be without it.
    pub fn copy(apex: &Name) -> ZoneBuilder {
        ZoneBuilder { is_copy: true, ..ZoneBuilder::new(apex) }
    }

    /// The zone's name, small letters.
    pub fn apex(&self) -> &Name {
        &self.apex
    }

    /// Records so far.
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    pub(super) fn add_file(&mut self, file: &Arc<PathBuf>) -> u16 {
        self.files.push(Arc::clone(file));
        (self.files.len() - 1).min(usize::from(u16::MAX)) as u16
    }

    pub(super) fn problem(&mut self, place: Place, message: String, is_warning: bool) {
        self.errors += usize::from(!is_warning);
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { place, message, is_warning });
        }
    }

    pub(super) fn error_count(&self) -> usize {
        self.errors
    }

    /// Adds a record that came from elsewhere than a file. `owner` and names in `data` in wire format, uncompressed.
    ///
    /// # Errors
    /// The owner is outside of the zone or malformed, or the zone has become too large (4 GiB).
    pub fn add(&mut self, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) -> Result<(), RecordError> {
        if name::wire_length(owner) != Some(owner.len()) {
            return Err(RecordError::MalformedOwner);
        }
        if !name::is_within(owner, self.apex.wire()) {
            let (owner, apex) = (Presentation(owner).to_string(), self.apex.to_string());
            return Err(RecordError::Outside { owner, apex });
        }
        self.add_at(owner, rtype, ttl, data, (u16::MAX, 0))
    }

    /// Adds a record whose owner is known to be well-formed and inside. The last argument is the place: file and line.
    pub(super) fn add_at(
        &mut self,
        owner: &[u8],
        rtype: u16,
        ttl: u32,
        data: &[u8],
        (file, line): (u16, u32),
    ) -> Result<(), RecordError> {
        let too_large = || RecordError::ZoneTooLarge;
        let data_length = u16::try_from(data.len()).map_err(|_| RecordError::DataTooLong)?;
        // Records of one name mostly follow each other.
        let last = self.records.last().zip(self.keys.last()).filter(|(record, _)| {
            let start = record.owner as usize;
            self.bytes
                .get(start..start + usize::from(record.owner_length))
                .is_some_and(|last| last.eq_ignore_ascii_case(owner))
        });
        let (owner_at, key) = match last {
            Some((record, key)) => (record.owner, *key),
            None => {
                let owner_at = u32::try_from(self.bytes.len()).map_err(|_| too_large())?;
                self.bytes.extend(owner.iter().map(u8::to_ascii_lowercase));
                if owner.iter().any(u8::is_ascii_uppercase) {
                    let spelling = u32::try_from(self.bytes.len()).map_err(|_| too_large())?;
                    self.bytes.extend_from_slice(owner);
                    self.spellings.push((owner_at, spelling));
                }
                let key_at = self.key_bytes.len();
                name::canonical_key(owner, &mut self.key_bytes);
                let length = (self.key_bytes.len() - key_at) as u16;
                (owner_at, (u32::try_from(key_at).map_err(|_| too_large())?, length))
            }
        };
        let data_at = u32::try_from(self.bytes.len()).map_err(|_| too_large())?;
        u32::try_from(self.bytes.len() + data.len()).map_err(|_| too_large())?;
        self.bytes.extend_from_slice(data);
        self.keys.push(key);
        let owner_length = owner.len() as u8;
        self.records.push(Record { owner: owner_at, data: data_at, line, ttl, rtype, data_length, file, owner_length });
        Ok(())
    }

    /// Where the record of this number, counted from 0 as they were added, was written.
    pub(super) fn place_of(&self, index: u32) -> Place {
        self.records.get(index as usize).map_or(Place { file: None, line: 0 }, |record| self.place(record))
    }

    /// Gives the record of this number another TTL.
    pub(super) fn set_ttl(&mut self, index: u32, ttl: u32) {
        if let Some(record) = self.records.get_mut(index as usize) {
            record.ttl = ttl;
        }
    }

    fn place(&self, record: &Record) -> Place {
        Place { file: self.files.get(usize::from(record.file)).cloned(), line: record.line }
    }

    /// Sorts it all. Gives the zone, and what is odd about it but no reason not to serve it.
    ///
    /// # Errors
    /// Every problem, at least one of them an error: among others no SOA record at the apex, or several.
    pub fn finish(mut self) -> Result<(Zone, Vec<Problem>), ZoneError> {
        let records = std::mem::take(&mut self.records);
        let data = |record: &Record| {
            self.bytes.get(record.data as usize..record.data as usize + usize::from(record.data_length))
        };
        // A prefix of the key decides most comparisons without going to memory.
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(records.len());
        let key = |index: u32| {
            let (start, length) = self.keys.get(index as usize).copied().unwrap_or_default();
            self.key_bytes.get(start as usize..start as usize + usize::from(length)).unwrap_or_default()
        };
        let mut apex_key = Vec::new();
        name::canonical_key(self.apex.wire(), &mut apex_key);
        for index in 0..records.len() as u32 {
            let mut prefix = [0; 8];
            let below = key(index).get(apex_key.len()..).unwrap_or_default();
            prefix.iter_mut().zip(below).for_each(|(to, from)| *to = *from);
            order.push((u64::from_be_bytes(prefix), index));
        }
        order.sort_unstable_by(|(left_prefix, left), (right_prefix, right)| {
            left_prefix.cmp(right_prefix).then_with(|| key(*left).cmp(key(*right))).then_with(|| {
                match (records.get(*left as usize), records.get(*right as usize)) {
                    (Some(one), Some(other)) => one
                        .rtype
                        .cmp(&other.rtype)
                        .then_with(|| data(one).cmp(&data(other)))
                        .then_with(|| one.line.cmp(&other.line)),
                    _ => std::cmp::Ordering::Equal,
                }
            })
        });
        let mut sorted: Vec<Record> = Vec::with_capacity(records.len());
        let mut remarks: Vec<(Record, String)> = Vec::new();
        let mut last: Option<u32> = None;
        for (_, index) in order {
            let Some(mut record) = records.get(index as usize).copied() else { continue };
            if let (Some(before), Some(last_index)) = (sorted.last(), last)
                && before.rtype == record.rtype
                && key(last_index) == key(index)
            {
                if data(before) == data(&record) {
                    remarks.push((record, "the same record again: take one out".to_owned()));
                    continue;
                }
                if before.ttl != record.ttl && record.rtype != rtype::RRSIG {
                    let text = format!(
                        "TTL {} where the same set has {}: write one (RFC 2181 section 5.2); the first in canonical \
                         order holds",
                        record.ttl, before.ttl
                    );
                    remarks.push((record, text));
                    record.ttl = before.ttl;
                }
            }
            sorted.push(record);
            last = Some(index);
        }
        for (record, text) in remarks.into_iter().take(PROBLEMS_MAX) {
            let place = self.place(&record);
            self.problem(place, text, true);
        }
        self.complete(sorted)
    }

    fn complete(mut self, records: Vec<Record>) -> Result<(Zone, Vec<Problem>), ZoneError> {
        let mut zone = Zone {
            apex: self.apex.clone(),
            serial: 0,
            bytes: std::mem::take(&mut self.bytes),
            records,
            files: self.files.clone(),
            spellings: std::mem::take(&mut self.spellings),
        };
        for (place, message) in ambiguity::find(&zone) {
            self.problem(place, message, self.is_copy);
        }
        let mut serial = 0;
        let apex_soa =
            zone.sets().take_while(|set| set.owner() == zone.apex.wire()).find(|set| set.rtype() == rtype::SOA);
        let whole = Place { file: self.files.first().cloned(), line: 0 };
        match apex_soa {
            // A file that could not be read has none, and that has been told.
            None if self.files.is_empty() && self.problems.iter().any(|problem| !problem.is_warning) => {}
            None => {
                let text = format!("no SOA record at {}: write one, or name the zone as the file does", zone.apex);
                self.problem(whole, text, false);
            }
            Some(set) if set.len() > 1 => {
                self.problem(set.place(), format!("{} SOA records: keep one", set.len()), false);
            }
            Some(set) => match set.data().next().and_then(soa_serial) {
                Some(found) => serial = found,
                None => self.problem(set.place(), "a malformed SOA record".to_owned(), false),
            },
        }
        zone.serial = serial;
        if self.errors > 0 { Err(ZoneError(self.problems)) } else { Ok((zone, self.problems)) }
    }
}

/// The serial number in a SOA record's data.
fn soa_serial(data: &[u8]) -> Option<u32> {
    let primary = name::wire_length(data)?;
    let mailbox = name::wire_length(data.get(primary..)?)?;
    let numbers = data.get(primary + mailbox..)?;
    (numbers.len() == 20).then_some(())?;
    Some(u32::from_be_bytes(*numbers.first_chunk()?))
}
