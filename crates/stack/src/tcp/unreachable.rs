//! ICMP errors about a connection's segments: RFC 9293 §3.9.2.2, with the checks of RFC 5927.

use crate::event::CloseReason;
use crate::tcp::connection::Connection;
use crate::tcp::state::State;
use crate::tcp::{Disposition, Env};
use qanat_wire::tcp::SequenceNumber;

impl Connection {
    /// The network says why `sequence` did not arrive. `hard`: it will not get better (RFC 1122 §4.2.3.9); that ends an
    /// attempt to connect, nothing else (RFC 5927 §5.2). Otherwise it is remembered until something is acknowledged: the
    /// reason, should the connection time out.
    pub fn on_unreachable(
        &mut self,
        sequence: SequenceNumber,
        why: CloseReason,
        hard: bool,
        env: &mut Env<'_>,
    ) -> Disposition {
        if !self.is_in_flight(sequence) {
            env.counters.icmp_ignored += 1;
            return Disposition::Keep;
        }
        if hard && matches!(self.state, State::SynSent | State::SynReceived) {
            return self.finish(why, env);
        }
        env.counters.icmp_soft_errors += 1;
        self.soft_error = Some(why);
        Disposition::Keep
    }

    /// Ends the connection without a word to the peer.
    pub fn vanish(&mut self, why: CloseReason, env: &mut Env<'_>) -> Disposition {
        self.finish(why, env)
    }

    /// Why a connection that got no answer ended.
    pub(super) fn silent_reason(&self) -> CloseReason {
        self.soft_error.unwrap_or(CloseReason::TimedOut)
    }
}
