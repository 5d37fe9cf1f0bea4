//! HTTPS: the layer of TLS below the service, and the port where plain requests are told to ask by HTTPS.
//!
//! ```text
//!  stack ── Event ──► TlsLayer ── Event ──► WebService::on_event
//!        ◄─ Commands ─ TlsLayer::over ◄──── its commands
//! ```
//! The service is the same with the layer and without it: it takes events, and gives commands to whatever is below.

use super::{Commands, WebConfig, WebError, WebService};
use qanat::{ConnectionId, Event};
use qanat_tls::TlsLayer;
use std::sync::PoisonError;

/// The port of HTTPS, which addresses need not name.
const HTTPS_PORT: u16 = 443;

impl WebService {
    /// The layer, if the service is to have one.
    pub(super) fn tls_layer(config: &WebConfig) -> Result<Option<Box<TlsLayer>>, WebError> {
        let Some(https) = &config.https else { return Ok(None) };
        let connections_max = u32::try_from(config.limits.connections_max).unwrap_or(u32::MAX);
        let layer = TlsLayer::new(https.tls.config.clone(), vec![config.port], connections_max);
        layer.map(|layer| Some(Box::new(layer))).map_err(|error| WebError::System { what: "memory for TLS", error })
    }

    /// As `on_start`, over the layer if there is one.
    pub(super) fn start_over<C: Commands>(&mut self, below: &mut C) -> Result<(), WebError> {
        let Some(mut tls) = self.tls.take() else { return self.on_start(below) };
        let outcome = self.on_start(&mut tls.over(below));
        self.go_on(tls, below);
        outcome
    }

    /// As `on_event`, over this layer.
    pub(super) fn handle_over<C: Commands>(&mut self, mut tls: Box<TlsLayer>, event: Event, below: &mut C) {
        tls.take(event);
        self.go_on(tls, below);
    }

    /// As `on_doorbell`, over the layer if there is one.
    pub(super) fn doorbell_over<C: Commands>(&mut self, below: &mut C) {
        let Some(mut tls) = self.tls.take() else { return self.on_doorbell(below) };
        if let Some(new) = self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tls.set_config(new.config);
        }
        self.on_doorbell(&mut tls.over(below));
        self.go_on(tls, below);
    }

    /// As `on_stop`, over the layer if there is one.
    pub(super) fn stop_over<C: Commands>(&mut self, below: &mut C) {
        let Some(mut tls) = self.tls.take() else { return self.on_stop(below) };
        self.on_stop(&mut tls.over(below));
        self.go_on(tls, below);
    }

    /// Tells the service all that the layer has for it.
    fn go_on<C: Commands>(&mut self, mut tls: Box<TlsLayer>, below: &mut C) {
        while let Some(event) = tls.next(below) {
            self.on_event(event, &mut tls.over(below));
        }
        self.figures.tls = tls.figures();
        self.tls = Some(tls);
    }

    /// What browsers are told about asking by HTTPS alone.
    pub(super) fn strict_transport(&self) -> Option<String> {
        let seconds = self.config.https.as_ref().map_or(0, |https| https.hsts_seconds);
        (seconds > 0).then(|| format!("max-age={seconds}"))
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
