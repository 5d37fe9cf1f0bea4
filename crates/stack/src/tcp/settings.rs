//! What a service may say of how its connection sends and waits.

use crate::tcp::config::TcpConfig;
use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::extras::Extras;
use qanat_api::CongestionAlgorithm;
use qanat_api::Keepalive;

impl Connection {
    pub(super) fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_with(Box::default)
    }

    /// Keepalive in force.
    pub(super) fn keepalive(&self, config: &TcpConfig) -> Option<Keepalive> {
        match self.extras.as_deref().and_then(|extras| extras.keepalive) {
            Some(own) => own,
            None => config.keepalive.map(|idle| Keepalive {
                idle,
                interval: config.keepalive_interval,
                probes_max: config.keepalive_probes_max,
            }),
        }
    }

    /// Keepalive on with these times, or off. Idle time counts from the last segment received.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>, env: &mut Env<'_>) {
        self.extras().keepalive = Some(keepalive);
        self.patience.end_probes();
        if self.lifecycle.state().is_synchronized() && !self.is_waiting_in_fin_wait_2() {
            self.arm_keepalive(env.config, self.last_received.max(self.last_sent));
        }
    }

    /// How often the SYN is repeated; `None`: as the stack is configured.
    pub fn set_syn_retransmissions(&mut self, most: Option<u8>) {
        self.extras().syn_retransmissions_max = most;
    }

    pub(super) fn syn_retransmissions_max(&self, config: &TcpConfig) -> u8 {
        let own = self.extras.as_deref().and_then(|extras| extras.syn_retransmissions_max);
        own.unwrap_or(config.syn_retransmissions_max)
    }

    /// Nagle's algorithm off (`true`) or on.
    pub fn set_no_delay(&mut self, no_delay: bool) {
        self.bunching.set_no_delay(no_delay, self.unsent() > 0);
        self.is.output_wanted = true;
    }

    /// What is given next is only the beginning of something, as Linux' `MSG_MORE` has it: what does not fill a segment is held
    /// back until the rest is given (`more` false), an acknowledgement comes, or for a time-out.
    pub fn set_more(&mut self, more: bool) {
        self.bunching.set_more(more);
        self.is.output_wanted = true;
    }

    /// What was given so far ends a record, as Linux' `MSG_EOR` has it: nothing given later joins a segment with it.
    pub fn end_record(&mut self) {
        self.queue.end_record();
        self.is.recorded = true;
    }

    /// Cork: hold back what does not fill a segment, until uncorked or closed, or for a time-out.
    pub fn set_cork(&mut self, cork: bool) {
        self.bunching.set_cork(cork);
        self.is.output_wanted = true;
    }

    /// Controls congestion in this way from now on.
    pub fn set_congestion(&mut self, algorithm: CongestionAlgorithm, config: &TcpConfig) {
        self.congestion.change(algorithm, self.initial_send.0);
        let rate = self.extras.as_deref().map_or(0, |extras| extras.pacing_rate);
        self.is.paced = config.pacing || rate > 0 || self.congestion.model().is_some();
        self.is.output_wanted = true;
    }

    /// At most so many payload bytes per second, retransmissions included; `None`: as the stack is configured.
    pub fn set_pacing_rate(&mut self, bytes_per_second: Option<u64>, config: &TcpConfig) {
        let rate = bytes_per_second.unwrap_or(0);
        if rate > 0 || self.extras.is_some() {
            self.extras().pacing_rate = rate;
        }
        self.is.paced = config.pacing || rate > 0 || self.congestion.model().is_some();
        self.is.output_wanted = true;
    }
}
