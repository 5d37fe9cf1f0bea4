//! AXFR and IXFR from a primary: what came, record by record, and the zone made of it.

use super::difference::is_newer;
use super::walk::WholeRecord;
use crate::name::Name;
use crate::zone::{RecordError, Zone, ZoneBuilder, ZoneError, rtype};
use std::collections::{BTreeMap, BTreeSet};

/// Most a transfer may bring, bytes: a primary gone mad must not fill the memory.
const BYTES_MAX: usize = 4 << 30;
/// What a record takes beside its bytes.
const RECORD_OVERHEAD: usize = 64;

/// Why a transfer is of no use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IncomingError {
    /// The stream is not one of records between SOA records.
    #[error("not a transfer: {0}")]
    Protocol(&'static str),
    /// More than 4 GiB.
    #[error("more than 4 GiB")]
    TooLarge,
    /// Differences that do not fit the zone there is: the whole zone must be asked for.
    #[error("differences that do not fit the zone there is")]
    DoesNotFit,
    /// A record cannot be part of the zone.
    #[error("{0}")]
    Record(RecordError),
    /// The zone cannot be served.
    #[error("{0}")]
    Zone(ZoneError),
}

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More is to come.
    More,
    /// That was all.
    Done,
}

/// One step of differences.
#[derive(Debug, Default)]
struct Step {
    removed: Vec<WholeRecord>,
    added: Vec<WholeRecord>,
}

#[derive(Debug)]
enum State {
    /// The first SOA record is to come.
    Start,
    /// What comes next decides whether it is the zone or differences.
    Second,
    /// The zone.
    Whole(Vec<WholeRecord>),
    /// Differences; whether records are added now.
    Steps(Vec<Step>, bool),
    /// Nothing newer there.
    Current,
}

/// A transfer on its way in.
#[derive(Debug)]
pub struct Incoming {
    apex: Name,
    /// The serial number had; `None`: AXFR was asked for.
    had: Option<u32>,
    soa: Option<WholeRecord>,
    state: State,
    bytes: usize,
    is_done: bool,
}

fn serial(soa: &WholeRecord) -> Option<u32> {
    let at = soa.data.len().checked_sub(20)?;
    soa.data.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

impl Incoming {
    /// A transfer of the zone called `apex`. `had` is the serial number of our version, if differences were asked for.
    pub fn new(apex: &Name, had: Option<u32>) -> Incoming {
        Incoming { apex: apex.to_lowercase(), had, soa: None, state: State::Start, bytes: 0, is_done: false }
    }

    /// Takes the records of a message.
    ///
    /// # Errors
    /// [`IncomingError`].
    pub fn take(&mut self, records: Vec<WholeRecord>) -> Result<Progress, IncomingError> {
        for record in records {
            if self.is_done {
                return Err(IncomingError::Protocol("records after the last SOA record"));
            }
            self.bytes += record.owner.len() + record.data.len() + RECORD_OVERHEAD;
            if self.bytes > BYTES_MAX {
                return Err(IncomingError::TooLarge);
            }
            self.record(record)?;
        }
        // One SOA record that is not newer, alone in its message: there is nothing to transfer (RFC 1995, section 4).
        if let (State::Second, Some(had), Some(newest)) = (&self.state, self.had, self.soa.as_ref().and_then(serial))
            && !is_newer(newest, had)
        {
            self.state = State::Current;
            self.is_done = true;
        }
        Ok(if self.is_done { Progress::Done } else { Progress::More })
    }

    fn record(&mut self, record: WholeRecord) -> Result<(), IncomingError> {
        let is_soa = record.rtype == rtype::SOA;
        match &mut self.state {
            State::Start => {
                if !is_soa || !record.owner.eq_ignore_ascii_case(self.apex.wire()) {
                    return Err(IncomingError::Protocol("it does not begin with the zone's SOA record"));
                }
                self.soa = Some(record);
                self.state = State::Second;
            }
            State::Second if is_soa && self.had.is_some() => {
                if serial(&record) != self.had {
                    return Err(IncomingError::Protocol("differences from a version that was not asked for"));
                }
                self.state = State::Steps(vec![Step::default()], false);
            }
            // A zone of nothing but its SOA record.
            State::Second if is_soa => {
                self.state = State::Whole(Vec::new());
                self.is_done = true;
            }
            State::Second => self.state = State::Whole(vec![record]),
            State::Whole(_) if is_soa => self.is_done = true,
            State::Whole(records) => records.push(record),
            State::Steps(steps, adding) => match (is_soa, *adding) {
                (true, false) => *adding = true,
                (true, true) if self.soa.as_ref().and_then(serial) == serial(&record) => self.is_done = true,
                (true, true) => {
                    steps.push(Step::default());
                    *adding = false;
                }
                (false, adding) => {
                    let Some(step) = steps.last_mut() else { return Ok(()) };
                    if adding { step.added.push(record) } else { step.removed.push(record) }
                }
            },
            State::Current => return Err(IncomingError::Protocol("records after the last SOA record")),
        }
        Ok(())
    }

    /// Whether it brings differences.
    pub fn has_steps(&self) -> bool {
        matches!(self.state, State::Steps(..))
    }

    /// Whether there was nothing newer.
    pub fn is_current(&self) -> bool {
        matches!(self.state, State::Current)
    }

    /// The zone, made of what came and of `base`, the version had. Takes a while for a large one: not on a data path.
    ///
    /// # Errors
    /// [`IncomingError`].
    pub fn finish(self, base: Option<&Zone>) -> Result<Zone, IncomingError> {
        let soa = self.soa.filter(|_| self.is_done).ok_or(IncomingError::Protocol("it is not finished"))?;
        let mut builder = ZoneBuilder::copy(&self.apex);
        add(&mut builder, &soa)?;
        match self.state {
            State::Whole(records) => records.iter().try_for_each(|record| add(&mut builder, record))?,
            State::Steps(steps, _) => apply(&mut builder, base.ok_or(IncomingError::DoesNotFit)?, steps)?,
            _ => return Err(IncomingError::Protocol("there was nothing newer")),
        }
        let (zone, _) = builder.finish().map_err(IncomingError::Zone)?;
        Ok(zone)
    }
}

fn add(builder: &mut ZoneBuilder, record: &WholeRecord) -> Result<(), IncomingError> {
    builder.add(&record.owner, record.rtype, record.ttl, &record.data).map_err(IncomingError::Record)
}

/// A record without its TTL, which makes no difference to which one it is.
type Identity = (Vec<u8>, u16, Vec<u8>);

/// What a record is known by, and what else it has: its TTL, and its owner as it was written.
fn identity(record: WholeRecord) -> (Identity, (u32, Vec<u8>)) {
    ((record.owner.to_ascii_lowercase(), record.rtype, record.data), (record.ttl, record.owner))
}

fn apply(builder: &mut ZoneBuilder, base: &Zone, steps: Vec<Step>) -> Result<(), IncomingError> {
    let mut removed = BTreeSet::new();
    let mut added: BTreeMap<Identity, (u32, Vec<u8>)> = BTreeMap::new();
    for step in steps {
        for record in step.removed {
            let (identity, _) = identity(record);
            if added.remove(&identity).is_none() {
                removed.insert(identity);
            }
        }
        added.extend(step.added.into_iter().map(identity));
    }
    for (index, record) in base.records().enumerate().filter(|(_, record)| record.rtype != rtype::SOA) {
        let identity = (record.owner.to_vec(), record.rtype, record.data.to_vec());
        if !removed.remove(&identity) {
            builder.add(base.spelling(index), record.rtype, record.ttl, record.data).map_err(IncomingError::Record)?;
        }
    }
    if !removed.is_empty() {
        return Err(IncomingError::DoesNotFit);
    }
    for ((_, rtype, data), (ttl, owner)) in added {
        builder.add(&owner, rtype, ttl, &data).map_err(IncomingError::Record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::difference::tests::zone;
    use super::super::outgoing::Outgoing;
    use super::super::versions::Versions;
    use super::super::walk;
    use super::*;
    use std::sync::Arc;

    fn apex() -> Name {
        Name::absolute("example").unwrap()
    }

    fn request(qtype: u16, serial: u32) -> Vec<u8> {
        let mut request = b"\x12\x34\0\0\0\x01\0\0\0\x01\0\0\x07example\0\0\0\0\x01".to_vec();
        request[22] = qtype as u8;
        request.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
        request.extend_from_slice(&serial.to_be_bytes());
        request.extend_from_slice(&[0; 16]);
        request
    }

    fn transfer(versions: &Versions, had: Option<u32>) -> Incoming {
        let qtype = if had.is_some() { rtype::IXFR } else { rtype::AXFR };
        let request = request(qtype, had.unwrap_or_default());
        let mut outgoing = Outgoing::new(versions.newest(&apex()).unwrap(), &request, qtype, None).unwrap();
        let mut incoming = Incoming::new(&apex(), had);
        while let Some(message) = outgoing.next_message(0) {
            incoming.take(walk::answers(&message).unwrap()).unwrap();
        }
        incoming
    }

    fn dump(zone: &Zone) -> Vec<String> {
        zone.records().map(|record| format!("{record:?}")).collect()
    }

    #[test]
    fn what_goes_out_comes_in() {
        let versions = Versions::default();
        let zones = [
            zone(1, "a A 10.0.0.2\nb TXT \"x\"\n"),
            zone(2, "a A 10.0.0.2\na A 10.0.0.3\n"),
            zone(3, "a 99 A 10.0.0.2\nc MX 10 a\n"),
        ];
        for zone in &zones {
            let copy: String = dump(zone).join("\n");
            assert!(!copy.is_empty());
        }
        let [one, two, three] = zones;
        let (one, three_dump) = (Arc::new(one), dump(&three));
        versions.put(Arc::clone(&one));
        versions.put(Arc::new(two));
        versions.put(Arc::new(three));
        assert_eq!(dump(&transfer(&versions, None).finish(None).unwrap()), three_dump);
        let steps = transfer(&versions, Some(1));
        assert!(matches!(steps.state, State::Steps(ref steps, _) if steps.len() == 2));
        assert_eq!(dump(&steps.finish(Some(&one)).unwrap()), three_dump);
        let wrong = zone(1, "other A 10.0.0.2\n");
        assert_eq!(transfer(&versions, Some(1)).finish(Some(&wrong)).err(), Some(IncomingError::DoesNotFit));
        assert!(transfer(&versions, Some(3)).is_current());
    }

    #[test]
    fn what_is_no_transfer() {
        let soa = |serial: u8| WholeRecord {
            owner: apex().wire().to_vec(),
            rtype: 6,
            ttl: 1,
            data: [&[0, 0, 0, 0, 0, serial][..], &[0; 16]].concat(),
        };
        let other = WholeRecord { rtype: 1, data: vec![1; 4], ..soa(1) };
        let take = |had, records: Vec<WholeRecord>| Incoming::new(&apex(), had).take(records);
        assert!(take(None, vec![other.clone()]).is_err());
        assert!(take(None, vec![soa(1), other.clone(), soa(1), other.clone()]).is_err());
        assert!(take(Some(1), vec![soa(3), soa(2)]).is_err());
        assert_eq!(take(None, vec![soa(1), other.clone()]), Ok(Progress::More));
        assert_eq!(take(Some(7), vec![soa(9)]), Ok(Progress::More), "the zone follows");
        assert!(Incoming::new(&apex(), None).finish(None).is_err());
    }
}
