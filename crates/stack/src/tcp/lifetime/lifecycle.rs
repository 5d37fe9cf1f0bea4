//! The connection's state and what moves it (RFC 9293 §3.3.2, figure 5), with what each side has done about its FIN.
//!
//! All that changes this is here.
//!
//! ```text
//!   SYN-SENT ──▶ ESTABLISHED ── our FIN ──▶ FIN-WAIT-1 ── acknowledged ──▶ FIN-WAIT-2
//!      │             ▲  │ peer's FIN            │ peer's FIN                   │ peer's FIN
//!      ▼             │  ▼                       ▼                              ▼
//!   SYN-RECEIVED ────┘ CLOSE-WAIT ─▶ LAST-ACK   CLOSING ── acknowledged ──▶ TIME-WAIT
//! ```

use crate::tcp::state::State;

/// Where a connection is between its SYN and its end.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Lifecycle {
    state: State,
    /// A FIN follows the queue.
    fin_queued: bool,
    /// Sent a FIN (it is in `board` or acknowledged).
    fin_sent: bool,
    /// The service closed: it takes no more data.
    orphaned: bool,
}

impl Lifecycle {
    /// A connection begins in `state`.
    pub fn new(state: State) -> Lifecycle {
        Lifecycle { state, fin_queued: false, fin_sent: false, orphaned: false }
    }

    /// The state.
    #[inline]
    pub(in crate::tcp) fn state(&self) -> State {
        self.state
    }

    /// Whether a FIN follows the queue.
    #[inline]
    pub(in crate::tcp) fn is_fin_queued(&self) -> bool {
        self.fin_queued
    }

    /// Whether a FIN was sent.
    #[inline]
    pub(in crate::tcp) fn is_fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// Whether the service has closed, and takes no more data.
    #[inline]
    pub(in crate::tcp) fn is_orphaned(&self) -> bool {
        self.orphaned
    }

    /// The peer's SYN crossed ours.
    pub(in crate::tcp) fn cross(&mut self) {
        self.state = State::SynReceived;
    }

    /// The handshake is over. A FIN may have been queued meanwhile.
    pub(in crate::tcp) fn establish(&mut self) {
        self.state = if self.fin_queued { State::FinWait1 } else { State::Established };
    }

    /// A FIN follows the queue.
    pub(in crate::tcp) fn queue_fin(&mut self) {
        self.fin_queued = true;
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            // The FIN waits for the handshake: RFC 9293 §3.10.4 "queue the request".
            other => other,
        };
    }

    /// The service takes no more data.
    pub(in crate::tcp) fn orphan(&mut self) {
        self.orphaned = true;
    }

    /// A segment was sent, with the FIN if `fin`.
    #[inline]
    pub(in crate::tcp) fn on_sent(&mut self, fin: bool) {
        self.fin_sent |= fin;
    }

    /// The peer has acknowledged our FIN, and may go on sending.
    pub(in crate::tcp) fn enter_fin_wait_2(&mut self) {
        self.state = State::FinWait2;
    }

    /// The peer's FIN is taken. In FIN-WAIT-2 the connection ends by it, which is for the caller to see to.
    pub(in crate::tcp) fn on_peer_fin(&mut self) {
        self.state = match self.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            other => other,
        };
    }

    /// It is over.
    pub(in crate::tcp) fn end(&mut self) {
        self.state = State::Closed;
    }
}
