//! Life with other servers: zones out (AXFR, IXFR, NOTIFY) and in (secondary), signed (TSIG) where configured.
//!
//! ```text
//!   request by TCP or UDP ─ tsig ─┬─ outgoing: AXFR, IXFR ◀── versions: newest zone, differences ◀── reload, worker
//!                                 ├─ notify in ─▶ secondary: refresh, retry, expire; its own connections
//!                                 └─ any other question, answered and signed       │ incoming: what came
//!   versions ─ notify out                                                          └▶ worker: makes zones, publishes
//! ```
//! All of it is off the path of ordinary answers, which never look here.

pub mod config;
pub mod control;
pub mod difference;
pub mod incoming;
pub mod kept;
mod notify;
pub mod outgoing;
mod secondary;
pub mod tsig;
pub mod versions;
pub mod walk;
mod worker;

pub use config::TransferConfig;
pub use control::{Control, Plan, Standing};
pub use outgoing::Outgoing;
pub use versions::Versions;
pub use worker::Arrival;

use crate::answer::edns::{self, OptReply};
use crate::answer::question::Question;
use crate::name::Name;
use crate::service::CatalogPublisher;
use crate::zone::rtype;
use notify::Notifier;
use outgoing::Kind;
use qanat::{Commands, ConnectionId, Context, Event, UdpSocketId};
use secondary::{Secondary, Timing, Tools};
use serde::Serialize;
use siphasher::sip::SipHasher24;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hasher;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tsig::Signer;
use worker::{Worker, Workshop};

/// Ports that transfers are fetched from: few, so that a rule of the control plane can name them, and none that Linux picks
/// for itself, so that an address shared with the kernel has them free.
pub const PORTS: RangeInclusive<u16> = 61_000..=61_255;
/// Timers of ours have this bit in their token.
pub const TIMER_BIT: u64 = 1 << 63;
const TIMER_NOTIFY: u64 = TIMER_BIT;
const TIMER_SECONDARY: u64 = TIMER_BIT | 1 << 62;
const TIMER_NUMBER: u64 = (1 << 62) - 1;
/// Messages to the operator kept until somebody reads them.
const LOG_MAX: usize = 256;
/// An answer over UDP to a client without EDNS (RFC 1035, section 4.2.1).
const UDP_ROOM_MIN: usize = 512;
/// The payload we announce.
const UDP_PAYLOAD: u16 = 1_232;
const OPCODE_NOTIFY: u8 = 4 << 3;
const NOTAUTH: u8 = 9;
const REFUSED: u8 = 5;
const FORMERR: u8 = 1;

/// Seconds since 1970: what signatures are dated by.
fn wall_clock_s() -> u64 {
    // No system call: the kernel's page of the clock. And only for signed messages and transfers.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Identifiers nobody can guess, whichever others they have seen: a keyed hash of a count.
struct Random {
    key: [u8; 16],
    count: u64,
}

impl Random {
    fn new(key: [u8; 16]) -> Random {
        Random { key, count: 0 }
    }

    fn identifier(&mut self) -> u16 {
        self.count = self.count.wrapping_add(1);
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(self.count);
        hasher.finish() as u16
    }
}

/// What the operator should know, until it is read.
#[derive(Default)]
struct Log(VecDeque<String>);

impl Log {
    fn say(&mut self, text: String) {
        if self.0.len() == LOG_MAX {
            self.0.pop_front();
        }
        self.0.push_back(text);
    }
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TransferFigures {
    /// Zones sent whole.
    pub whole_out: u64,
    /// Differences sent.
    pub steps_out: u64,
    /// Clients that had the newest version.
    pub current_out: u64,
    /// Transfers not allowed.
    pub refused: u64,
    /// Requests whose signature did not hold.
    pub bad_signatures: u64,
    /// NOTIFY taken.
    pub notified: u64,
    /// NOTIFY from somebody who is no primary.
    pub notify_refused: u64,
    /// Zones received.
    pub received: u64,
    /// Zones received that could not be served.
    pub unusable: u64,
    /// Attempts to fetch a zone that failed.
    pub failed: u64,
    /// Zones that expired.
    pub expired: u64,
}

impl TransferFigures {
    /// Adds those of another instance.
    pub fn add(&mut self, other: &TransferFigures) {
        let pairs = [
            (&mut self.whole_out, other.whole_out),
            (&mut self.steps_out, other.steps_out),
            (&mut self.current_out, other.current_out),
            (&mut self.refused, other.refused),
            (&mut self.bad_signatures, other.bad_signatures),
            (&mut self.notified, other.notified),
            (&mut self.notify_refused, other.notify_refused),
            (&mut self.received, other.received),
            (&mut self.unusable, other.unusable),
            (&mut self.failed, other.failed),
            (&mut self.expired, other.expired),
        ];
        pairs.into_iter().for_each(|(sum, count)| *sum += count);
    }
}

/// How a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By TCP.
    Tcp,
    /// By UDP; no datagram can be longer.
    Udp(usize),
}

/// What to send back.
pub enum Reply {
    /// Nothing.
    Nothing,
    /// One message.
    Message(Vec<u8>),
    /// The messages of a transfer, over TCP.
    Stream(Box<Outgoing>),
}

/// See the [module](self).
pub struct Transfers {
    plan: Arc<Plan>,
    control: Control,
    /// Of the plan.
    generation: u64,
    versions: Versions,
    publisher: Option<CatalogPublisher>,
    arrival: Option<Arrival>,
    /// Shared by the instances of a server: the first sends, answers come to any.
    notifier: Arc<Mutex<Notifier>>,
    /// The first instance, or the only one.
    is_first: bool,
    /// By numbers that are never given twice: what is under way for one that is gone finds nobody.
    secondaries: BTreeMap<u64, Secondary>,
    by_apex: BTreeMap<Name, u64>,
    next_number: u64,
    /// Whose each connection of ours is.
    connections: HashMap<ConnectionId, u64>,
    /// Of the secondaries, those told of a change: see [`Transfers::poll`].
    wanted: Vec<u64>,
    worker: Option<Worker>,
    sockets: Option<[UdpSocketId; 2]>,
    random: Random,
    log: Log,
    figures: TransferFigures,
}

impl Transfers {
    /// Nothing is transferred.
    pub fn none() -> Transfers {
        Transfers {
            plan: Arc::default(),
            control: Control::default(),
            generation: 0,
            versions: Versions::default(),
            publisher: None,
            arrival: None,
            notifier: Arc::default(),
            is_first: true,
            secondaries: BTreeMap::new(),
            by_apex: BTreeMap::new(),
            next_number: 0,
            connections: HashMap::new(),
            wanted: Vec::new(),
            worker: None,
            sockets: None,
            // Nothing is asked for with it.
            random: Random::new([0; 16]),
            log: Log::default(),
            figures: TransferFigures::default(),
        }
    }

    /// By the rules of `control`, which may change. `versions` has the zones this server is primary of, and those that were
    /// [kept]; the others are fetched, and given to `publisher`.
    ///
    /// # Errors
    /// A message: there are no random numbers.
    pub fn new(control: Control, versions: Versions, publisher: &CatalogPublisher) -> Result<Transfers, String> {
        let seed = qanat::entropy().map_err(|error| format!("no entropy: {error}"))?;
        let key = *seed.first_chunk().ok_or("no entropy")?;
        let mut generation = 0;
        let plan = control.newer(&mut generation).unwrap_or_default();
        let publisher = Some(publisher.clone());
        Ok(Transfers { plan, control, generation, versions, publisher, random: Random::new(key), ..Transfers::none() })
    }

    /// Has `arrival` told of each zone that comes.
    #[must_use]
    pub fn with_arrival(self, arrival: Arrival) -> Transfers {
        Transfers { arrival: Some(arrival), ..self }
    }

    /// For a further instance of the same server, which serves transfers and takes answers to NOTIFY as this one does, but
    /// fetches nothing and sends no NOTIFY. What [fetches](Transfers::fetches) is for a single instance: answers to its
    /// requests might come to another.
    #[must_use]
    pub fn sibling(&self) -> Transfers {
        Transfers {
            plan: Arc::clone(&self.plan),
            control: self.control.clone(),
            generation: self.generation,
            versions: self.versions.clone(),
            notifier: Arc::clone(&self.notifier),
            is_first: false,
            ..Transfers::none()
        }
    }

    /// Whether zones are fetched from primaries.
    pub fn fetches(&self) -> bool {
        self.plan.config.secondaries().next().is_some()
    }

    /// What was done.
    pub fn figures(&self) -> TransferFigures {
        self.figures
    }

    /// What the operator should know, once.
    pub fn take_log(&mut self) -> impl Iterator<Item = String> + '_ {
        self.log.0.drain(..)
    }

    /// The service starts; `sockets` are its own, for IPv4 and IPv6.
    pub fn start(&mut self, sockets: [UdpSocketId; 2], context: &mut Context<'_>) {
        self.sockets = Some(sockets);
        self.notify(context);
        self.follow_plan(context);
    }

    /// Begins with zones that are new to the rules, ends with those that are gone from them, and tells the others what has
    /// changed. Only the first instance fetches.
    fn follow_plan(&mut self, context: &mut Context<'_>) {
        if !self.is_first || self.publisher.is_none() {
            return;
        }
        let plan = Arc::clone(&self.plan);
        let is_wanted = |apex: &Name| plan.config.zone(apex).is_some_and(|zone| !zone.primaries.is_empty());
        let gone: Vec<(Name, u64)> =
            self.by_apex.iter().filter(|(apex, _)| !is_wanted(apex)).map(|(apex, at)| (apex.clone(), *at)).collect();
        for (apex, number) in gone {
            self.with(number, context, |secondary, tools, context| secondary.end(tools, context));
            self.secondaries.remove(&number);
            self.by_apex.remove(&apex);
            self.control.forget(&apex);
        }
        for (apex, rules) in plan.config.zones.iter().filter(|(_, zone)| !zone.primaries.is_empty()) {
            if let Some(number) = self.by_apex.get(apex).copied() {
                self.with(number, context, |secondary, tools, context| secondary.change(rules, tools, context));
                continue;
            }
            let mut secondary = Secondary::new(apex.clone(), self.next_number, rules);
            let version = self.versions.newest(apex);
            let timing = version.and_then(|version| version.zone.soa().and_then(|soa| Timing::of(soa.data)));
            if let Some(timing) = timing {
                secondary.kept(timing, plan.ages.get(apex).copied().unwrap_or_default());
            }
            self.secondaries.insert(self.next_number, secondary);
            self.by_apex.insert(apex.clone(), self.next_number);
            self.next_number += 1;
            self.with(self.next_number - 1, context, |secondary, tools, context| secondary.start(tools, context));
        }
    }

    /// Works on a secondary, if it is still there, and lets others see how it stands after that.
    fn with(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
        work: impl FnOnce(&mut Secondary, &mut Tools<'_>, &mut Context<'_>),
    ) {
        if self.worker.is_none() {
            self.start_worker();
        }
        let (Some(secondary), Some(worker)) = (self.secondaries.get_mut(&number), &self.worker) else { return };
        let mut tools = Tools {
            worker,
            random: &mut self.random,
            log: &mut self.log,
            now_s: wall_clock_s(),
            control: &self.control,
            figures: &mut self.figures,
            connections: &mut self.connections,
        };
        work(secondary, &mut tools, context);
        secondary.post(&mut tools, context);
    }

    /// With the first zone that is fetched: most servers have none.
    fn start_worker(&mut self) {
        let Some(publisher) = self.publisher.clone() else { return };
        let (versions, control) = (self.versions.clone(), self.control.clone());
        match Worker::start(Workshop { versions, publisher, control, arrival: self.arrival.clone() }) {
            Ok(worker) => self.worker = Some(worker),
            Err(error) => self.log.say(format!("no zone can be fetched: starting the thread that makes them: {error}")),
        }
    }

    fn notify(&mut self, context: &mut Context<'_>) {
        let Some(sockets) = self.sockets.as_ref().filter(|_| self.is_first) else { return };
        let tools = (sockets, &mut self.random, &mut self.log);
        lock(&self.notifier).look(self.versions.serials(), &self.plan.config, tools, wall_clock_s(), context);
    }

    /// The doorbell rang: there is a new catalog, by a reload or because a zone came, or something new from
    /// [`Control`].
    pub fn catalog_changed(&mut self, context: &mut Context<'_>) {
        let results: Vec<_> = self.worker.as_ref().map(|worker| worker.results().collect()).unwrap_or_default();
        for (apex, outcome) in results {
            self.figures.received += u64::from(outcome.is_ok());
            self.figures.unusable += u64::from(outcome.is_err());
            if let Some(number) = self.by_apex.get(&apex).copied() {
                self.with(number, context, |secondary, tools, context| secondary.built(outcome, tools, context));
            }
        }
        if let Some(plan) = self.control.newer(&mut self.generation) {
            self.plan = plan;
            self.follow_plan(context);
        }
        if self.is_first {
            for apex in self.control.take_wanted() {
                self.wanted.extend(self.by_apex.get(&apex));
            }
            self.poll(context);
        }
        self.notify(context);
    }

    /// Goes after what requests taken meanwhile ask for.
    pub fn poll(&mut self, context: &mut Context<'_>) {
        while let Some(number) = self.wanted.pop() {
            self.with(number, context, |secondary, tools, context| secondary.refresh(tools, context));
        }
    }

    /// Whether `event` is of a connection or timer of ours; then it is taken care of.
    pub fn takes(&mut self, event: &Event) -> bool {
        match event {
            Event::Connected { connection }
            | Event::Data { connection, .. }
            | Event::Acked { connection, .. }
            | Event::PeerClosed { connection }
            | Event::Closed { connection, .. } => self.owner(*connection).is_some(),
            Event::Timer { token, .. } => token & TIMER_BIT != 0,
            _ => false,
        }
    }

    fn owner(&self, connection: ConnectionId) -> Option<u64> {
        self.connections.get(&connection).copied()
    }

    /// An event that [is ours](Transfers::takes).
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                if let Some(number) = self.owner(connection) {
                    self.with(number, context, |secondary, tools, context| secondary.connected(tools, context));
                }
            }
            Event::Data { connection, chunk } => {
                if let Some(number) = self.owner(connection) {
                    let bytes = chunk.bytes();
                    self.with(number, context, |secondary, tools, context| secondary.data(bytes, tools, context));
                }
                context.consume(connection, chunk);
            }
            Event::PeerClosed { connection } => {
                if let Some(number) = self.owner(connection) {
                    self.with(number, context, |secondary, tools, context| {
                        secondary.closed("the primary closed it", tools, context);
                    });
                }
                let _ = context.close(connection);
            }
            Event::Closed { connection, why } => {
                if let Some(number) = self.owner(connection) {
                    let why = format!("{why:?}");
                    self.with(number, context, |secondary, tools, context| secondary.closed(&why, tools, context));
                }
            }
            Event::Timer { token, .. } => {
                let number = token & TIMER_NUMBER;
                if token & TIMER_SECONDARY == TIMER_SECONDARY {
                    self.with(number, context, |secondary, tools, context| secondary.timer(tools, context));
                } else if let Some(sockets) = &self.sockets {
                    lock(&self.notifier).send(number as usize, (sockets, &mut self.log), wall_clock_s(), context);
                }
            }
            _ => {}
        }
    }

    /// A message that is itself an answer came by UDP.
    pub fn answered(&mut self, message: &[u8], peer: SocketAddr) {
        if self.plan.config.is_empty() {
            return;
        }
        // A lock: few messages are answers, and few instances take them.
        lock(&self.notifier).answered(message, peer, wall_clock_s(), &mut self.log);
    }

    /// A request that is not an ordinary unsigned question: a transfer, a NOTIFY, or signed. `answer` answers ordinary
    /// questions: it is given the request without its signature.
    pub fn request(
        &mut self,
        message: &[u8],
        (peer, way): (SocketAddr, Way),
        answer: &mut dyn FnMut(&[u8], usize) -> Vec<u8>,
    ) -> Reply {
        let now_s = wall_clock_s();
        let mut request = message.to_vec();
        let signer = match self.plan.config.keys.verify_request(&mut request, now_s) {
            Ok(signer) => signer,
            Err(error) => {
                self.figures.bad_signatures += 1;
                self.log.say(format!("{peer}: {error}"));
                return message_or_nothing(self.plan.config.keys.refusal(message, error, now_s));
            }
        };
        let Some((apex, qtype)) = question(&request) else { return message_or_nothing(refuse(&request, FORMERR)) };
        let is_notify = request.get(2).is_some_and(|flags| flags & 0x78 == OPCODE_NOTIFY);
        let is_transfer = matches!(qtype, rtype::AXFR | rtype::IXFR);
        if is_transfer && !is_notify {
            return self.transfer(&request, (&apex, qtype), (peer, way), signer, now_s);
        }
        let mut reply = if is_notify {
            self.take_notify(&request, &apex, (peer, signer.as_ref()))
        } else {
            let room = room(&request, way);
            answer(&request, room.saturating_sub(signer.as_ref().map_or(0, |signer| tsig::overhead(signer.key()))))
        };
        if let Some(mut signer) = signer
            && !reply.is_empty()
        {
            signer.sign(&mut reply, now_s);
        }
        message_or_nothing(reply)
    }

    fn take_notify(&mut self, request: &[u8], apex: &Name, (peer, signer): (SocketAddr, Option<&Signer>)) -> Vec<u8> {
        // A primary is known by its address, and by its key if it has one.
        let is_primary = |zone: &config::ZoneTransfers| {
            zone.primaries.iter().any(|primary| {
                let key = primary.key.as_ref().map(|key| key.name());
                primary.address.ip() == peer.ip() && (key.is_none() || key == signer.map(|signer| signer.key().name()))
            })
        };
        if !self.plan.config.zone(apex).is_some_and(is_primary) {
            self.figures.notify_refused += 1;
            return refuse(request, NOTAUTH);
        }
        self.figures.notified += 1;
        let number = self.by_apex.get(apex).copied();
        self.wanted.extend(number.filter(|number| !self.wanted.contains(number)));
        // The question back, authoritative (RFC 1996, section 4.7).
        let mut reply = refuse(request, 0);
        if let Some(flags) = reply.get_mut(2) {
            *flags |= 0x04;
        }
        reply
    }

    fn transfer(
        &mut self,
        request: &[u8],
        (apex, qtype): (&Name, u16),
        (peer, way): (SocketAddr, Way),
        mut signer: Option<Signer>,
        now_s: u64,
    ) -> Reply {
        let key = signer.as_ref().map(Signer::key);
        let allowed =
            self.plan.config.zone(apex).is_some_and(|zone| zone.allow.iter().any(|who| who.allows(peer.ip(), key)));
        let version = self.versions.newest(apex).filter(|_| allowed);
        let code = match (&version, way) {
            (None, _) if allowed => NOTAUTH,
            (None, _) => REFUSED,
            // AXFR is TCP's (RFC 5936, section 4.2).
            (Some(_), Way::Udp(_)) if qtype == rtype::AXFR => FORMERR,
            (Some(_), _) => 0,
        };
        let Some(version) = version.filter(|_| code == 0) else {
            self.figures.refused += 1;
            self.log.say(format!("{apex}: transfer to {peer} refused"));
            let mut reply = refuse(request, code);
            if let Some(signer) = &mut signer {
                signer.sign(&mut reply, now_s);
            }
            return message_or_nothing(reply);
        };
        let Some(outgoing) = Outgoing::new(version, request, qtype, signer) else {
            return message_or_nothing(refuse(request, FORMERR));
        };
        let what = match outgoing.kind() {
            Kind::Whole => Some(("the whole zone", &mut self.figures.whole_out)),
            Kind::Steps => Some(("differences", &mut self.figures.steps_out)),
            Kind::Current => {
                self.figures.current_out += 1;
                None
            }
        };
        if let Some((what, count)) = what {
            *count += 1;
            self.log.say(format!("{apex}: serial {} to {peer} ({what})", outgoing.serial()));
        }
        match way {
            Way::Tcp => Reply::Stream(Box::new(outgoing)),
            Way::Udp(_) => message_or_nothing(outgoing.single_message(room(request, way), now_s).unwrap_or_default()),
        }
    }
}

fn lock(notifier: &Mutex<Notifier>) -> MutexGuard<'_, Notifier> {
    notifier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long an answer may be: over UDP what the client's EDNS says, or 512 bytes.
fn room(request: &[u8], way: Way) -> usize {
    let Way::Udp(longest) = way else { return usize::from(u16::MAX) };
    let opt = walk::records(request).ok().and_then(|records| {
        let mut known = records.filter_map(Result::ok);
        known.find(|record| record.rtype == rtype::OPT)
    });
    opt.map_or(UDP_ROOM_MIN, |opt| usize::from(opt.class).max(UDP_ROOM_MIN)).min(longest)
}

fn message_or_nothing(message: Vec<u8>) -> Reply {
    if message.is_empty() { Reply::Nothing } else { Reply::Message(message) }
}

/// The name (small letters) and type of a request's only question.
fn question(request: &[u8]) -> Option<(Name, u16)> {
    let question = Question::parse(request).filter(|_| request.get(4..6) == Some(&[0, 1]))?;
    let name = Name::from_wire(request.get(walk::HEADER_LENGTH..question.name_end)?)?;
    Some((name.to_lowercase(), question.qtype))
}

/// The request's question, if it has one that can be read, with response code `code`; with OPT if the request has that.
fn refuse(request: &[u8], code: u8) -> Vec<u8> {
    let question = Question::parse(request).filter(|_| request.get(4..6) == Some(&[0, 1]));
    let end = question.map_or(walk::HEADER_LENGTH, |question| question.end());
    let mut reply = request.get(..end).unwrap_or_default().to_vec();
    let opt = edns::error_reply(request, UDP_PAYLOAD, code);
    if let Some(header) = reply.first_chunk_mut::<{ walk::HEADER_LENGTH }>() {
        header[2] = 0x80 | header[2] & 0x79;
        header[3] = code;
        header[4..].copy_from_slice(&[0, u8::from(question.is_some()), 0, 0, 0, 0, 0, u8::from(opt.is_some())]);
        append_opt(&mut reply, opt);
    }
    reply
}

/// Appends our OPT record, which the header tells of already.
fn append_opt(message: &mut Vec<u8>, opt: Option<OptReply<'_>>) {
    let Some(opt) = opt else { return };
    let start = message.len();
    message.resize(start + opt.length(), 0);
    opt.write(message, start, start + opt.length());
}

#[cfg(test)]
mod tests {
    use super::*;

    // Attack: identity and names: the next identifier of a name server's requests, from those seen before
    #[test]
    fn identifiers_do_not_tell_the_next() {
        // A linear generator's identifiers, of seeds that differ in one bit, differ by as much whatever the seed.
        let of = |seed: u8, number: usize| {
            let mut key = [7; 16];
            key[0] = seed;
            let mut random = Random::new(key);
            (0..=number).map(|_| random.identifier()).last().unwrap_or_default()
        };
        for number in 0..4 {
            let differences: std::collections::BTreeSet<u16> =
                (0..64).map(|seed| of(2 * seed + 1, number).wrapping_sub(of(2 * seed, number))).collect();
            assert!(differences.len() > 60, "{differences:?}");
        }
    }

    /// A question that cannot be read is not sent back.
    #[test]
    fn a_broken_question_is_refused_without_it() {
        let mut transfers = Transfers::none();
        let mut ask = |request: &[u8]| {
            let from = (SocketAddr::from(([192, 0, 2, 1], 53)), Way::Udp(1_232));
            match transfers.request(request, from, &mut |_, _| Vec::new()) {
                Reply::Message(reply) => reply,
                _ => panic!("no answer"),
            }
        };
        let head = |questions: u8, additional: u8| [1, 2, 0x24, 0, 0, questions, 0, 0, 0, 0, 0, additional];
        let name = b"\x07example\0\0\x06\0\x01";
        let opt = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0];
        let whole = ask(&[&head(1, 1)[..], name, &opt].concat());
        assert_eq!((whole[3], whole.len()), (NOTAUTH, 12 + name.len() + 11));
        assert_eq!(whole[whole.len() - 11..], opt);
        let two = [&head(2, 0)[..], name, name].concat();
        let pointer = [&head(1, 0)[..], b"\xc0\x0c\0\x06\0\x01"].concat();
        let cut = [&head(1, 0)[..], &name[..10]].concat();
        let none = head(0, 0).to_vec();
        for broken in [two, pointer, cut, none] {
            assert_eq!(ask(&broken), [1, 2, 0xa0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "{broken:02x?}");
        }
    }
}
