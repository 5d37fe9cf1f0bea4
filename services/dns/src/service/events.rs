//! Events of the native API, each given to what takes care of it.

use super::server::DnsService;
use crate::answer::{self, edns};
use crate::image::Ready;
use crate::message::HEADER_LENGTH;
use qanat::{Chunk, Commands, Context, Event, ListenOptions, Service, StartError, UdpSocketId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two looks at clocks and idle connections.
const TICK: Duration = Duration::from_millis(250);
const TICK_TOKEN: u64 = 0;

impl DnsService {
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

impl Service for DnsService {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let port = self.config.port;
        // Headers of IPv6 are the larger ones.
        self.payload_max = usize::from(context.capabilities().mtu).saturating_sub(48).max(HEADER_LENGTH);
        self.plain_max = self.payload_max.min(edns::PAYLOAD_MIN);
        // The stack's unspecified addresses stand for one family each.
        let mut sockets = Vec::with_capacity(2);
        for address in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let local = SocketAddr::new(address, port);
            sockets.push(context.bind_udp(local).map_err(StartError::at(local))?);
            self.listeners.push(context.listen(local, ListenOptions::default()).map_err(StartError::at(local))?);
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
