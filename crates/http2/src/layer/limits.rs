//! [`Http2Limits`]: what a peer can make the layer hold or do.

/// Bounds on what clients can make the layer hold or do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Limits {
    /// Requests that a peer may have open at once on a connection. 0: HTTP/2 is not spoken, and every connection passes as it is.
    pub streams_max: u32,
    /// Bytes of a request's fields (beyond: 431).
    pub head_bytes_max: usize,
    /// Requests on one connection, which ends after them. 0: no limit.
    pub requests_max: u32,
}
