//! How long a connection waits for its peer: the user timeout, and what was tried in vain since the peer's last sign.
//!
//! All that changes these numbers is here.

use crate::tcp::config::UserTimeoutBounds;
use qanat_nic::Time;
use std::time::Duration;

/// The wait for the peer.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Patience {
    /// Longest time data may stay unacknowledged; `None`: the retransmission limit alone.
    user_timeout: Option<Duration>,
    /// Since when the oldest data waits.
    progress_at: Time,
    /// The service set the user timeout: the peer's option changes nothing.
    is_fixed: bool,
    /// The user timeout option goes on the next segment.
    option_owed: bool,
    /// Consecutive time-outs without progress.
    retransmissions: u8,
    /// Window or keepalive probes without an answer.
    probes_unanswered: u8,
}

impl Patience {
    /// Nothing was tried yet.
    pub fn new(user_timeout: Option<Duration>, now: Time) -> Patience {
        Patience {
            user_timeout,
            progress_at: now,
            is_fixed: false,
            option_owed: false,
            retransmissions: 0,
            probes_unanswered: 0,
        }
    }

    /// Longest time data may stay unacknowledged.
    pub(in crate::tcp) fn user_timeout(&self) -> Option<Duration> {
        self.user_timeout
    }

    /// The service sets the user timeout.
    pub(super) fn fix(&mut self, timeout: Option<Duration>) {
        self.user_timeout = timeout;
        self.is_fixed = true;
    }

    /// Whether the service has set the user timeout.
    pub(super) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Both sides have said how long they wait: the longer counts, within `bounds` (RFC 5482 §3.1).
    pub(super) fn adopt(&mut self, longest: Duration, bounds: UserTimeoutBounds) {
        self.user_timeout = Some(longest.max(bounds.lower).min(bounds.upper));
    }

    /// The peer must be told the user timeout with the next segment.
    pub(super) fn owe_option(&mut self) {
        self.option_owed = true;
    }

    /// Whether the peer must be told.
    #[inline]
    pub(in crate::tcp) fn owes_option(&self) -> bool {
        self.option_owed
    }

    /// The peer is told.
    pub(in crate::tcp) fn option_sent(&mut self) {
        self.option_owed = false;
    }

    /// The wait begins anew.
    #[inline]
    pub(in crate::tcp) fn restart(&mut self, now: Time) {
        self.progress_at = now;
    }

    /// Whether data has been unacknowledged longer than the service allows.
    pub(in crate::tcp) fn is_over(&self, now: Time) -> bool {
        self.user_timeout.is_some_and(|timeout| now.since(self.progress_at) >= timeout)
    }

    /// Consecutive time-outs without progress.
    #[inline]
    pub(in crate::tcp) fn retransmissions(&self) -> u8 {
        self.retransmissions
    }

    /// The retransmission timer has fired, or the SYN is repeated for another reason.
    pub(in crate::tcp) fn count_retransmission(&mut self) {
        self.retransmissions = self.retransmissions.saturating_add(1);
    }

    /// There was progress: time-outs are counted anew.
    #[inline]
    pub(in crate::tcp) fn end_retransmissions(&mut self) {
        self.retransmissions = 0;
    }

    /// Window or keepalive probes without an answer.
    pub(in crate::tcp) fn probes_unanswered(&self) -> u8 {
        self.probes_unanswered
    }

    /// A probe is to be sent.
    pub(in crate::tcp) fn count_probe(&mut self) {
        self.probes_unanswered = self.probes_unanswered.saturating_add(1);
    }

    /// The peer has answered, or nothing was asked.
    #[inline]
    pub(in crate::tcp) fn end_probes(&mut self) {
        self.probes_unanswered = 0;
    }
}
