//! What a service may say of how one connection sends.

use crate::event::ConnectionId;
use crate::stack::{CommandError, Stack};
use crate::tcp::{Disposition, Keepalive};
use qanat_nic::Time;
use std::time::Duration;

impl Stack {
    /// Nagle's algorithm off (`true`) or on (RFC 9293 §3.7.4).
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_no_delay(&mut self, now: Time, connection: ConnectionId, no_delay: bool) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.set_no_delay(no_delay), Disposition::Keep))
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

    /// Holds back what does not fill a segment, until uncorked or closed.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_cork(&mut self, now: Time, connection: ConnectionId, cork: bool) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.set_cork(cork), Disposition::Keep))
    }

    /// How often the SYN of a connection under way is repeated; `None`: as configured (RFC 9293 section 3.8.3).
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_syn_retransmissions(
        &mut self,
        now: Time,
        connection: ConnectionId,
        most: Option<u8>,
    ) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.set_syn_retransmissions(most), Disposition::Keep))
    }

    /// The receive window of a connection under way is at most so large; `None`: as configured. What has been offered stays offered,
    /// and the scale what it is.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn limit_receive_window(
        &mut self,
        now: Time,
        connection: ConnectionId,
        most: Option<u32>,
    ) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| {
            tcp.set_receive_window(env.config.receive_window_max(most));
            ((), Disposition::Keep)
        })
    }

    /// Keepalive on with these times, or off (RFC 9293 §3.8.4).
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_keepalive(
        &mut self,
        now: Time,
        connection: ConnectionId,
        keepalive: Option<Keepalive>,
    ) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| (tcp.set_keepalive(keepalive, env), Disposition::Keep))
    }

    /// Longest time sent data may stay unacknowledged; `None`: the retransmission limit alone. The peer's option (RFC 5482)
    /// changes it no more.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_user_timeout(
        &mut self,
        now: Time,
        connection: ConnectionId,
        timeout: Option<Duration>,
    ) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.set_user_timeout(timeout), Disposition::Keep))
    }

    /// Tells the peer how long this side will wait for acknowledgements: the user timeout option (RFC 5482).
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn advertise_user_timeout(
        &mut self,
        now: Time,
        connection: ConnectionId,
        timeout: Duration,
    ) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| (tcp.advertise_user_timeout(timeout, env), Disposition::Keep))
    }

    /// At most so many payload bytes per second; `None`: no limit.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_pacing_rate(
        &mut self,
        now: Time,
        connection: ConnectionId,
        bytes_per_second: Option<u64>,
    ) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| (tcp.set_pacing_rate(bytes_per_second, env.config), Disposition::Keep))
    }
}
