//! What happens when a connection's timers expire, and when they are armed anew.

use crate::tcp::connection::Connection;
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::recovery::rack::Rack;
use crate::tcp::state::State;
use crate::tcp::timers::RetransmitKind;
use qanat_nic::Time;
use std::time::Duration;

/// Window probes and the silly-window override start no sooner than this.
const PERSIST_MIN: Duration = Duration::from_millis(200);

impl Connection {
    /// Handles whatever timers have expired at `env.now`. Call `output` afterwards if it is needed.
    pub fn on_timer(&mut self, env: &mut Env<'_>) -> Disposition {
        let now = env.now;
        if self.timers.take_delayed_ack(now) {
            env.counters.delayed_acks_sent += 1;
            self.acknowledge_now();
        }
        if self.timers.take_pacing(now) {
            self.is.output_wanted = true;
        }
        if self.timers.take_idle(now) {
            let disposition = self.on_idle_timer(env);
            if !matches!(disposition, Disposition::Keep) || self.lifecycle.state() == State::Closed {
                return disposition;
            }
        }
        match self.timers.take_retransmit(now) {
            None => Disposition::Keep,
            Some(RetransmitKind::Timeout) => self.on_retransmission_timeout(env),
            Some(RetransmitKind::TailProbe) => {
                self.is.tail_probe = true;
                self.is.output_wanted = true;
                Disposition::Keep
            }
            Some(RetransmitKind::Reordering) => {
                self.on_reordering_timeout(env);
                Disposition::Keep
            }
            Some(RetransmitKind::Persist) => self.on_persist(env),
        }
    }

    fn on_retransmission_timeout(&mut self, env: &mut Env<'_>) -> Disposition {
        self.is.output_wanted = true;
        if self.is.handshake.is_unproved() {
            if !self.repeats_fast_syn_ack(env) {
                env.counters.syn_acks_expired += 1;
                return self.fail_silently(env);
            }
            self.is.handshake.want_syn(true);
            return Disposition::Keep;
        }
        self.patience.count_retransmission();
        let handshake = matches!(self.lifecycle.state(), State::SynSent | State::SynReceived);
        let limit = if handshake { self.syn_retransmissions_max(env.config) } else { env.config.retransmissions_max };
        if self.is_user_timeout(env.now) {
            env.counters.user_timeouts += 1;
            return self.fail_silently(env);
        }
        // RFC 5482 §3: a user timeout in force replaces the limit, also when it is longer.
        if self.patience.retransmissions() > limit && (handshake || self.patience.user_timeout().is_none()) {
            env.counters.retransmission_timeouts += 1;
            return self.fail_silently(env);
        }
        env.counters.timeouts += 1;
        self.statistics.timeouts = self.statistics.timeouts.saturating_add(1);
        self.rtt.back_off();
        if handshake {
            // RFC 3168 §6.1.1.1: a SYN with ECN lost again may be dropped because of it.
            if self.patience.retransmissions() >= 2 {
                self.is.ecn = false;
            }
            self.is.handshake.want_syn(true);
            return Disposition::Keep;
        }
        if env.config.black_hole_detection {
            self.detect_black_hole(env);
        }
        self.enter_loss(env);
        Disposition::Keep
    }

    /// Gives up on an unreachable peer: nothing is sent (RFC 9293 §3.8.3 R2 "close the connection").
    fn fail_silently(&mut self, env: &mut Env<'_>) -> Disposition {
        self.finish(self.silent_reason(), env)
    }

    fn on_persist(&mut self, env: &mut Env<'_>) -> Disposition {
        self.is.output_wanted = true;
        if self.is_user_timeout(env.now) {
            env.counters.user_timeouts += 1;
            return self.fail_silently(env);
        }
        if self.patience.probes_unanswered() > env.config.retransmissions_max && self.patience.user_timeout().is_none()
        {
            env.counters.retransmission_timeouts += 1;
            return self.fail_silently(env);
        }
        if self.send_window.size() > 0 {
            // §3.8.6.2.1: "the override timeout": send what fits.
            self.bunching.force();
        } else {
            self.is.probe = true;
            self.patience.count_probe();
            self.rtt.back_off();
        }
        Disposition::Keep
    }

    /// Starts the persist timer: data waits, nothing is in flight, and the window is shut.
    pub(super) fn arm_persist(&mut self, now: Time) {
        if !self.timers.is_persisting() && !self.is.handshake.is_unproved() {
            if self.board.is_empty() && self.patience.probes_unanswered() == 0 {
                self.patience.restart(now);
            }
            self.timers.set(RetransmitKind::Persist, now + self.rtt.timeout().max(PERSIST_MIN));
        }
    }

    /// Arms the retransmission timer anew after progress or after new data was sent: a tail loss probe if one may be
    /// sent, else the RTO (RFC 6298 §5.1–5.3, RFC 8985 §7.2).
    #[inline]
    pub(super) fn arm_retransmission(&mut self, now: Time) {
        if self.is.handshake.is_unproved() {
            // The deadline is the SYN-ACK's.
            return;
        }
        if self.board.is_empty() {
            self.timers.stop();
            return;
        }
        let timeout = self.rtt.timeout();
        if self.may_probe_tail() {
            // "If now + PTO > TCP_RTO_expiration(): PTO = TCP_RTO_expiration() - now": the probe goes instead of the RTO.
            let probe = Rack::probe_timeout(&self.rtt, self.board.len()).min(timeout);
            self.timers.set(RetransmitKind::TailProbe, now + probe);
            return;
        }
        self.timers.set(RetransmitKind::Timeout, now + timeout);
    }

    fn may_probe_tail(&self) -> bool {
        // §7.3: SACK, not in recovery, nothing sacked, no probe outstanding.
        self.is.sack
            && self.recovery.is_open()
            && self.board.sacked() == 0
            && !self.rack.probing()
            && self.rtt.backoff() == 0
            && self.lifecycle.state().is_synchronized()
    }
}
