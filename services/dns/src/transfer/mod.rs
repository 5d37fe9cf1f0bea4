//! Life with other servers: zones out (AXFR, IXFR, NOTIFY) and in (secondary), signed (TSIG) where configured.
//!
//! ```text
//!   request by TCP or UDP ─ tsig ─┬─ outgoing: AXFR, IXFR ◀── versions: newest zone, differences ◀── reload, worker
//!                                 ├─ notify in ─▶ secondary: refresh, retry, expire; its own connections
//!                                 └─ any other question, answered and signed       │ incoming: what came
//!   versions ─ notify out                                                          └▶ worker: makes zones, publishes
//! ```
//! Ordinary answers never come here.

mod clock;
pub mod config;
pub mod control;
pub mod difference;
mod figures;
mod identifiers;
pub mod incoming;
pub mod kept;
mod log;
mod notify;
pub mod outgoing;
mod replies;
mod secondary;
mod timing;
mod tokens;
pub mod tsig;
pub mod versions;
pub mod walk;
mod worker;

pub use config::TransferConfig;
pub use control::{Control, Plan, Standing};
pub use figures::TransferFigures;
pub use outgoing::Outgoing;
pub use replies::Way;
pub use tokens::TIMER_BIT;
pub use versions::{Version, Versions};
pub use worker::Arrival;

use crate::name::Name;
use crate::publish::CatalogPublisher;
use crate::zone::rtype;
use clock::wall_clock_s;
use identifiers::Random;
use log::Log;
use notify::Notifier;
use outgoing::Kind;
use qanat::{Commands, ConnectionId, Context, Event, UdpSocketId};
use replies::{FORMERR, NOTAUTH, REFUSED, question, refuse, room};
use secondary::{Secondary, Tools};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use timing::Timing;
use tokens::{TIMER_NUMBER, TIMER_SECONDARY};
use tsig::Signer;
use worker::{Worker, Workshop};

/// Ports that transfers are fetched from: few, so that a rule of the control plane can name them, and none that Linux picks
/// for itself, so that an address shared with the kernel has them free.
pub const PORTS: RangeInclusive<u16> = 61_000..=61_255;
const OPCODE_NOTIFY: u8 = 4 << 3;

/// The system gives no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("no entropy: {0}")]
pub struct NoEntropy(io::Error);

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
    /// The plan's generation.
    generation: u64,
    versions: Versions,
    publisher: Option<CatalogPublisher>,
    arrival: Option<Arrival>,
    /// Shared by the instances of a server: only the first sends, but answers may come to any.
    notifier: Arc<Mutex<Notifier>>,
    /// Whether it is the first instance, or the only one.
    is_first: bool,
    /// Zones from elsewhere, by numbers that are never used twice. So events of one that is gone find nothing.
    secondaries: BTreeMap<u64, Secondary>,
    by_apex: BTreeMap<Name, u64>,
    next_number: u64,
    /// Our connections, and the number of the secondary that each belongs to.
    connections: HashMap<ConnectionId, u64>,
    /// Numbers of secondaries whose primary announced a change: see [`Transfers::poll`].
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

    /// Transfers by the rules of `control`, which may change. `versions` has the zones this server is primary of, and those that were
    /// [kept]; the others are fetched, and given to `publisher`.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn new(control: Control, versions: Versions, publisher: &CatalogPublisher) -> Result<Transfers, NoEntropy> {
        let seed = qanat::entropy().map_err(NoEntropy)?;
        let mut key = [0; 16];
        key.copy_from_slice(&seed[..16]);
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
        self.log.take()
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

    /// Starts the thread that makes zones. This happens with the first zone that is fetched, as most servers fetch none.
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

    /// Asks primaries that requests taken meanwhile have announced changes of.
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

    /// Takes a message that came by UDP and is itself an answer.
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

fn message_or_nothing(message: Vec<u8>) -> Reply {
    if message.is_empty() { Reply::Nothing } else { Reply::Message(message) }
}

fn lock(notifier: &Mutex<Notifier>) -> MutexGuard<'_, Notifier> {
    notifier.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

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
