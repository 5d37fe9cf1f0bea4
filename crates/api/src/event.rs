//! [`Event`]: what the stack tells a service.

use crate::block::Block;
use crate::chunk::Chunk;
use crate::handle::{AreaId, ConnectionId, ListenerId, TimerId, UdpSocketId};
use crate::storage_error::StorageError;
use qanat_wire::ethernet::MacAddress;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum CloseReason {
    /// Both sides closed in order.
    Finished,
    /// The peer reset it.
    ResetByPeer,
    /// This side reset it (`abort`, `refuse`, or closed with unread data).
    Aborted,
    /// No answer within the retransmission, keepalive or user time-out.
    TimedOut,
    /// The peer refused the connection attempt: a reset, or ICMP port unreachable.
    Refused,
    /// The host can't be reached: no answer to ARP or ND, or ICMP host (address) unreachable.
    Unreachable,
    /// ICMP: no route to its network.
    NetworkUnreachable,
    /// ICMP: the host does not speak TCP.
    ProtocolUnreachable,
    /// ICMP: a filter on the way prohibits it.
    Prohibited,
    /// ICMP: the packet met its hop limit (TTL): a routing loop, as a rule.
    HopLimitExceeded,
}

impl CloseReason {
    /// What a socket would say, as Linux names it; `None`: nothing is wrong.
    pub fn errno_name(self) -> Option<&'static str> {
        Some(match self {
            CloseReason::Finished => return None,
            CloseReason::ResetByPeer => "ECONNRESET",
            CloseReason::Aborted => "ECONNABORTED",
            CloseReason::TimedOut => "ETIMEDOUT",
            CloseReason::Refused => "ECONNREFUSED",
            CloseReason::NetworkUnreachable => "ENETUNREACH",
            CloseReason::ProtocolUnreachable => "ENOPROTOOPT",
            // Linux does not tell them apart either.
            CloseReason::Unreachable | CloseReason::Prohibited | CloseReason::HopLimitExceeded => "EHOSTUNREACH",
        })
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloseReason::Finished => "finished",
            CloseReason::ResetByPeer => "reset by peer",
            CloseReason::Aborted => "aborted",
            CloseReason::TimedOut => "timed out",
            CloseReason::Refused => "refused",
            CloseReason::Unreachable => "host unreachable",
            CloseReason::NetworkUnreachable => "network unreachable",
            CloseReason::ProtocolUnreachable => "protocol unreachable",
            CloseReason::Prohibited => "administratively prohibited",
            CloseReason::HopLimitExceeded => "hop limit exceeded",
        })
    }
}

/// What happened. Events of one connection come in order, and `Closed` is its last. Events of an area come in any order, one for each
/// command that was taken.
///
/// A service's handler is one `match`. It need not name the events it has no use for:
///
/// ```
/// use qanat_api::{CloseReason, Event};
///
/// /// A line for the log, if the event is worth one.
/// fn line(event: &Event) -> Option<String> {
///     match event {
///         Event::Accepted { connection, peer, .. } => Some(format!("{connection:?} from {peer}")),
///         Event::Closed { why: CloseReason::Finished, .. } => None,
///         Event::Closed { connection, why } => Some(format!("{connection:?}: {why}")),
///         _ => None,
///     }
/// }
///
/// # use qanat_api::ConnectionId;
/// let connection = ConnectionId::new(3, 0);
/// let closed = Event::Closed { connection, why: CloseReason::TimedOut };
/// assert_eq!(line(&closed).as_deref(), Some("ConnectionId(3, 0): timed out"));
/// ```
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub enum Event {
    /// A peer completed a handshake. The service may use the connection, or `refuse` it.
    Accepted {
        /// The new connection.
        connection: ConnectionId,
        /// The listener that it came to.
        listener: ListenerId,
        /// The peer's address.
        peer: SocketAddr,
    },
    /// A `connect` succeeded.
    Connected {
        /// The connection.
        connection: ConnectionId,
    },
    /// The next bytes of the stream. Until they are given to `consume`, the receive window is smaller by as much.
    Data {
        /// The connection.
        connection: ConnectionId,
        /// The bytes.
        chunk: Chunk,
    },
    /// The peer acknowledged bytes; memory lent for them has been given back.
    Acked {
        /// The connection.
        connection: ConnectionId,
        /// How many bytes more than before.
        bytes: u32,
    },
    /// The peer has said that a byte is urgent (RFC 6093); only if the stack is
    /// configured to tell of it. The byte is in the stream like any other.
    Urgent {
        /// The connection.
        connection: ConnectionId,
        /// How many bytes come before it, behind all told of so far.
        ahead: u32,
    },
    /// The peer sends no more (FIN); this side still may.
    PeerClosed {
        /// The connection.
        connection: ConnectionId,
    },
    /// The connection is gone, and its handle with it. Everything lent has been given back.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// The reason.
        why: CloseReason,
    },
    /// Somebody else has one of our addresses (RFC 5227, RFC 4862 section 5.4): it is not used any more.
    AddressConflict {
        /// The address.
        address: IpAddr,
        /// The Ethernet address that said so.
        holder: MacAddress,
    },
    /// A UDP datagram (one event; `chunk` is its payload).
    Datagram {
        /// The socket it came to.
        socket: UdpSocketId,
        /// The peer's address.
        peer: SocketAddr,
        /// The payload.
        chunk: Chunk,
    },
    /// A timer set by the service expired; its handle is gone.
    Timer {
        /// The timer.
        id: TimerId,
        /// The token that the service gave with it.
        token: u64,
    },
    /// A read from an area has ended.
    Read {
        /// The area.
        area: AreaId,
        /// The token that the service gave with it.
        token: u64,
        /// What was read. It may be sent, written to an area, or dropped.
        result: Result<Block, StorageError>,
    },
    /// A write to an area has ended.
    Written {
        /// The area.
        area: AreaId,
        /// The token that the service gave with it.
        token: u64,
        /// What was written, or was to be.
        block: Block,
        /// How it went. After an error the blocks hold any mixture of old and new.
        result: Result<(), StorageError>,
    },
    /// A flush of an area has ended. After an error nothing is known about any write since the last flush that succeeded.
    Flushed {
        /// The area.
        area: AreaId,
        /// The token that the service gave with it.
        token: u64,
        /// How it went.
        result: Result<(), StorageError>,
    },
    /// A writing of zeroes to an area has ended.
    Zeroed {
        /// The area.
        area: AreaId,
        /// The token that the service gave with it.
        token: u64,
        /// How it went.
        result: Result<(), StorageError>,
    },
}
