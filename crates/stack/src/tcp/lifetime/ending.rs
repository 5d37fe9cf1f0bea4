//! The end of a connection: by the service, by the peer, by time, or as ICMP says (RFC 9293 §3.9.2.2, with the checks of RFC
//! 5927); and what remains of it.

use crate::tcp::challenge::Challenges;
use crate::tcp::connection::Connection;
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::state::State;
use crate::tcp::time_wait::TimeWait;
use crate::tcp::timers::Timers;
use qanat_api::{CloseReason, Event};
use qanat_nic::Time;
use qanat_wire::tcp::SequenceNumber;

impl Connection {
    /// What remains of it in TIME-WAIT.
    pub(in crate::tcp) fn time_wait(&self, deadline: Time) -> TimeWait {
        TimeWait {
            send_next: self.send_next,
            receive_next: self.receive_window.next(),
            timestamp_recent: self.timestamps.recent(),
            timestamp_offset: self.timestamps.offset(),
            ports: self.ports(),
            window: (self.receive_window.offered() >> self.receive_window.scale()).min(65_535) as u16,
            window_bytes: self.receive_window.offered(),
            timestamps: self.is.timestamps,
            acknowledgment_owed: self.acks.is_owed(),
            deadline,
            challenges: Challenges::default(),
        }
    }

    /// Ends the connection with a RST for the peer.
    pub(in crate::tcp) fn fail(&mut self, why: CloseReason, env: &mut Env<'_>) -> Disposition {
        match self.lifecycle.state() {
            State::Closed => Disposition::Keep,
            State::SynSent => self.finish(why, env),
            _ => {
                self.lifecycle.end();
                self.outcome.reset(why);
                self.queue.clear();
                self.drop_reassembly(env);
                self.timers = Timers::new();
                self.is.output_wanted = true;
                Disposition::Keep
            }
        }
    }

    /// Ends the connection at once: reports `Closed`, exactly once.
    pub(in crate::tcp) fn finish(&mut self, why: CloseReason, env: &mut Env<'_>) -> Disposition {
        self.report_closed(why, env);
        Disposition::Remove
    }

    pub(in crate::tcp) fn report_closed(&mut self, why: CloseReason, env: &mut Env<'_>) {
        if self.lifecycle.state() == State::SynSent && !matches!(why, CloseReason::Aborted | CloseReason::Refused) {
            self.fail_fast_open(env);
        }
        self.lifecycle.end();
        self.queue.clear();
        self.release_receive_memory(env);
        self.timers = Timers::new();
        self.is.output_wanted = false;
        if self.outcome.report() {
            env.counters.established_closed += 1;
            env.events.push_back(Event::Closed { connection: self.id, why });
        }
    }

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
        if hard && matches!(self.lifecycle.state(), State::SynSent | State::SynReceived) {
            return self.finish(why, env);
        }
        env.counters.icmp_soft_errors += 1;
        self.outcome.note_soft_error(why);
        Disposition::Keep
    }

    /// Ends the connection without a word to the peer.
    pub fn vanish(&mut self, why: CloseReason, env: &mut Env<'_>) -> Disposition {
        self.finish(why, env)
    }

    /// Why a connection that got no answer ended.
    pub(in crate::tcp) fn silent_reason(&self) -> CloseReason {
        self.outcome.soft_error().unwrap_or(CloseReason::TimedOut)
    }
}
