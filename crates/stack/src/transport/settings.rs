//! What a service may say of how one connection sends.

use crate::stack::Stack;
use crate::tcp::Disposition;
use qanat_api::{CommandError, ConnectionId, Setting};
use qanat_nic::Time;

impl Stack {
    /// Changes how a connection behaves.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set(&mut self, now: Time, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| {
            match setting {
                Setting::NoDelay(no_delay) => tcp.set_no_delay(no_delay),
                Setting::Cork(cork) => tcp.set_cork(cork),
                Setting::Keepalive(keepalive) => tcp.set_keepalive(keepalive, env),
                Setting::UserTimeout(timeout) => tcp.set_user_timeout(timeout),
                Setting::AdvertisedUserTimeout(timeout) => tcp.advertise_user_timeout(timeout, env),
                Setting::PacingRate(bytes_per_second) => tcp.set_pacing_rate(bytes_per_second, env.config),
                Setting::SynRetransmissions(most) => tcp.set_syn_retransmissions(most),
                Setting::Congestion(algorithm) => tcp.set_congestion(algorithm, env.config),
                Setting::ReceiveWindowMax(most) => tcp.set_receive_window(env.config.receive_window_max(most)),
            }
            ((), Disposition::Keep)
        })
    }

    /// What was given last ends with an urgent byte (RFC 6093): the peer is told at once where it is.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn mark_urgent(&mut self, now: Time, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.mark_urgent(), Disposition::Keep))
    }

    /// What is given next is only the beginning of something (`more`), or the rest: what does not fill a segment is held back
    /// until the rest is given, an acknowledgement comes, or for a time-out.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_more(&mut self, now: Time, connection: ConnectionId, more: bool) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.set_more(more), Disposition::Keep))
    }

    /// What was given last ends a record: no segment holds bytes of it and of what is given later.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn end_record(&mut self, now: Time, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.end_record(), Disposition::Keep))
    }
}
