//! The server on the native API: datagrams answered in the frame they came in; streams, by [`stream`].

mod config;
mod figures;
mod publish;

pub use config::DnsConfig;
pub use figures::Figures;
pub use publish::{CatalogPublisher, CatalogReader};

use crate::answer::{Fate, Origin, Outcome, Responder, Transport};
use crate::image::Catalog;
use crate::message::{HEADER_LENGTH, rcode};
use qanat::{Chunk, Context, Event, Service, UdpSocketId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The service: one instance per queue, all reading from one publisher.
pub struct DnsService {
    config: DnsConfig,
    responder: Responder,
    reader: CatalogReader,
    catalog: Arc<Catalog>,
    figures: Figures,
    /// Largest UDP payload that fits the link.
    payload_max: usize,
    now_s: u32,
}

impl DnsService {
    /// Not yet listening; answers from what `reader` was given last.
    pub fn new(config: DnsConfig, reader: CatalogReader) -> DnsService {
        let catalog = reader.latest();
        DnsService {
            responder: Responder { settings: config.settings.clone() },
            reader,
            catalog,
            figures: Figures::default(),
            payload_max: 1_232,
            now_s: 0,
            config,
        }
    }

    /// What it has done.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    #[inline]
    fn datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, mut chunk: Chunk, context: &mut Context<'_>) {
        let length = chunk.len();
        let whole = length.saturating_add(chunk.room()).min(self.payload_max.max(length));
        let origin =
            Origin { transport: Transport::Udp { payload_max: self.payload_max }, peer: peer.ip(), now_s: self.now_s };
        let Some(message) = chunk.resize(whole) else { return };
        let outcome = self.responder.answer_in_place(&self.catalog, message, length, &origin);
        let outcome = match outcome.fate {
            Fate::Answered | Fate::Silence => outcome,
            fate => self.elsewhere(fate, message),
        };
        self.figures.count(&outcome, length);
        if outcome.length == 0 {
            return;
        }
        if chunk.resize(outcome.length).is_none() || context.send_chunk_to(socket, peer, chunk).is_err() {
            self.figures.not_sent += 1;
        }
    }

    /// Transfers, notifications and signed requests.
    fn elsewhere(&self, fate: Fate, message: &mut [u8]) -> Outcome {
        match fate {
            Fate::Notify => self.responder.refuse(message, None, rcode::NOTAUTH),
            _ => self.responder.refuse(message, None, rcode::REFUSED),
        }
    }
}

impl Service for DnsService {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let port = self.config.port;
        let capabilities = context.capabilities();
        // Headers of IPv6 are the larger ones.
        self.payload_max = usize::from(capabilities.mtu).saturating_sub(48).max(HEADER_LENGTH);
        for address in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let local = SocketAddr::new(address, port);
            context.bind_udp(local).map_err(|error| format!("port {port}: {error}"))?;
        }
        Ok(())
    }

    #[inline]
    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Datagram { socket, peer, chunk } = event {
            self.datagram(socket, peer, chunk, context);
        }
    }

    fn doorbell(&mut self, _token: u64, _context: &mut Context<'_>) {
        if let Some(catalog) = self.reader.take_new() {
            self.catalog = catalog;
        }
    }
}
