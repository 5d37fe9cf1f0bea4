//! HTTPS: the layers of TLS and HTTP/2 below the service, and the port where plain requests are told to ask by HTTPS.
//!
//! ```text
//!  stack ── Event ──► TlsLayer ── Event ──► Http2Layer ── Event ──► WebService::on_event
//!        ◄─ Commands ─ TlsLayer::over ◄─── Http2Layer::over ◄────── its commands
//! ```
//! The service is the same with the layers and without them: it takes events, and gives commands to whatever is below. A stream of HTTP/2
//! is a connection with one request; the connection it is on is known to the service only so that it counts, and ends when it is not used.

use super::connection::Phase;
use super::desk::Arrived;
use super::layers::Layers;
use super::{Commands, WebError, WebService, milliseconds};
use qanat::{ConnectionId, Event};
use qanat_http2::ALPN;
use std::sync::PoisonError;

/// The port of HTTPS, which addresses need not name.
const HTTPS_PORT: u16 = 443;

impl WebService {
    /// As `on_start`, over the layers if there are any.
    pub(super) fn start_over<C: Commands>(&mut self, below: &mut C) -> Result<(), WebError> {
        let Some(mut layers) = self.layers.take() else { return self.on_start(below) };
        let Layers { tls, http2 } = &mut *layers;
        let outcome = self.on_start(&mut http2.over(&mut tls.over(below)));
        self.go_on(layers, below);
        outcome
    }

    /// As `on_event`, over these layers.
    pub(super) fn handle_over<C: Commands>(&mut self, mut layers: Box<Layers>, event: Event, below: &mut C) {
        layers.tls.take(event);
        self.go_on(layers, below);
    }

    /// As `on_arrived`, over the layers if there are any.
    pub(super) fn arrived_over<C: Commands>(&mut self, arrived: Arrived, below: &mut C) {
        let Some(mut layers) = self.layers.take() else { return self.on_arrived(arrived, below) };
        let Layers { tls, http2 } = &mut *layers;
        self.on_arrived(arrived, &mut http2.over(&mut tls.over(below)));
        self.go_on(layers, below);
    }

    /// As `on_opened`, over the layers if there are any.
    pub(super) fn opened_over<C: Commands>(&mut self, waiting: Vec<ConnectionId>, below: &mut C) {
        let Some(mut layers) = self.layers.take() else { return self.on_opened(waiting, below) };
        let Layers { tls, http2 } = &mut *layers;
        self.on_opened(waiting, &mut http2.over(&mut tls.over(below)));
        self.go_on(layers, below);
    }

    /// As `on_doorbell`, over the layers if there are any.
    pub(super) fn doorbell_over<C: Commands>(&mut self, below: &mut C) {
        let Some(mut layers) = self.layers.take() else { return self.on_doorbell(below) };
        let Layers { tls, http2 } = &mut *layers;
        if let Some(new) = self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tls.set_config(new.config);
        }
        self.on_doorbell(&mut http2.over(&mut tls.over(below)));
        self.go_on(layers, below);
    }

    /// As `on_stop`, over the layers if there are any.
    pub(super) fn stop_over<C: Commands>(&mut self, below: &mut C) {
        let Some(mut layers) = self.layers.take() else { return self.on_stop(below) };
        let Layers { tls, http2 } = &mut *layers;
        self.on_stop(&mut http2.over(&mut tls.over(below)));
        self.go_on(layers, below);
    }

    /// Tells the service all that the layers have for it.
    fn go_on<C: Commands>(&mut self, mut layers: Box<Layers>, below: &mut C) {
        let Layers { tls, http2 } = &mut *layers;
        loop {
            while let Some(event) = http2.next(&mut tls.over(below)) {
                let stream = match event {
                    Event::Accepted { connection, .. } | Event::Acked { connection, .. } => Some(connection),
                    _ => None,
                };
                let stream = stream.and_then(|stream| Some((stream, http2.carrier_of(stream)?)));
                let mut over = tls.over(below);
                self.on_event(event, &mut http2.over(&mut over));
                if let Some((stream, carrier)) = stream {
                    self.note_stream(stream, carrier, milliseconds(over.now()));
                }
            }
            let Some(event) = tls.next(below) else { break };
            if let Event::Data { connection, .. } = &event
                && tls.protocol(*connection).is_some_and(|protocol| protocol == ALPN.as_bytes())
            {
                http2.promise(*connection);
            }
            http2.take(event, &mut tls.over(below));
        }
        self.figures.tls = tls.figures();
        self.figures.http2 = http2.figures();
        self.layers = Some(layers);
    }

    /// Something happened on a stream of a carrier.
    fn note_stream(&mut self, stream: ConnectionId, carrier: ConnectionId, now_ms: u32) {
        if let Some(connection) = self.connections.get(stream) {
            connection.is_stream = true;
        }
        if let Some(connection) = self.connections.get(carrier) {
            connection.is_carrier = true;
            connection.since_ms = now_ms;
            if connection.phase == Phase::Idle {
                connection.phase = Phase::Carrying;
            }
        }
    }

    /// Fields of every response for a host, but for prepared ones, which have them.
    pub(super) fn common_fields(&self, host: &[u8], is_redirected: bool) -> [&str; 2] {
        let strict = if is_redirected { "" } else { self.plan.strict.as_str() };
        [strict, self.sites.of(host).map_or("", |site| site.common.as_str())]
    }

    /// The address by HTTPS of what was asked for; `None`: the request names no host.
    pub(super) fn https_address(&self, host: &[u8], path_and_query: &[u8]) -> Option<String> {
        let host = std::str::from_utf8(host).ok()?;
        // A port is behind the last colon, if that is not one of an IPv6 address.
        let name = match host.rsplit_once(':') {
            Some((name, _)) if !host.ends_with(']') => name,
            _ => host,
        };
        let path = std::str::from_utf8(path_and_query).ok().filter(|path| path.starts_with('/')).unwrap_or("/");
        let port = self.config.port;
        (!name.is_empty()).then(|| match port {
            HTTPS_PORT => format!("https://{name}{path}"),
            port => format!("https://{name}:{port}{path}"),
        })
    }

    /// Whether a connection came to the port where all is told to ask by HTTPS.
    pub(super) fn is_redirected(&mut self, id: ConnectionId) -> bool {
        !self.redirecting.is_empty() && self.connections.get(id).is_some_and(|connection| connection.is_redirected)
    }
}
