//! [`Http2Figures`]: what the layer counts.

use serde::Serialize;

/// Counters since start. Plain numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Http2Figures {
    /// Connections that began with HTTP/2's preface.
    pub carriers: u64,
    /// Requests that the service was given.
    pub requests: u64,
    /// Requests that were malformed: their streams were reset.
    pub requests_malformed: u64,
    /// Requests that the layer answered itself: their heads were too large, or they asked for a tunnel.
    pub requests_answered: u64,
    /// Requests for which nothing was done: there were too many at once, or the connection was about to end.
    pub requests_refused: u64,
    /// Streams that the peer reset before it had all of the response.
    pub streams_reset_by_peer: u64,
    /// Streams that this side reset, because of a fault of the peer's or of the service's.
    pub streams_reset: u64,
    /// Connections that ended with an error, because of what the peer sent.
    pub carriers_failed: u64,
    /// Of these, those that made this side do more than is reasonable: floods of frames, of resets, of parts of a head.
    pub floods: u64,
}

impl Http2Figures {
    /// Goes on counting where a service that has ended stopped.
    pub fn add(&mut self, ended: &Http2Figures) {
        let pairs = [
            (&mut self.carriers, ended.carriers),
            (&mut self.requests, ended.requests),
            (&mut self.requests_malformed, ended.requests_malformed),
            (&mut self.requests_answered, ended.requests_answered),
            (&mut self.requests_refused, ended.requests_refused),
            (&mut self.streams_reset_by_peer, ended.streams_reset_by_peer),
            (&mut self.streams_reset, ended.streams_reset),
            (&mut self.carriers_failed, ended.carriers_failed),
            (&mut self.floods, ended.floods),
        ];
        pairs.into_iter().for_each(|(count, before)| *count += before);
    }
}
