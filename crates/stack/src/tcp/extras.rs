//! What few connections have: settings of their own. Boxed together, so that the others pay a pointer.

use crate::tcp::handshake::fast_open_state::FastOpenState;
use crate::tcp::sequence::SequenceNumber;
use qanat_api::Keepalive;
use std::time::Duration;

/// Settings of one connection that differ from the stack's.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Extras {
    /// Set by the service: `Some(None)` is "off".
    pub keepalive: Option<Option<Keepalive>>,
    /// Most bytes per second of payload; 0: no limit.
    pub pacing_rate: u64,
    pub user_timeout: UserTimeoutOption,
    pub urgent: Urgent,
    /// Retransmissions of its SYN, if that differs.
    pub syn_retransmissions_max: Option<u8>,
    pub fast_open: Option<Box<FastOpenState>>,
}

/// What a connection that uses the option knows of it.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct UserTimeoutOption {
    /// ADV_UTO: what we tell; `None`: the option is not sent.
    pub advertised: Option<Duration>,
    /// REMOTE_UTO.
    pub remote: Option<Duration>,
}

/// What is to be known of urgent data.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Urgent {
    /// Stream offset behind the last urgent byte to be sent.
    pub send_end: u64,
    /// The last urgent byte that the peer told of.
    pub received: Option<SequenceNumber>,
}
