//! [`TlsFigures`]: what the layer counts.

use serde::Serialize;

/// Counters since start. Plain numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TlsFigures {
    /// Handshakes that ended well.
    pub handshakes: u64,
    /// Of these, those that went on with the secrets of an earlier connection.
    pub handshakes_resumed: u64,
    /// Of these, those of TLS 1.2.
    pub handshakes_tls12: u64,
    /// Handshakes that failed: what came was no TLS that is spoken here, or the peer gave up.
    pub handshakes_failed: u64,
    /// Of these, those whose first bytes were a request of plain HTTP. They were answered.
    pub plain_requests: u64,
    /// Connections that failed after their handshake, with an alert to the peer.
    pub connections_failed: u64,
    /// Fatal alerts of peers.
    pub alerts_received: u64,
    /// Records of content sealed.
    pub records_sealed: u64,
    /// Records opened.
    pub records_opened: u64,
    /// New keys, of either side.
    pub key_updates: u64,
    /// Times a connection had to wait because it held as much as it may have, or all memory for what is opened was in use.
    pub receive_waits: u64,
}

impl TlsFigures {
    /// Goes on counting where a service that has ended stopped.
    pub fn add(&mut self, ended: &TlsFigures) {
        let pairs = [
            (&mut self.handshakes, ended.handshakes),
            (&mut self.handshakes_resumed, ended.handshakes_resumed),
            (&mut self.handshakes_tls12, ended.handshakes_tls12),
            (&mut self.handshakes_failed, ended.handshakes_failed),
            (&mut self.plain_requests, ended.plain_requests),
            (&mut self.connections_failed, ended.connections_failed),
            (&mut self.alerts_received, ended.alerts_received),
            (&mut self.records_sealed, ended.records_sealed),
            (&mut self.records_opened, ended.records_opened),
            (&mut self.key_updates, ended.key_updates),
            (&mut self.receive_waits, ended.receive_waits),
        ];
        pairs.into_iter().for_each(|(count, before)| *count += before);
    }
}
