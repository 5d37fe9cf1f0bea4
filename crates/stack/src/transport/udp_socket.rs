//! UDP sockets, and what ICMP says of their datagrams.

use qanat_api::{CloseReason, UdpSocketId};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// ICMP's word on a datagram that was sent: it did not arrive.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct UdpError {
    /// The socket that sent it.
    pub socket: UdpSocketId,
    /// Where it was to go.
    pub peer: SocketAddr,
    /// Why it did not.
    pub why: CloseReason,
    /// Nor will the next (RFC 1122 section 4.2.3.9).
    pub is_hard: bool,
    /// How much of its payload the message quotes.
    pub payload: Vec<u8>,
}

/// A bound socket.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct UdpSocket {
    pub(super) local: SocketAddr,
    /// `local` is of IPv4: its address, and its port as it stands in a header.
    pub(crate) is_v4: bool,
    pub(crate) source: Ipv4Addr,
    pub(crate) raw_port: u16,
}

impl UdpSocket {
    pub(super) fn new(local: SocketAddr) -> UdpSocket {
        let (is_v4, source) = match local.ip() {
            IpAddr::V4(source) => (true, source),
            IpAddr::V6(_) => (false, Ipv4Addr::UNSPECIFIED),
        };
        UdpSocket { local, is_v4, source, raw_port: local.port().to_be() }
    }
}
