//! Listeners, and the half-open connections that are theirs.

use crate::tables::flow::FlowKey;
use crate::tables::wheel::WheelHandle;
use crate::tcp::{CookieKeys, HalfOpen};
use qanat_api::{ConnectionId, ListenOptions, ListenerId};
use qanat_nic::Time;
use std::net::{IpAddr, SocketAddr};

/// Where connections are accepted.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Listener {
    pub(crate) local: SocketAddr,
    /// Half-open connections allowed; 0: the stack's limit only.
    pub(super) backlog: usize,
    pub(super) half_open: usize,
    /// Nothing is accepted for now: see [`Stack::hold_listener`](crate::Stack::hold_listener).
    pub(crate) is_held: bool,
    /// Its connections' largest segment, if that is less than what the device takes.
    pub(crate) maximum_segment: Option<u16>,
    /// Their largest receive window, if that is less than the stack's.
    pub(crate) receive_window: Option<u32>,
    pub(crate) fast_open: Option<Box<FastOpenListener>>,
}

impl Listener {
    pub(crate) fn new(local: SocketAddr, options: ListenOptions) -> Listener {
        Listener {
            local,
            backlog: options.backlog,
            half_open: 0,
            is_held: false,
            maximum_segment: None,
            receive_window: None,
            fast_open: None,
        }
    }

    /// How much of a destination is left open: nothing, the address, the family too (`[::]`, RFC 3493 section 3.7).
    /// `None`: it is not this listener's.
    pub(super) fn openness(&self, address: IpAddr, port: u16) -> Option<u8> {
        if self.local.port() != port {
            None
        } else if self.local.ip() == address {
            Some(0)
        } else if !self.local.ip().is_unspecified() {
            None
        } else if self.local.is_ipv4() == address.is_ipv4() {
            Some(1)
        } else {
            self.local.is_ipv6().then_some(2)
        }
    }
}

/// A connection in SYN-RECEIVED.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct HalfOpenSlot {
    pub(crate) key: FlowKey,
    pub(crate) listener: ListenerId,
    pub(super) state: HalfOpen,
    pub(super) timer: Option<WheelHandle>,
}

/// Fast Open of one listener.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct FastOpenListener {
    pub(super) queue_max: u32,
    pub(super) without_cookie: bool,
    pub(super) keys: Option<CookieKeys>,
    /// Connections whose handshake is not over, as far as has been looked at; at most `queue_max`, and all the stack has room for.
    pub(super) pending: Vec<Pending>,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    pub(super) connection: ConnectionId,
    /// It is over, and counts until then.
    pub(super) until: Option<Time>,
}
