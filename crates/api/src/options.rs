//! How to listen, and how to connect.

use std::net::SocketAddr;

/// How to listen.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListenOptions {
    /// Half-open connections of this listener; 0: only the stack's limit.
    pub backlog: usize,
}

/// How to connect.
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
    /// No.
    #[default]
    No,
    /// With the cookie that the server has given before; without one it is asked for.
    WithCookie,
    /// The server takes data without a cookie.
    WithoutCookie,
}
