//! Keepalive (RFC 9293 §3.8.4) and the end of FIN-WAIT-2, which share a timer.

use crate::tcp::config::TcpConfig;
use crate::tcp::connection::Connection;
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::state::State;
use crate::tcp::timers::NEVER;
use qanat_api::{CloseReason, Keepalive};
use qanat_nic::Time;

impl Connection {
    /// Starts keepalive if it is configured. The timer is not moved by traffic: when it fires it looks at the time of
    /// the last segment.
    pub(in crate::tcp) fn arm_keepalive(&mut self, config: &TcpConfig, now: Time) {
        let due = self.keepalive(config).map_or(NEVER, |keepalive| now + keepalive.idle);
        self.timers.set_idle(due);
    }

    /// The idle timer counts the wait for a FIN.
    pub(in crate::tcp) fn is_waiting_in_fin_wait_2(&self) -> bool {
        self.lifecycle.state() == State::FinWait2 && self.lifecycle.is_orphaned()
    }

    pub(in crate::tcp) fn on_idle_timer(&mut self, env: &mut Env<'_>) -> Disposition {
        if self.is_waiting_in_fin_wait_2() {
            // The peer never closes: forget it, as Linux does after tcp_fin_timeout.
            env.counters.fin_wait_2_timeouts += 1;
            return self.finish(CloseReason::Finished, env);
        }
        let Some(Keepalive { idle, interval, probes_max }) = self.keepalive(env.config) else {
            return Disposition::Keep;
        };
        let due = self.last_received + idle;
        if due > env.now {
            self.patience.end_probes();
            self.timers.set_idle(due);
            return Disposition::Keep;
        }
        if !self.board.is_empty() || self.timers.is_persisting() {
            // Retransmission and persist find out by themselves.
            self.timers.set_idle(env.now + idle);
            return Disposition::Keep;
        }
        if self.patience.probes_unanswered() >= probes_max {
            env.counters.keepalive_timeouts += 1;
            return self.fail(CloseReason::TimedOut, env);
        }
        self.patience.count_probe();
        env.counters.keepalive_probes_sent += 1;
        self.is.probe = true;
        self.is.output_wanted = true;
        self.timers.set_idle(env.now + interval);
        Disposition::Keep
    }
}
