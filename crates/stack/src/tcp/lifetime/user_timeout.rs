//! The user timeout (RFC 9293 §3.9.1.1, RFC 5482): how long sent data may stay unacknowledged; told to the peer, and taken
//! from it, if allowed.
//!
//! `USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT))` (RFC 5482 §3.1) as long as the service has not set one of
//! its own: "CHANGEABLE … MUST become false when an application explicitly sets USER_TIMEOUT".

use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::segment::SegmentIn;
use qanat_nic::Time;
use qanat_wire::tcp_options::UserTimeout;
use std::time::Duration;

impl Connection {
    /// Longest time data may stay unacknowledged; `None`: the retransmission limit alone. From now on the peer's option
    /// changes nothing.
    pub fn set_user_timeout(&mut self, timeout: Option<Duration>) {
        self.patience.fix(timeout);
    }

    /// Tells the peer with the next segment how long we shall wait for its acknowledgements (ADV_UTO), rounded up to what
    /// the option can say: seconds up to nine hours, else minutes. Before the handshake it goes on the SYN, and again on
    /// the first segment after it (RFC 5482 §3.2).
    pub fn advertise_user_timeout(&mut self, timeout: Duration, env: &mut Env<'_>) {
        self.extras().user_timeout.advertised = Some(timeout);
        self.patience.owe_option();
        if self.lifecycle.state().is_synchronized() {
            self.acks.owe();
        }
        self.is.output_wanted = true;
        self.adopt_user_timeout(env);
    }

    /// The longest time data may stay unacknowledged, and why it ends when it does.
    pub fn user_timeout(&self) -> Option<Duration> {
        self.patience.user_timeout()
    }

    /// RFC 5482 §3.1.
    fn adopt_user_timeout(&mut self, env: &Env<'_>) {
        if self.patience.is_fixed() {
            return;
        }
        let bounds = env.config.user_timeout_bounds;
        let own = self.extras.as_deref().map(|extras| extras.user_timeout).unwrap_or_default();
        if let Some(longest) = own.advertised.max(own.remote) {
            self.patience.adopt(longest, bounds);
        }
    }

    /// A segment with the option arrived. "An option with a value of zero MUST be ignored."
    #[cold]
    pub(in crate::tcp) fn receive_user_timeout(&mut self, option: UserTimeout, env: &mut Env<'_>) {
        env.counters.user_timeout_options_received += 1;
        let timeout = option.duration();
        if !env.config.user_timeout_adopted || self.patience.is_fixed() || timeout == Duration::ZERO {
            return;
        }
        self.extras().user_timeout.remote = Some(timeout);
        self.adopt_user_timeout(env);
    }

    /// Looks for the option.
    #[inline]
    pub(in crate::tcp) fn note_user_timeout(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) {
        if let Some(option) = segment.options.user_timeout {
            self.receive_user_timeout(option, env);
        }
    }

    /// The option for a segment about to be sent, if one is owed.
    #[inline]
    pub(in crate::tcp) fn user_timeout_option(&self) -> Option<UserTimeout> {
        if !self.patience.owes_option() {
            return None;
        }
        let advertised = self.extras.as_deref().and_then(|extras| extras.user_timeout.advertised);
        advertised.map(UserTimeout::from_duration)
    }

    /// Whether data has been unacknowledged longer than the service allows.
    pub(in crate::tcp) fn is_user_timeout(&self, now: Time) -> bool {
        self.patience.is_over(now)
    }
}
