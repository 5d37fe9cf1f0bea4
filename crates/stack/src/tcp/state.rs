//! Connection states (RFC 9293 §3.3.2). LISTEN is the stack's, SYN-RECEIVED of a passive open is a
//! [`HalfOpen`](crate::tcp::handshake::half_open::HalfOpen), TIME-WAIT a [`TimeWait`](crate::tcp::time_wait::TimeWait).

use std::fmt;

/// State of a [`Connection`](crate::tcp::connection::Connection).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum State {
    /// A SYN is (to be) sent.
    SynSent,
    /// Simultaneous open: SYN sent and received, ours not acknowledged.
    SynReceived,
    /// Open both ways.
    Established,
    /// FIN sent or queued, nothing heard of it.
    FinWait1,
    /// Our FIN is acknowledged; the peer may still send.
    FinWait2,
    /// The peer's FIN arrived; we may still send.
    CloseWait,
    /// Both FINs sent, ours not acknowledged.
    Closing,
    /// As CLOSING, after CLOSE-WAIT.
    LastAck,
    /// Over; at most a reset remains to be sent.
    Closed,
}

impl State {
    /// Whether the peer's sequence numbers are known and the handshake is over.
    #[inline]
    pub fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }

    /// Whether the peer may still send data.
    #[inline]
    pub fn receives(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Whether the service may still queue data.
    #[inline]
    pub fn sends(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::Closed => "CLOSED",
        })
    }
}
