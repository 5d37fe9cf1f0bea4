//! The server's state: one instance per queue, and what both protocols do in the same way.

use super::config::DnsConfig;
use super::figures::{Figures, PlainFigures};
use super::look_ahead::LookAhead;
use super::query_log::{QueryLog, QueryLogError};
use super::rate_limit::RateLimiter;
use super::streams::{MESSAGE_BYTES, Streams};
use crate::answer::question::Question;
use crate::answer::{Fate, Origin, Outcome, Responder, Transport, edns};
use crate::image::{Catalog, ZoneImage};
use crate::message::HEADER_LENGTH;
use crate::publish::CatalogReader;
use crate::transfer::{Reply, Transfers, Way};
use qanat::ListenerId;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The service: one instance per queue, all reading from one publisher.
pub struct DnsService {
    pub(super) config: DnsConfig,
    pub(super) responder: Responder,
    pub(super) reader: CatalogReader,
    pub(super) catalog: Arc<Catalog>,
    /// The only zone, if it is small and nothing wants to know of each answer: then most need no more than `datagram`.
    pub(super) direct: Option<Arc<ZoneImage>>,
    pub(super) figures: Figures,
    pub(super) plain_figures: PlainFigures,
    pub(super) limiter: Option<RateLimiter>,
    pub(super) log: Option<QueryLog>,
    pub(super) streams: Streams,
    pub(super) transfers: Transfers,
    pub(super) look_ahead: LookAhead,
    pub(super) listeners: Vec<ListenerId>,
    /// For one message of a stream.
    pub(super) buffer: Vec<u8>,
    /// Largest UDP payload that fits the link.
    pub(super) payload_max: usize,
    /// Largest UDP payload of an answer to a request that does not say what its client takes.
    pub(super) plain_max: usize,
    /// Seconds since 1970, as of the last tick.
    pub(super) now_s: u32,
    pub(super) stopping: bool,
}

impl DnsService {
    /// Not yet listening; answers from what `reader` was given last. `secret`, unpredictable, is the rate limiter's.
    ///
    /// # Errors
    /// The query log cannot be opened.
    pub fn new(config: DnsConfig, reader: CatalogReader, secret: [u8; 16]) -> Result<DnsService, QueryLogError> {
        let log = match &config.log {
            Some(log) => Some(QueryLog::open(log)?),
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
            streams: Streams::default(),
            transfers: Transfers::none(),
            look_ahead: LookAhead::new(),
            listeners: Vec::new(),
            buffer: Vec::with_capacity(MESSAGE_BYTES),
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
    pub(super) fn take_catalog(&mut self, catalog: Arc<Catalog>) {
        let is_watched = self.limiter.is_some() || self.log.is_some();
        self.direct = catalog.only().filter(|zone| !zone.is_large() && !is_watched).map(Arc::clone);
        self.catalog = catalog;
    }

    /// The service with zones that come from and go to other servers. Further instances get [siblings](Transfers::sibling).
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

    #[inline]
    pub(super) fn now_s(&self) -> u32 {
        self.now_s
    }

    #[inline]
    pub(super) fn count(
        &mut self,
        outcome: &Outcome,
        length: usize,
        message: &[u8],
        peer: SocketAddr,
        transport: Transport,
    ) {
        self.figures.count(outcome, length);
        if let Some(log) = &mut self.log {
            log.query(outcome, message, peer, transport);
        }
    }

    /// Transfers, notifications and signed requests.
    pub(super) fn elsewhere(&mut self, request: &[u8], peer: SocketAddr, way: Way) -> Reply {
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
}

/// An outcome for counting of a reply made elsewhere to `request`, which goes into `message`.
pub(super) fn written(reply: Reply, request: &[u8], message: &mut [u8]) -> Outcome {
    let nothing = Outcome::of(Fate::Silence);
    let Reply::Message(bytes) = reply else { return nothing };
    let Some(target) = message.get_mut(..bytes.len()) else { return nothing };
    target.copy_from_slice(&bytes);
    let rcode = bytes.get(3).map_or(0, |flags| flags & 0xf);
    Outcome { length: bytes.len(), rcode, ..asked(request) }
}

/// An outcome that has what `request` asks for.
pub(super) fn asked(request: &[u8]) -> Outcome {
    let question = Question::parse(request).filter(|_| request.get(4..6) == Some(&[0, 1]));
    let (qtype, question_end) = question.map_or((0, HEADER_LENGTH), |question| (question.qtype, question.end()));
    Outcome { qtype, question_end, ..Outcome::of(Fate::Answered) }
}
