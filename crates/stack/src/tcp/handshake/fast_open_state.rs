//! What a connection remembers of Fast Open, in a box that others do not have.

use crate::tcp::handshake::half_open::HalfOpen;
use qanat_wire::tcp_options::FastOpen;
use std::net::IpAddr;

/// Why data did not go with a SYN, as `TCP_INFO` numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum FastOpenFailure {
    /// It was not tried, or went well.
    #[default]
    None,
    /// There was no cookie.
    NoCookie,
    /// The SYN-ACK did not acknowledge it.
    NotAcknowledged,
    /// The SYN had to be repeated.
    Retransmitted,
}

/// What of Fast Open a connection must remember.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(in crate::tcp) struct FastOpenState {
    pub(super) client: Option<Client>,
    /// Of an unproved connection: its SYN-ACK, and the cookie that goes with the first one.
    pub(super) syn_ack: Option<(HalfOpen, Option<FastOpen>)>,
    pub(super) failure: FastOpenFailure,
    /// Data on the SYN was acknowledged with it.
    pub(super) syn_data: bool,
}

/// Of an active open.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Client {
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    /// What the SYN says; `None`: nothing, or not any more.
    pub(super) option: Option<FastOpen>,
    /// The SYN said so.
    pub(super) has_asked: bool,
    /// Bytes the SYN may carry.
    pub(super) room: u16,
    /// Bytes it carried.
    pub(super) sent: u16,
}
