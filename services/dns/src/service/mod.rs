//! The server on the native API: datagrams answered in the frame they came in; streams, by [`stream`].

mod config;
mod figures;
mod look_ahead;
pub mod metrics;
mod publish;
mod query_log;
mod rate_limit;
mod stream;

pub use crate::counted::{RCODES, TYPES};
pub use config::{ConfigError, DnsConfig, FileConfig, IDENTITY_BYTES_MAX, LogConfig, TcpLimits, ZoneFile, ZoneRules};
pub use figures::Figures;
pub use publish::{CatalogPublisher, CatalogReader};
pub use rate_limit::{Decision, RateLimiter, RateLimits};

use crate::answer::question::{Question, flags};
use crate::answer::{self, Fate, Origin, Outcome, Responder, Transport, edns};
use crate::image::{Catalog, Ready, ZoneImage};
use crate::message::HEADER_LENGTH;
use crate::transfer::{Reply, Transfers, Way};
use figures::PlainFigures;
use look_ahead::LookAhead;
use qanat::{Chunk, Commands, Context, Event, ListenOptions, ListenerId, Service, Time, UdpSocketId};
use query_log::QueryLog;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two looks at clocks and idle connections.
const TICK: Duration = Duration::from_millis(250);
const TICK_TOKEN: u64 = 0;

/// The service: one instance per queue, all reading from one publisher.
pub struct DnsService {
    config: DnsConfig,
    responder: Responder,
    reader: CatalogReader,
    catalog: Arc<Catalog>,
    /// The only zone, if it is small and nothing wants to know of each answer: then most need no more than `datagram`.
    direct: Option<Arc<ZoneImage>>,
    figures: Figures,
    plain_figures: PlainFigures,
    limiter: Option<RateLimiter>,
    log: Option<QueryLog>,
    streams: stream::Streams,
    transfers: Transfers,
    look_ahead: LookAhead,
    listeners: Vec<ListenerId>,
    /// For one message of a stream.
    buffer: Vec<u8>,
    /// Largest UDP payload that fits the link.
    payload_max: usize,
    /// The same of answers to requests that do not say what they take.
    plain_max: usize,
    /// Seconds since 1970, as of the last tick.
    now_s: u32,
    stopping: bool,
}

impl DnsService {
    /// Not yet listening; answers from what `reader` was given last. `secret`, unpredictable, is the rate limiter's.
    ///
    /// # Errors
    /// The query log cannot be opened.
    pub fn new(config: DnsConfig, reader: CatalogReader, secret: [u8; 16]) -> Result<DnsService, String> {
        let log = match &config.log {
            Some(log) => Some(QueryLog::open(log).map_err(|error| {
                format!("query log {}: {error}; name a file that this user may write", log.file.display())
            })?),
            None => None,
        };
        let mut settings = config.settings.clone();
        settings.keepalive = u16::try_from(config.tcp.idle_timeout.as_millis() / 100).ok();
        let catalog = reader.latest();
        let mut service = DnsService {
            responder: Responder { settings },
            catalog: Arc::clone(&catalog),
            reader,
            direct: None,
            figures: Figures::default(),
            plain_figures: PlainFigures::default(),
            limiter: RateLimiter::new(&config.rate_limits, secret),
            log,
            streams: stream::Streams::default(),
            transfers: Transfers::none(),
            look_ahead: LookAhead::new(),
            listeners: Vec::new(),
            buffer: Vec::with_capacity(stream::MESSAGE_BYTES),
            payload_max: 1_232,
            plain_max: edns::PAYLOAD_MIN,
            now_s: 0,
            stopping: false,
            config,
        };
        service.take_catalog(catalog);
        Ok(service)
    }

    /// Answers from `catalog` from now on.
    fn take_catalog(&mut self, catalog: Arc<Catalog>) {
        let is_watched = self.limiter.is_some() || self.log.is_some();
        self.direct = catalog.only().filter(|zone| !zone.is_large() && !is_watched).map(Arc::clone);
        self.catalog = catalog;
    }

    /// With zones that come from and go to other servers. Further instances get [siblings](Transfers::sibling).
    #[must_use]
    pub fn with_transfers(self, transfers: Transfers) -> DnsService {
        DnsService { transfers, ..self }
    }

    /// Transfers: their figures, and what the operator should know.
    pub fn transfers(&mut self) -> &mut Transfers {
        &mut self.transfers
    }

    /// Readable when there are other zones.
    pub fn doorbell_fd(&self) -> BorrowedFd<'_> {
        self.reader.doorbell_fd()
    }

    /// What it has done.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures {
            connections_open: self.streams.open() as u64,
            log_drops: self.log.as_ref().map_or(0, |log| log.drops),
            ..self.figures
        };
        self.plain_figures.add_to(&mut figures);
        figures
    }

    fn now_s(&self) -> u32 {
        self.now_s
    }

    /// Of any kind.
    #[inline]
    fn any_datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, mut chunk: Chunk, context: &mut Context<'_>) {
        let length = chunk.len();
        let plain = self.catalog.only().and_then(|zone| answer::plain_datagram(zone, &mut chunk, self.plain_max));
        if let Some(outcome) = plain {
            // What is known of such an outcome needs no looking at.
            if self.limiter.is_some() || self.log.is_some() {
                return self.send(outcome, length, socket, peer, chunk, context);
            }
            self.figures.count(&outcome, length);
            self.figures.not_sent += u64::from(context.send_chunk_to(socket, peer, chunk).is_err());
            return;
        }
        self.other_datagram(socket, peer, chunk, context);
    }

    /// One that is no plain question for what lies ready.
    #[inline]
    fn other_datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, mut chunk: Chunk, context: &mut Context<'_>) {
        let length = chunk.len();
        let whole = length.saturating_add(chunk.room()).min(self.payload_max.max(length));
        let Some(message) = chunk.resize(whole) else { return };
        let outcome = self.unusual_datagram(message, length, peer, context);
        self.send(outcome, length, socket, peer, chunk, context);
    }

    #[inline(never)]
    fn unusual_datagram(
        &mut self,
        message: &mut [u8],
        length: usize,
        peer: SocketAddr,
        context: &mut Context<'_>,
    ) -> Outcome {
        let transport = Transport::Udp { payload_max: self.payload_max };
        let origin = Origin { transport, peer: peer.ip(), now_s: self.now_s };
        let outcome = self.responder.answer_in_place(&self.catalog, message, length, &origin);
        match outcome.fate {
            Fate::Answered => outcome,
            Fate::Silence => {
                self.transfers.answered(message.get(..length).unwrap_or_default(), peer);
                outcome
            }
            _ => {
                let request = message.get(..length).unwrap_or_default().to_vec();
                let reply = self.elsewhere(&request, peer, Way::Udp(self.payload_max));
                self.transfers.poll(context);
                written(reply, &request, message)
            }
        }
    }

    /// Sends the answer in `chunk` to a request of `length` bytes, unless there are too many such.
    #[inline(never)]
    fn send(
        &mut self,
        mut outcome: Outcome,
        length: usize,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut chunk: Chunk,
        context: &mut Context<'_>,
    ) {
        if let Some(limiter) = &mut self.limiter
            && outcome.length > 0
        {
            let now_ms = (context.now().since(Time::ZERO).as_millis() & u128::from(u32::MAX)) as u32;
            // A copy: what nobody points to stays in registers.
            match limiter.decide(&{ outcome }, peer.ip(), now_ms) {
                Decision::Send => {}
                Decision::Slip => {
                    if let Some(message) = chunk.resize(outcome.length) {
                        outcome = truncate(message, outcome);
                    }
                    self.figures.slipped += 1;
                }
                Decision::Drop => {
                    self.figures.limited += 1;
                    self.figures.requests += 1;
                    return;
                }
            }
        }
        self.figures.count(&outcome, length);
        if let Some(log) = &mut self.log {
            log.query(&outcome, chunk.bytes(), peer, Transport::Udp { payload_max: self.payload_max });
        }
        if outcome.length == 0 {
            return;
        }
        if chunk.len() > outcome.length {
            chunk.truncate(outcome.length);
        }
        if context.send_chunk_to(socket, peer, chunk).is_err() {
            self.figures.not_sent += 1;
        }
    }

    fn count(&mut self, outcome: &Outcome, length: usize, message: &[u8], peer: SocketAddr, transport: Transport) {
        self.figures.count(outcome, length);
        if let Some(log) = &mut self.log {
            log.query(outcome, message, peer, transport);
        }
    }

    /// Transfers, notifications and signed requests.
    fn elsewhere(&mut self, request: &[u8], peer: SocketAddr, way: Way) -> Reply {
        let (responder, catalog, now_s) = (&self.responder, &self.catalog, self.now_s);
        let mut answer = |request: &[u8], room: usize| {
            let transport = match way {
                Way::Tcp => Transport::Tcp,
                Way::Udp(_) => Transport::Udp { payload_max: room },
            };
            let mut out = vec![0; room];
            let outcome = responder.answer(catalog, request, &Origin { transport, peer: peer.ip(), now_s }, &mut out);
            out.truncate(outcome.length);
            out
        };
        self.transfers.request(request, (peer, way), &mut answer)
    }

    /// What is not answered the shortest way. `is_other`: a datagram of which it is known that it can't be.
    #[inline(never)]
    fn handle_any(&mut self, event: Event, is_other: bool, context: &mut Context<'_>) {
        match event {
            Event::Datagram { socket, peer, chunk } if is_other => self.other_datagram(socket, peer, chunk, context),
            Event::Datagram { socket, peer, chunk } if self.catalog.only().is_some_and(|zone| zone.is_large()) => {
                self.datagram_in_group(socket, peer, chunk, context);
            }
            Event::Datagram { socket, peer, chunk } => self.any_datagram(socket, peer, chunk, context),
            event if self.transfers.takes(&event) => self.transfers.handle(event, context),
            Event::Data { connection, chunk } => {
                self.data(connection, chunk, context);
                self.transfers.poll(context);
            }
            Event::Acked { connection, bytes } => self.acknowledged(connection, bytes as usize, context),
            Event::Accepted { connection, peer, .. } => self.accepted(connection, peer, context),
            Event::PeerClosed { connection } => self.peer_closed(connection, context),
            Event::Closed { connection, .. } => self.closed(connection),
            Event::Timer { token: TICK_TOKEN, .. } => self.tick(context),
            // Nothing else was asked for.
            _ => {}
        }
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Modulo 2³², as cookies have it.
        self.now_s = (since.as_secs() & u64::from(u32::MAX)) as u32;
        if self.streams.open() > 0 {
            self.sweep(context);
        }
        // No timer left: idle connections stay until there is one again.
        let _ = context.set_timer(TICK, TICK_TOKEN);
    }
}

/// An outcome for counting of a reply made elsewhere to `request`, which goes into `message`.
fn written(reply: Reply, request: &[u8], message: &mut [u8]) -> Outcome {
    let nothing = Outcome::of(Fate::Silence);
    let Reply::Message(bytes) = reply else { return nothing };
    let Some(target) = message.get_mut(..bytes.len()) else { return nothing };
    target.copy_from_slice(&bytes);
    let rcode = bytes.get(3).map_or(0, |flags| flags & 0xf);
    Outcome { length: bytes.len(), rcode, ..asked(request) }
}

/// An outcome that has what `request` asks for.
fn asked(request: &[u8]) -> Outcome {
    let question = Question::parse(request).filter(|_| request.get(4..6) == Some(&[0, 1]));
    let (qtype, question_end) = question.map_or((0, HEADER_LENGTH), |question| (question.qtype, question.end()));
    Outcome { qtype, question_end, ..Outcome::of(Fate::Answered) }
}

/// Takes the records out of an answer and sets TC: the client is to come by TCP. OPT stays (RFC 6891 section 6.1.1).
fn truncate(message: &mut [u8], outcome: Outcome) -> Outcome {
    let opt = edns::locate(message);
    let question_end = outcome.question_end.min(outcome.length);
    if let Some(header) = message.first_chunk_mut::<HEADER_LENGTH>() {
        header[2] |= flags::TC;
        header[6..].copy_from_slice(&[0, 0, 0, 0, 0, u8::from(opt.is_some())]);
    }
    let length = opt.map_or(question_end, |opt| {
        // It is the last record.
        message.copy_within(opt..outcome.length, question_end);
        question_end + outcome.length - opt
    });
    Outcome { length, truncated: true, ..outcome }
}

impl Service for DnsService {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let port = self.config.port;
        let failed = |error: qanat::CommandError| format!("port {port}: {error}");
        // Headers of IPv6 are the larger ones.
        self.payload_max = usize::from(context.capabilities().mtu).saturating_sub(48).max(HEADER_LENGTH);
        self.plain_max = self.payload_max.min(edns::PAYLOAD_MIN);
        // The stack's unspecified addresses stand for one family each.
        let mut sockets = Vec::with_capacity(2);
        for address in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let local = SocketAddr::new(address, port);
            sockets.push(context.bind_udp(local).map_err(failed)?);
            self.listeners.push(context.listen(local, ListenOptions::default()).map_err(failed)?);
        }
        self.tick(context);
        if let [v4, v6] = *sockets {
            self.transfers.start([v4, v6], context);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.handle_any(event, false, context);
    }

    // Most of what comes: the answer lies ready in the only zone, and nobody wants to know of it.
    #[inline(always)]
    fn datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, mut chunk: Chunk, context: &mut Context<'_>) {
        let length = chunk.len();
        if let Some(zone) = &self.direct
            && let Some(ready) = answer::find_ready(zone, chunk.bytes(), self.plain_max).and_then(Ready::of)
            && chunk.answer_in_place(ready.records, ready.sum(), |front| ready.header(front))
        {
            self.plain_figures.count(ready.type_place(), length, ready.records.len());
            if context.send_chunk_to(socket, peer, chunk).is_err() {
                self.figures.not_sent += 1;
            }
            return;
        }
        let peer = SocketAddr::new(peer.ip(), peer.port());
        self.handle_any(Event::Datagram { socket, peer, chunk }, self.direct.is_some(), &mut context.anew());
    }

    fn turn_ended(&mut self, context: &mut Context<'_>) {
        self.answer_group(context);
    }

    fn doorbell(&mut self, _token: u64, context: &mut Context<'_>) {
        if let Some(catalog) = self.reader.take_new() {
            self.take_catalog(catalog);
        }
        self.transfers.catalog_changed(context);
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        self.stopping = true;
        for listener in self.listeners.drain(..) {
            let _ = context.close_listener(listener);
        }
        self.close_idle(context);
    }

    fn is_finished(&self) -> bool {
        self.streams.open() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slips_keeps_its_opt() {
        let question = b"\x12\x34\x84\0\0\x01\0\x01\0\0\0\0\x03www\0\0\x01\0\x01";
        let record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
        let opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\x06\0\x03\0\x02me";
        for (with_opt, counts) in [(false, [0; 6]), (true, [0, 0, 0, 0, 0, 1])] {
            let mut message = [&question[..], record, if with_opt { opt } else { b"" }].concat();
            message[11] = u8::from(with_opt);
            let length = message.len();
            let outcome = Outcome { length, question_end: question.len(), ..Outcome::of(Fate::Answered) };
            message.extend_from_slice(&[0xff; 20]);
            let outcome = truncate(&mut message, outcome);
            let expected = [&question[..], if with_opt { opt } else { b"" }].concat();
            assert_eq!((outcome.truncated, outcome.length), (true, expected.len()));
            assert_eq!(message[12..outcome.length], expected[12..]);
            assert_eq!((message[2], &message[6..12]), (0x86, &counts[..]));
        }
    }
}
