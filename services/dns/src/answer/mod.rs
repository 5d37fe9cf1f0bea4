//! From a request's bytes to the answer's: a pure function of the zones, in place, without allocation.
//!
//! ```text
//!   header, question, OPT ── one probe ──▶ the name has this type, nothing special about it: copy what lies ready
//!                                └──────▶ all else: `general`, RFC 1034 section 4.3.2 step by step
//! ```

pub mod cookies;
pub mod edns;
mod general;
mod plan;
mod proof;
pub mod question;

use crate::image::{Catalog, Node, Ready, Set, ZoneImage, flag};
use crate::message::{HEADER_LENGTH, rcode};
use crate::zone::rtype;
use cookies::CookieSecrets;
use edns::{Edns, OptReply};
use plan::{Plan, Verdict};
use qanat::Chunk;
use question::{Question, flags};
use std::net::IpAddr;

/// Class Internet.
const CLASS_IN: u16 = 1;
/// Class Chaos: questions about the server itself.
const CLASS_CH: u16 = 3;
const OPCODE_NOTIFY: u8 = 4 << 3;

/// How a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A datagram; the answer has at most so many bytes, whatever the client takes.
    Udp {
        /// What fits the link.
        payload_max: usize,
    },
    /// A stream.
    Tcp,
}

/// What comes with a request besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// How it came.
    pub transport: Transport,
    /// From where.
    pub peer: IpAddr,
    /// Seconds since 1970, modulo 2³²: cookies have it in them.
    pub now_s: u32,
}

/// What answers say beyond the zones.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Largest UDP payload we send and announce, bytes (512 to 4096).
    pub udp_payload_max: u16,
    /// Our name for NSID and `id.server`; empty: not told.
    pub identity: Vec<u8>,
    /// For `version.bind`; empty: refused.
    pub version: Vec<u8>,
    /// Secrets for cookies; `None`: cookies are not answered.
    pub cookies: Option<CookieSecrets>,
    /// Idle time-out over TCP told to clients, units of 100 ms.
    pub keepalive: Option<u16>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { udp_payload_max: 1_232, identity: Vec::new(), version: Vec::new(), cookies: None, keepalive: None }
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// There is an answer: see [`Outcome::length`].
    Answered,
    /// Too short for a header, or an answer itself: nothing is sent.
    Silence,
    /// A zone transfer is asked for (AXFR, IXFR) from a zone that is there: nothing is written yet.
    Transfer,
    /// A NOTIFY (RFC 1996): nothing is written yet.
    Notify,
    /// Signed by TSIG (RFC 8945): nothing is written yet.
    Signed,
}

/// What became of a request, and its figures.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Whether there is an answer.
    pub fate: Fate,
    /// Bytes of the answer.
    pub length: usize,
    /// Its response code, the bits in OPT included.
    pub rcode: u8,
    /// Type asked for; 0: it could not be read.
    pub qtype: u16,
    /// Where the question ends; 12: there is none.
    pub question_end: usize,
    /// TC was set.
    pub truncated: bool,
    /// It came with a valid cookie: the address is the client's own.
    pub cookie_valid: bool,
    /// Hash of the name that the answer is from, for rate limits. It is the wildcard's name if one was used, and the zone's if
    /// the name does not exist.
    pub source_hash: u32,
}

impl Outcome {
    #[inline(always)]
    pub(crate) fn of(fate: Fate) -> Outcome {
        Outcome {
            fate,
            length: 0,
            rcode: 0,
            qtype: 0,
            question_end: HEADER_LENGTH,
            truncated: false,
            cookie_valid: false,
            source_hash: 0,
        }
    }
}

/// Answers from a catalog.
#[derive(Clone, Debug, Default)]
pub struct Responder {
    /// What answers say beyond the zones.
    pub settings: Settings,
}

impl Responder {
    /// Answers `request` into `out`; see [`answer_in_place`](Responder::answer_in_place).
    pub fn answer(&self, catalog: &Catalog, request: &[u8], origin: &Origin, out: &mut [u8]) -> Outcome {
        match out.get_mut(..request.len()) {
            Some(target) => target.copy_from_slice(request),
            None => return Outcome::of(Fate::Silence),
        }
        self.answer_in_place(catalog, out, request.len(), origin)
    }

    /// Answers the request in the first `length` bytes of `message` over it; the answer may take all of `message`, which
    /// should have at least 512 bytes.
    #[inline(always)]
    pub fn answer_in_place(&self, catalog: &Catalog, message: &mut [u8], length: usize, origin: &Origin) -> Outcome {
        if let Some(zone) = catalog.only()
            && let Some(outcome) = plain(zone, message, length, origin.transport)
        {
            return outcome;
        }
        self.answer_any(catalog, message, length, origin)
    }

    /// Answers a request of any kind.
    #[inline(never)]
    fn answer_any(&self, catalog: &Catalog, message: &mut [u8], length: usize, origin: &Origin) -> Outcome {
        let Some(request) = message.get(..length) else { return Outcome::of(Fate::Silence) };
        let Some(header) = request.first_chunk::<HEADER_LENGTH>() else { return Outcome::of(Fate::Silence) };
        // RFC 1035 section 7.3, RFC 5625: answers are never answered, or two servers would talk forever.
        if header[2] & flags::QR != 0 {
            return Outcome::of(Fate::Silence);
        }
        if header[2] & flags::OPCODE != 0 {
            return match header[2] & flags::OPCODE {
                OPCODE_NOTIFY => Outcome::of(Fate::Notify),
                _ => self.refuse(message, length, None, rcode::NOTIMP),
            };
        }
        let counts = [[header[6], header[7]], [header[8], header[9]], [header[10], header[11]]].map(u16::from_be_bytes);
        let [answers, authority, additional] = counts;
        // TC says nothing in a query: it is ignored, as NSD, Knot and BIND do.
        if header[4..6] != [0, 1] || answers != 0 {
            return self.without_question(message, length, origin);
        }
        let Some(question) = Question::parse(request) else {
            return self.refuse(message, length, None, rcode::FORMERR);
        };
        // An IXFR request carries the SOA record the client has.
        let others = if question.qtype == rtype::IXFR { 1 } else { 0 };
        if authority > others {
            return self.refuse(message, length, Some(&question), rcode::FORMERR);
        }
        let edns = if additional + authority == 0 {
            Edns { payload: edns::PAYLOAD_MIN, ..Edns::default() }
        } else {
            match Edns::parse(request.get(question.end()..).unwrap_or_default(), additional + authority, others) {
                Ok(edns) => edns,
                Err(rcode) => return self.refuse(message, length, Some(&question), rcode),
            }
        };
        if edns.signed {
            return Outcome { qtype: question.qtype, question_end: question.end(), ..Outcome::of(Fate::Signed) };
        }
        self.answer_question(catalog, message, &question, &edns, origin)
    }

    /// Answers an unsigned request that was read.
    #[inline(always)]
    fn answer_question(
        &self,
        catalog: &Catalog,
        message: &mut [u8],
        question: &Question,
        edns: &Edns,
        origin: &Origin,
    ) -> Outcome {
        let mut cookie_valid = false;
        let opt = edns.present.then(|| self.opt(edns, origin, &mut cookie_valid));
        let limit = match origin.transport {
            Transport::Udp { payload_max } => {
                edns.payload.min(usize::from(self.settings.udp_payload_max)).max(edns::PAYLOAD_MIN).min(payload_max)
            }
            Transport::Tcp => usize::from(u16::MAX),
        };
        let plan = Plan { question_end: question.end(), opt, limit: limit.min(message.len()), dnssec: edns.dnssec };
        let verdict = if let Some(zone) = catalog.only()
            && question.class == CLASS_IN
            && edns.version == 0
            && let Some(verdict) = ready(zone, message, question, &plan)
        {
            verdict
        } else {
            match self.unusual(catalog, message, question, edns, &plan) {
                Ok(verdict) => verdict,
                Err(fate) => {
                    return Outcome { qtype: question.qtype, question_end: question.end(), ..Outcome::of(fate) };
                }
            }
        };
        let length = finish(message, &plan, &verdict);
        Outcome {
            fate: Fate::Answered,
            length,
            rcode: verdict.rcode,
            qtype: question.qtype,
            question_end: question.end(),
            truncated: verdict.truncated,
            cookie_valid,
            source_hash: verdict.source_hash,
        }
    }

    #[inline(always)]
    fn opt(&self, edns: &Edns, origin: &Origin, cookie_valid: &mut bool) -> OptReply<'_> {
        let cookie = match (&edns.cookie, &self.settings.cookies) {
            (Some(cookie), Some(secrets)) => {
                *cookie_valid = secrets.is_valid(cookie, origin.peer, origin.now_s);
                Some((cookie.client, secrets.make(&cookie.client, origin.peer, origin.now_s)))
            }
            _ => None,
        };
        let tcp = origin.transport == Transport::Tcp;
        OptReply {
            rcode: if edns.version == 0 { rcode::NOERROR } else { rcode::BADVERS },
            dnssec: edns.dnssec,
            payload: self.settings.udp_payload_max,
            nsid: Some(self.settings.identity.as_slice()).filter(|identity| edns.nsid && !identity.is_empty()),
            cookie,
            keepalive: self.settings.keepalive.filter(|_| edns.keepalive && tcp),
            padding: edns.padding && tcp,
        }
    }

    /// Everything but a name of the only zone that lies ready.
    #[inline(never)]
    fn unusual(
        &self,
        catalog: &Catalog,
        message: &mut [u8],
        question: &Question,
        edns: &Edns,
        plan: &Plan<'_>,
    ) -> Result<Verdict, Fate> {
        let code = |rcode| Verdict { rcode, end: plan.question_end, ..Verdict::default() };
        if edns.version != 0 {
            return Ok(code(rcode::BADVERS));
        }
        match question.class {
            CLASS_IN => {}
            CLASS_CH => return Ok(self.chaos(message, question, plan)),
            _ => return Ok(code(rcode::REFUSED)),
        }
        // Types that are none: OPT, and the queries 128 to 255 but ANY and transfers.
        match question.qtype {
            rtype::OPT | rtype::TSIG | 249 => return Ok(code(rcode::FORMERR)),
            253 | 254 => return Ok(code(rcode::NOTIMP)),
            _ => {}
        }
        let (starts, labels) = question.starts(message);
        let starts = starts.get(..labels).unwrap_or_default();
        // A secondary's zone that never came or has expired (RFC 1034 section 4.3.5) is ours all the same: whoever asks shall
        // ask another of its servers. DS is its parent's, if that is here.
        let is_ds = question.qtype == rtype::DS && catalog.zone_of(message, starts, question.name_end, true).is_some();
        if catalog.is_missing(message, starts, question.name_end, is_ds) {
            return Ok(code(rcode::SERVFAIL));
        }
        let Some(mut zone) = catalog.zone_of(message, starts, question.name_end, false) else {
            return Ok(code(rcode::REFUSED));
        };
        if matches!(question.qtype, rtype::AXFR | rtype::IXFR) {
            return Err(Fate::Transfer);
        }
        // RFC 4035 section 3.1.4.1: DS is the parent's, if that is ours too.
        if question.qtype == rtype::DS
            && question.name_end - HEADER_LENGTH == zone.apex().wire().len()
            && let Some(parent) = catalog.zone_of(message, starts, question.name_end, true)
        {
            zone = parent;
        }
        if let Some(verdict) = ready(zone, message, question, plan) {
            return Ok(verdict);
        }
        Ok(general::answer(zone, message, question, plan))
    }

    /// `version.bind`, `id.server` and their likes (RFC 4892).
    fn chaos(&self, message: &mut [u8], question: &Question, plan: &Plan<'_>) -> Verdict {
        let mut verdict = Verdict { rcode: rcode::REFUSED, end: plan.question_end, ..Verdict::default() };
        let name = message.get(HEADER_LENGTH..question.name_end).unwrap_or_default();
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        let text = if is(b"\x07version\x04bind\0") || is(b"\x07version\x06server\0") {
            &self.settings.version
        } else if is(b"\x02id\x06server\0") || is(b"\x08hostname\x04bind\0") {
            &self.settings.identity
        } else {
            return verdict;
        };
        if text.is_empty() || !matches!(question.qtype, rtype::TXT | rtype::ANY) {
            return verdict;
        }
        let text = text.get(..text.len().min(255)).unwrap_or_default();
        let mut writer = crate::message::MessageWriter::new(message, plan.question_end);
        writer.put(&[0xc0, 12, 0, 16, 0, CLASS_CH as u8, 0, 0, 0, 0]);
        writer.put_u16(text.len() as u16 + 1);
        writer.put(&[text.len() as u8]);
        writer.put(text);
        if writer.has_overflowed() || writer.position() > plan.records_end() {
            verdict.truncated = true;
        } else {
            (verdict.answers, verdict.end) = (1, writer.position());
        }
        verdict.rcode = rcode::NOERROR;
        verdict.authoritative = true;
        verdict
    }

    /// A query without a question, or with several: only who asks for a cookie gets more than an error (RFC 7873 section 5.4).
    #[cold]
    fn without_question(&self, message: &mut [u8], length: usize, origin: &Origin) -> Outcome {
        let request = message.get(..length).unwrap_or_default();
        let additional = request.get(10..HEADER_LENGTH).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
        let is_bare = request.get(4..10) == Some(&[0; 6]);
        let edns = Edns::parse(request.get(HEADER_LENGTH..).unwrap_or_default(), additional, 0).ok();
        let edns = edns.filter(|edns| {
            is_bare && edns.version == 0 && !edns.signed && edns.cookie.is_some() && self.settings.cookies.is_some()
        });
        let Some(edns) = edns else { return self.refuse(message, length, None, rcode::FORMERR) };
        let mut cookie_valid = false;
        let opt = self.opt(&edns, origin, &mut cookie_valid);
        Outcome { cookie_valid, ..error(message, None, rcode::NOERROR, Some(opt)) }
    }

    /// An answer without records to the request in the first `length` bytes; with the question if it could be read, and with
    /// OPT if there was one.
    #[cold]
    fn refuse(&self, message: &mut [u8], length: usize, question: Option<&Question>, rcode: u8) -> Outcome {
        let request = message.get(..length).unwrap_or_default();
        let opt = edns::error_reply(request, self.settings.udp_payload_max, rcode);
        error(message, question, rcode, opt)
    }
}

/// Writes an answer without records over its request.
fn error(message: &mut [u8], question: Option<&Question>, rcode: u8, opt: Option<OptReply<'_>>) -> Outcome {
    let question_end = question.map_or(HEADER_LENGTH, Question::end);
    let opt = opt.filter(|opt| question_end + opt.length() <= message.len());
    if let Some(header) = message.first_chunk_mut::<HEADER_LENGTH>() {
        header[2] = flags::QR | header[2] & (flags::OPCODE | flags::RD);
        header[3] = header[3] & flags::CD | rcode & 0xf;
        header[4..].copy_from_slice(&[0, u8::from(question.is_some()), 0, 0, 0, 0, 0, u8::from(opt.is_some())]);
    }
    let limit = message.len();
    let length = opt.map_or(question_end, |opt| opt.write(message, question_end, limit));
    Outcome {
        length,
        rcode,
        qtype: question.map_or(0, |question| question.qtype),
        question_end,
        ..Outcome::of(Fate::Answered)
    }
}

/// Looks up what a query with a question and nothing else asks for, when its answer lies ready in the only zone; `read` reads
/// the question, whose name is compared with the zone's. `None`: the request is something else.
#[inline(always)]
fn find_plain<'z>(
    zone: &'z ZoneImage,
    request: &[u8],
    read: impl Fn(&[u8]) -> Option<Question>,
) -> Option<(Question, Node<'z>, Set<'z>)> {
    /// One question, no records.
    const COUNTS: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
    let header = request.first_chunk::<HEADER_LENGTH>()?;
    if header[2] & !flags::RD != 0 || header[4..] != COUNTS {
        return None;
    }
    let question = read(request)?;
    if question.class != CLASS_IN {
        return None;
    }
    let node = zone.find(request, HEADER_LENGTH, question.name_end)?;
    if node.flags() & (flag::CUT | flag::OCCLUDED) != 0 {
        return None;
    }
    let set = node.set(question.qtype)?;
    Some((question, node, set))
}

/// What lies ready for a datagram that is such a query, if its answer is at most `length_max` bytes; as [`Ready::of`] takes it.
///
/// (Too large to be put in line, but so marked: where it is called the compiler must see that it writes nothing and can't
/// fail.)
#[inline]
pub(crate) fn find_ready<'z>(zone: &'z ZoneImage, request: &[u8], length_max: usize) -> Option<&'z [u8]> {
    // First, so that all that is shorter needs no other look.
    if request.len() < HEADER_LENGTH + 5 {
        return None;
    }
    // After the question there is nothing, if the counts do not lie: then no name of the zone is there.
    let (_, _, set) = find_plain(zone, request, Question::up_to_the_end)?;
    let bytes = set.ready_bytes()?;
    (request.len() + Ready::of(bytes)?.records.len() <= length_max).then_some(bytes)
}

/// Answers the request in the first `length` bytes of `message` over it, if the answer lies ready in the only zone: the
/// shortest way there is. `None`: it is something else, and nothing has changed.
#[inline(always)]
fn plain(zone: &ZoneImage, message: &mut [u8], length: usize, transport: Transport) -> Option<Outcome> {
    let length_max = match transport {
        Transport::Udp { payload_max } => edns::PAYLOAD_MIN.min(payload_max),
        Transport::Tcp => usize::from(u16::MAX),
    };
    let (question, node, set) = find_plain(zone, message.get(..length)?, Question::parse)?;
    let ready = set.ready_for_datagram()?;
    let end = question.end() + ready.records.len();
    if end > length_max {
        return None;
    }
    message.get_mut(question.end()..end)?.copy_from_slice(ready.records);
    let front = message.first_chunk_mut::<8>()?;
    *front = ready.header(*front);
    Some(plain_outcome(&question, &node, end))
}

/// Answers a datagram in its frame, whose checksum stays known. The answer has at most `length_max` bytes.
#[inline(always)]
pub(crate) fn plain_datagram(zone: &ZoneImage, chunk: &mut Chunk, length_max: usize) -> Option<Outcome> {
    let (question, node, set) = find_plain(zone, chunk.bytes(), Question::up_to_the_end)?;
    let ready = set.ready_for_datagram()?;
    let end = question.end() + ready.records.len();
    if end > length_max {
        return None;
    }
    chunk.append_summed(ready.records, ready.sum())?;
    chunk.update_front(|front| ready.header(front))?;
    Some(plain_outcome(&question, &node, end))
}

#[inline(always)]
fn plain_outcome(question: &Question, node: &Node<'_>, length: usize) -> Outcome {
    Outcome {
        length,
        qtype: question.qtype,
        question_end: question.end(),
        source_hash: node.source_hash(),
        ..Outcome::of(Fate::Answered)
    }
}

/// The answer that lies ready for a name and type that are there, with nothing special about the name.
#[inline(always)]
fn ready(zone: &ZoneImage, message: &mut [u8], question: &Question, plan: &Plan<'_>) -> Option<Verdict> {
    let node = zone.find(message, HEADER_LENGTH, question.name_end)?;
    if node.flags() & (flag::CUT | flag::OCCLUDED) != 0 {
        return None;
    }
    let set = node.set(question.qtype)?;
    let records = set.ready(plan.dnssec)?;
    let end = plan.question_end + records.len();
    let mut verdict =
        Verdict { authoritative: true, end: plan.question_end, source_hash: node.source_hash(), ..Verdict::default() };
    if end > plan.records_end() {
        verdict.truncated = true;
        return Some(verdict);
    }
    message.get_mut(plan.question_end..end)?.copy_from_slice(records);
    verdict.end = end;
    verdict.answers = set.count() + if plan.dnssec { set.signature_count() } else { 0 };
    Some(verdict)
}

/// Writes OPT and the header; gives the length of the whole.
#[inline(always)]
fn finish(message: &mut [u8], plan: &Plan<'_>, verdict: &Verdict) -> usize {
    let mut end = verdict.end;
    let mut additional = verdict.additional;
    if let Some(opt) = &plan.opt {
        end = opt.write(message, end, plan.limit);
        additional += 1;
    }
    if let Some(header) = message.first_chunk_mut::<HEADER_LENGTH>() {
        let authoritative = if verdict.authoritative { flags::AA } else { 0 };
        let truncated = if verdict.truncated { flags::TC } else { 0 };
        header[2] = flags::QR | authoritative | truncated | header[2] & flags::RD;
        header[3] = header[3] & flags::CD | verdict.rcode & 0xf;
        let counts =
            1u64 << 48 | u64::from(verdict.answers) << 32 | u64::from(verdict.authority) << 16 | u64::from(additional);
        header[4..].copy_from_slice(&counts.to_be_bytes());
    }
    end
}

#[cfg(test)]
mod tests;
