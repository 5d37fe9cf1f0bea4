//! How to listen, and how to connect.

use std::net::SocketAddr;

/// How to listen.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListenOptions {
    /// Half-open connections of this listener; 0: only the stack's limit.
    pub backlog: usize,
}

/// How to connect.
///
/// ```
/// use qanat_api::{ConnectOptions, FastOpenRequest};
///
/// // From a fixed port, with the first bytes in the SYN when the server has given a cookie before.
/// let options = ConnectOptions {
///     local: Some("0.0.0.0:5000".parse().unwrap()),
///     fast_open: FastOpenRequest::WithCookie,
///     ..ConnectOptions::default()
/// };
/// assert_eq!(options.receive_window, None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOptions {
    /// Local address and port; `None`: own address of the peer's family and an ephemeral port (RFC 6056).
    pub local: Option<SocketAddr>,
    /// Segments have at most so many bytes after their headers, both ways; `None`: what the device takes.
    pub maximum_segment: Option<u16>,
    /// The receive window is at most so large, and its scale is chosen for it; `None`: as the stack is configured.
    pub receive_window: Option<u32>,
    /// Whether the SYN takes data along.
    pub fast_open: FastOpenRequest,
}

/// TCP Fast Open of an active open (RFC 7413). What is sent on the connection before the SYN
/// leaves goes with it, as far as there is room; the rest follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FastOpenRequest {
    /// The SYN takes no data along.
    #[default]
    No,
    /// The SYN takes data along if the server has given a cookie before. If not, a cookie is asked for.
    WithCookie,
    /// The SYN takes data along without a cookie: the server is known to accept that.
    WithoutCookie,
}
