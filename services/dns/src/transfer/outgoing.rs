//! AXFR and IXFR to a secondary (RFC 5936, RFC 1995): the messages of an answer, made one at a time as they are sent.

use super::difference::{Difference, is_newer};
use super::replies;
use super::tsig::{Signer, overhead};
use super::versions::Version;
use super::walk::{self, HEADER_LENGTH};
use crate::answer::edns::{self, OptReply};
use crate::message::MessageWriter;
use crate::zone::{RecordView, rtype};
use std::sync::Arc;

/// Largest message over TCP.
const MESSAGE_MAX: usize = 65_535;
/// A message is sent when it has grown so long: pointers of compressed names reach no further.
const MESSAGE_FULL: usize = 16_000;
/// Answer, authoritative.
const FLAGS: [u8; 2] = [0x84, 0];

/// A stretch of records.
#[derive(Clone, Debug)]
enum Part {
    /// The zone's SOA record.
    Soa,
    /// All records but that.
    Zone,
    /// The older SOA record and what is gone.
    Removed(Arc<Difference>),
    /// The newer SOA record and what is new.
    Added(Arc<Difference>),
}

impl Part {
    /// Its record of number `index`: `Ok(None)`: to be left out; `Err`: past its end.
    fn record<'a>(&'a self, version: &'a Version, index: usize) -> Result<Option<RecordView<'a>>, ()> {
        match self {
            Part::Soa if index == 0 => {
                let soa = version.zone.soa_index().ok_or(())?;
                version.zone.spelled_record(soa).map(Some).ok_or(())
            }
            Part::Soa => Err(()),
            Part::Zone => {
                let record = version.zone.spelled_record(index).ok_or(())?;
                Ok(Some(record).filter(|record| record.rtype != rtype::SOA))
            }
            Part::Removed(step) => step.removed.get(index).map(|record| Some(record.view())).ok_or(()),
            Part::Added(step) => step.added.get(index).map(|record| Some(record.view())).ok_or(()),
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The zone.
    Whole,
    /// Differences.
    Steps,
    /// The SOA record alone: there is nothing newer.
    Current,
}

/// The messages of one transfer.
pub struct Outgoing {
    version: Arc<Version>,
    parts: Vec<Part>,
    /// Part, and record in it.
    at: (usize, usize),
    kind: Kind,
    /// The question, with its header.
    question: Vec<u8>,
    is_first: bool,
    /// The request had such a record.
    opt: Option<OptReply<'static>>,
    signer: Option<Signer>,
    /// A record that fits no message: the transfer is broken off.
    broken: bool,
}

impl Outgoing {
    /// The answer to `request`, a question for AXFR or IXFR, about `version`. IXFR with a serial number not in the history
    /// gets the whole zone (RFC 1995, section 4).
    pub fn new(version: Arc<Version>, request: &[u8], qtype: u16, signer: Option<Signer>) -> Option<Outgoing> {
        let end = walk::question_end(request).ok()?;
        let serial = if qtype == rtype::IXFR { Some(client_serial(request)?) } else { None };
        let mut parts = vec![Part::Soa];
        let newest = version.zone.serial();
        let kind = match serial {
            Some(serial) if !is_newer(newest, serial) => Kind::Current,
            Some(serial) => match version.history.since(serial) {
                Some(steps) => {
                    parts.extend(steps.into_iter().flat_map(|step| [Part::Removed(step.clone()), Part::Added(step)]));
                    parts.push(Part::Soa);
                    Kind::Steps
                }
                None => Kind::Whole,
            },
            None => Kind::Whole,
        };
        if kind == Kind::Whole {
            parts.extend([Part::Zone, Part::Soa]);
        }
        let question = request.get(..end)?.to_vec();
        let opt = edns::error_reply(request, replies::UDP_PAYLOAD, 0);
        Some(Outgoing { version, parts, at: (0, 0), kind, question, is_first: true, opt, signer, broken: false })
    }

    /// What is sent.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The version that is sent.
    pub fn serial(&self) -> u32 {
        self.version.zone.serial()
    }

    /// Whether a record was too long for any message, and what was sent is not all.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// The next message; `None`: that was all.
    pub fn next_message(&mut self, now_s: u64) -> Option<Vec<u8>> {
        let signature = self.signer.as_ref().map_or(0, |signer| overhead(signer.key()));
        self.message(MESSAGE_MAX - signature, MESSAGE_FULL, now_s)
    }

    /// The whole answer in one message of at most `length_max` bytes, for UDP. If it does not fit, the message has only the SOA
    /// record, which sends the client to TCP (RFC 1995, section 2).
    pub fn single_message(mut self, length_max: usize, now_s: u64) -> Option<Vec<u8>> {
        let signature = self.signer.as_ref().map_or(0, |signer| overhead(signer.key()));
        let room = length_max.saturating_sub(signature);
        let signer = self.signer.take();
        let whole = self.message(room, room, now_s);
        if self.at.0 < self.parts.len() || whole.is_none() {
            self.parts = vec![Part::Soa];
            (self.at, self.is_first) = ((0, 0), true);
            let mut soa = self.message(room, room, now_s)?;
            sign(&mut soa, signer, now_s);
            return Some(soa);
        }
        let mut whole = whole?;
        sign(&mut whole, signer, now_s);
        Some(whole)
    }

    fn message(&mut self, length_max: usize, full: usize, now_s: u64) -> Option<Vec<u8>> {
        if self.at.0 >= self.parts.len() || self.broken {
            return None;
        }
        // RFC 5936 section 2.2.5: OPT is in the first message.
        let opt = self.opt.filter(|_| self.is_first);
        let mut bytes = vec![0; length_max.saturating_sub(opt.as_ref().map_or(0, OptReply::length))];
        let head = if self.is_first { self.question.len() } else { HEADER_LENGTH };
        bytes.get_mut(..head)?.copy_from_slice(self.question.get(..head)?);
        let mut writer = MessageWriter::exact(&mut bytes, head);
        if self.is_first {
            writer.remember(HEADER_LENGTH);
        }
        let mut count = 0u16;
        while writer.position() < full && count < u16::MAX {
            let Some(part) = self.parts.get(self.at.0) else { break };
            let record = match part.record(&self.version, self.at.1) {
                Err(()) => {
                    self.at = (self.at.0 + 1, 0);
                    continue;
                }
                Ok(None) => {
                    self.at.1 += 1;
                    continue;
                }
                Ok(Some(record)) => record,
            };
            let start = writer.position();
            writer.put_record(record.owner, record.rtype, record.ttl, record.data);
            if writer.has_overflowed() {
                writer.rewind(start);
                self.broken = count == 0;
                break;
            }
            self.at.1 += 1;
            count += 1;
        }
        let length = writer.position();
        if self.broken {
            return None;
        }
        // What is left may be nothing but the ends of parts.
        while self.parts.get(self.at.0).is_some_and(|part| part.record(&self.version, self.at.1).is_err()) {
            self.at = (self.at.0 + 1, 0);
        }
        bytes.truncate(length);
        bytes.get_mut(2..4)?.copy_from_slice(&FLAGS);
        let questions = u8::from(self.is_first);
        let [high, low] = count.to_be_bytes();
        bytes.get_mut(4..12)?.copy_from_slice(&[0, questions, high, low, 0, 0, 0, u8::from(opt.is_some())]);
        replies::append_opt(&mut bytes, opt);
        self.is_first = false;
        if let Some(signer) = &mut self.signer {
            signer.sign(&mut bytes, now_s);
        }
        Some(bytes)
    }
}

fn sign(message: &mut Vec<u8>, signer: Option<Signer>, now_s: u64) {
    if let Some(mut signer) = signer {
        signer.sign(message, now_s);
    }
}

/// The serial number of the SOA record in an IXFR request's authority section.
fn client_serial(request: &[u8]) -> Option<u32> {
    let places = walk::records(request).ok()?;
    let soa = places.filter_map(Result::ok).find(|place| place.rtype == rtype::SOA)?;
    let (_, after_server) = walk::read_name(request, soa.data_start).ok()?;
    let (_, at) = walk::read_name(request, after_server).ok()?;
    request.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::super::difference::tests::zone;
    use super::super::versions::Versions;
    use super::*;
    use crate::name::Name;

    fn versions() -> Versions {
        let versions = Versions::default();
        let many: String =
            (0..3_000).map(|number| format!("n{number} A 10.1.{}.{}\n", number >> 8, number & 255)).collect();
        versions.put(Arc::new(zone(1, &many)));
        versions.put(Arc::new(zone(2, &format!("{many}new A 10.0.0.7\n"))));
        versions
    }

    fn request(qtype: u16, serial: Option<u32>) -> Vec<u8> {
        let mut request = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x07example\0\0\0\0\x01".to_vec();
        request[22] = qtype as u8;
        if let Some(serial) = serial {
            request[9] = 1;
            request.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
            request.extend_from_slice(&serial.to_be_bytes());
            request.extend_from_slice(&[0; 16]);
        }
        request
    }

    fn all(qtype: u16, serial: Option<u32>) -> (Kind, usize, Vec<walk::WholeRecord>) {
        let version = versions().newest(&Name::absolute("example").unwrap()).unwrap();
        let mut outgoing = Outgoing::new(version, &request(qtype, serial), qtype, None).unwrap();
        let messages: Vec<Vec<u8>> = std::iter::from_fn(|| outgoing.next_message(0)).collect();
        let records = messages.iter().flat_map(|message| walk::answers(message).unwrap()).collect();
        assert!(messages.iter().all(|message| message.starts_with(b"\x12\x34\x84\0")));
        (outgoing.kind(), messages.len(), records)
    }

    #[test]
    fn the_whole_zone_between_two_soa_records() {
        for (qtype, serial) in [(rtype::AXFR, None), (rtype::IXFR, Some(77_u32.wrapping_neg()))] {
            let (kind, messages, records) = all(qtype, serial);
            assert_eq!((kind, records.len()), (Kind::Whole, 3_000 + 3 + 2), "{messages}");
            assert!(messages > 2, "{messages}");
            let soa: Vec<usize> = (0..records.len()).filter(|index| records[*index].rtype == rtype::SOA).collect();
            assert_eq!(soa, [0, records.len() - 1]);
        }
    }

    /// RFC 5936 sections 2.2.5, 3.3 and 3.4.
    #[test]
    fn opt_comes_first_and_letters_stay() {
        let apex = Name::absolute("example").unwrap();
        let versions = Versions::default();
        versions.put(Arc::new(zone(1, "Www A 10.0.0.1\nwwW TXT x\nCap CNAME wWw\nplain A 10.0.0.2\n")));
        versions.put(Arc::new(zone(2, "Www A 10.0.0.3\nCap CNAME wWw\nplain A 10.0.0.2\nNew A 10.0.0.4\n")));
        let owners = |mut request: Vec<u8>, qtype: u16| {
            request[11] = 1;
            request.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 0]);
            let mut outgoing = Outgoing::new(versions.newest(&apex).unwrap(), &request, qtype, None).unwrap();
            let message = outgoing.next_message(0).unwrap();
            assert_eq!(message[10..12], [0, 1]);
            assert_eq!(message[message.len() - 11..], [0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 0]);
            let records = walk::answers(&message).unwrap().into_iter();
            let shown = records.map(|record| crate::name::Presentation(&record.owner).to_string());
            shown.collect::<Vec<String>>()
        };
        let whole = owners(request(rtype::AXFR, None), rtype::AXFR);
        for owner in ["Www.example.", "Cap.example.", "plain.example.", "New.example."] {
            assert!(whole.iter().any(|own| own == owner), "{owner}: {whole:?}");
        }
        let steps = owners(request(rtype::IXFR, Some(1)), rtype::IXFR);
        assert!(steps.iter().any(|own| own == "New.example.") && !steps.iter().any(|own| own == "new.example."));
    }

    #[test]
    fn differences_and_nothing_new() {
        let (kind, messages, records) = all(rtype::IXFR, Some(1));
        assert_eq!((kind, messages), (Kind::Steps, 1));
        let types: Vec<u16> = records.iter().map(|record| record.rtype).collect();
        assert_eq!(types, [6, 6, 6, 1, 6]);
        for serial in [2, 3] {
            let (kind, _, records) = all(rtype::IXFR, Some(serial));
            assert_eq!((kind, records.len()), (Kind::Current, 1));
        }
    }

    #[test]
    fn over_udp_what_fits() {
        let version = versions().newest(&Name::absolute("example").unwrap()).unwrap();
        for (serial, length_max, count) in [(1, 512, 5), (1, 120, 1), (9_u32.wrapping_neg(), 512, 1)] {
            let request = request(rtype::IXFR, Some(serial));
            let outgoing = Outgoing::new(Arc::clone(&version), &request, rtype::IXFR, None).unwrap();
            let message = outgoing.single_message(length_max, 0).unwrap();
            assert!(message.len() <= length_max);
            assert_eq!(walk::answers(&message).unwrap().len(), count, "{serial}");
        }
        assert!(Outgoing::new(version, &request(rtype::IXFR, None), rtype::IXFR, None).is_none(), "no serial number");
    }
}
