//! [`Layers`]: what is between the stack and a service of HTTPS.

use crate::config::{WebConfig, WebError};
use qanat_http2::{Http2Layer, Http2Limits};
use qanat_tls::TlsLayer;

/// See the module.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) tls: TlsLayer,
    pub(super) http2: Http2Layer,
}

impl Layers {
    /// The layers, if the service is to have them.
    pub(super) fn new(config: &WebConfig) -> Result<Option<Box<Layers>>, WebError> {
        let Some(https) = &config.https else { return Ok(None) };
        let connections_max = u32::try_from(config.limits.connections_max).unwrap_or(u32::MAX);
        let limits = Http2Limits {
            streams_max: https.http2_streams,
            head_bytes_max: config.limits.head_bytes_max,
            requests_max: config.limits.requests_max,
        };
        let tls = TlsLayer::new(https.tls.config.clone(), vec![config.port], connections_max);
        let layers = tls.and_then(|tls| Ok(Box::new(Layers { tls, http2: Http2Layer::new(limits)? })));
        layers.map(Some).map_err(|error| WebError::System { what: "memory for TLS", error })
    }
}
