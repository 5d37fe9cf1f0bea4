//! Loss recovery: when it begins, what is retransmitted, when it ends (RFC 5681, 6582, 6675, 8985), with PRR.
//!
//! ```text
//!            loss found                     SND.UNA ≥ recovery point
//!   Open ───────────────→ Recovery ─────────────────────────────→ Open
//!     │  ECN echo                          ↑ undo when spurious
//!     ├──────────────────→ Reduced ────────┤
//!     └─ RTO ────────────→ Loss ───────────┘
//! ```

use crate::tcp::congestion::control::CongestionCause;
use crate::tcp::congestion::state::Growth;
use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::recovery::phase::{AckNews, Phase};
use crate::tcp::recovery::scoreboard::SACKED;
use crate::tcp::timers::RetransmitKind;
use std::time::Duration;

impl Connection {
    /// Octets thought in flight. Without SACK each duplicate ACK tells of a segment that left the network.
    #[inline]
    pub(in crate::tcp) fn in_flight(&self) -> u32 {
        let pipe = self.board.pipe();
        if self.is.sack {
            return pipe;
        }
        pipe.saturating_sub(u32::from(self.recovery.duplicates()) * u32::from(self.maximum_segment))
    }

    /// Everything after the cumulative and selective parts of an ACK were applied, off the fast path.
    pub(in crate::tcp) fn recover(&mut self, news: &AckNews, env: &mut Env<'_>) {
        self.process_probe_answer(news, env);
        self.process_undo(news, env);
        self.end_episode();
        let mut lost = self.detect_loss(news, env);
        if lost > 0 && self.path_mtu.is_probing() {
            lost = self.excuse_mtu_probe(lost, env);
        }
        if lost > 0 && matches!(self.recovery.phase(), Phase::Open | Phase::Reduced) {
            self.enter_recovery(news, env);
        } else if self.reacts_to_echo(news) {
            self.enter_reduced(news, env);
        }
        match self.recovery.phase() {
            _ if self.congestion.model().is_some() => self.update_model(news, env),
            Phase::Recovery | Phase::Reduced => {
                let pipe = self.in_flight();
                let safe = news.advanced && lost == 0;
                let segment = u32::from(self.maximum_segment);
                let threshold = self.congestion.slow_start_threshold();
                let window = self.recovery.reduced_window(news.delivered, pipe, threshold, segment, safe);
                self.congestion.set_window(window.max(segment));
            }
            Phase::Open | Phase::Loss => self.grow_window(news, env),
        }
        self.is.output_wanted = true;
    }

    /// Restores window and threshold if the retransmissions were needless.
    fn process_undo(&mut self, news: &AckNews, env: &mut Env<'_>) {
        let within = !self.recovery.is_open();
        let Some(spurious) = self.recovery.judge(news, self.is.timestamps) else { return };
        env.counters.spurious_recoveries_undone += 1;
        self.rack.note_reordering();
        self.congestion.undo(spurious.before);
        if within {
            if spurious.by_timestamp {
                // What was retransmitted is not lost; what was marked and not retransmitted was marked too early.
                self.board.unmark_lost();
            }
            self.recovery.end();
            self.patience.end_retransmissions();
            self.rtt.reset_backoff();
        }
    }

    /// RFC 3168 §6.1.2: ECE reduces the window once per window of data; while CWR waits for data to go with it, the echo
    /// is the old one.
    fn reacts_to_echo(&self, news: &AckNews) -> bool {
        let fresh = !self.is.ecn_reduced && (news.advanced || !self.board.is_empty());
        news.congestion_echo && self.is.ecn && fresh && self.recovery.is_open()
    }

    /// Grows the window for an ACK outside PRR, if it advances SND.UNA: what SACK blocks alone report lets a segment go for
    /// each that left, but "the TCP sender MUST NOT change cwnd to reflect" it (RFC 5681 §3.2).
    #[inline]
    pub(in crate::tcp) fn grow_window(&mut self, news: &AckNews, env: &mut Env<'_>) {
        if self.congestion.model().is_some() {
            return self.update_model(news, env);
        }
        if !news.advanced || news.delivered == 0 {
            return;
        }
        let growth = Growth {
            delivered: news.delivered,
            in_flight: self.in_flight(),
            rtt: news.rtt,
            smoothed_rtt: self.rtt.smoothed(),
            outstanding: (self.board.start(), self.send_next),
            maximum_segment: u32::from(self.maximum_segment),
            is_open: self.recovery.is_open(),
        };
        self.congestion.grow(&growth, env.now);
    }

    /// Leaves an episode whose recovery point is acknowledged.
    fn end_episode(&mut self) {
        if self.board.lost() == 0 && (self.recovery.is_open() || self.board.is_empty()) {
            self.recovery.settle_undo();
        }
        if self.recovery.is_open() || self.board.start().before(self.recovery.point()) {
            return;
        }
        if self.recovery.phase() == Phase::Reduced && self.board.start() == self.recovery.point() {
            // The segment with CWR begins here: until it is acknowledged, ECE still tells of the same congestion.
            return;
        }
        if self.recovery.is_reducing() || self.congestion.model().is_some() {
            self.congestion.end_reduction();
        }
        self.recovery.end();
        self.rack.on_recovery_end();
    }

    /// Marks what is lost; returns how many octets are newly so (or were found lost beyond an episode just ended).
    fn detect_loss(&mut self, news: &AckNews, env: &mut Env<'_>) -> u32 {
        if !self.is.sack {
            return self.detect_loss_by_duplicates(news, env);
        }
        if self.board.is_empty() {
            if !self.timers.is_persisting() {
                self.timers.stop();
            }
            return 0;
        }
        let in_recovery = matches!(self.recovery.phase(), Phase::Recovery | Phase::Loss);
        let segment = u32::from(self.maximum_segment);
        let window = self.rack.reordering_window(&self.rtt, in_recovery, self.board.sacked(), segment);
        let retransmitted = self.board.retransmitted();
        let has_model = self.congestion.model().is_some();
        // What a model wants to know of each; without one nothing is put there, and nothing allocated.
        let mut losses = Vec::new();
        let (mut lost, wait) = self.rack.detect_loss(&mut self.board, env.now, window, |record, octets| {
            if has_model {
                losses.push((record.sent_at, octets));
            }
        });
        if !losses.is_empty() {
            self.tell_losses(&losses, env.now);
        }
        if self.board.retransmitted() < retransmitted {
            env.counters.lost_retransmissions += 1;
        }
        if let Some(wait) = wait {
            // At least a millisecond, so that a fine clock does not make a timer per segment.
            self.timers.set(RetransmitKind::Reordering, env.now + wait.max(Duration::from_micros(50)));
        } else if news.delivered > 0 {
            self.arm_retransmission(env.now);
        }
        if self.recovery.is_open()
            && let Some(index) = self.board.next_lost()
            && !self.is_excused_mtu_probe(index)
        {
            lost = lost.max(1);
        }
        lost
    }

    /// RFC 5681 §3.2 and RFC 6582 for peers without SACK.
    fn detect_loss_by_duplicates(&mut self, news: &AckNews, env: &mut Env<'_>) -> u32 {
        if news.advanced {
            self.recovery.end_duplicates();
            self.arm_retransmission(env.now);
            if self.recovery.phase() == Phase::Recovery && !self.board.is_empty() {
                // RFC 6582 §3.2 step 3: a partial acknowledgment: "retransmit the first unacknowledged segment".
                return self.board.mark_lost(0);
            }
        } else if news.duplicate {
            let duplicates = self.recovery.count_duplicate();
            // "the third duplicate ACK"; in Recovery each further one lets another segment go (PRR counts it).
            if duplicates == 3 && self.recovery.phase() != Phase::Recovery && self.recovery.phase() != Phase::Loss {
                if let Some(first) = self.board.get(0).copied() {
                    self.tell_losses(
                        &[(first.sent_at, self.board.start_of(1).distance_from(self.board.start()))],
                        env.now,
                    );
                }
                return self.board.mark_lost(0);
            }
        }
        0
    }

    /// The reordering wait is over: what is still missing is lost.
    pub(in crate::tcp) fn on_reordering_timeout(&mut self, env: &mut Env<'_>) {
        let news = AckNews::default();
        self.arm_retransmission(env.now);
        self.recover(&news, env);
    }

    pub(in crate::tcp) fn enter_recovery(&mut self, news: &AckNews, env: &mut Env<'_>) {
        env.counters.fast_recoveries += 1;
        self.rack.cancel_probe();
        let flight = self.flight_before(news);
        self.reduce(CongestionCause::Loss, flight);
        self.recovery.begin(Phase::Recovery, self.send_next, flight);
    }

    pub(in crate::tcp) fn enter_reduced(&mut self, news: &AckNews, env: &mut Env<'_>) {
        env.counters.ecn_reductions += 1;
        let flight = self.flight_before(news);
        self.reduce(CongestionCause::EcnEcho, flight);
        self.recovery.forget_undo();
        self.recovery.begin(Phase::Reduced, self.send_next, flight);
        self.is.ecn_reduced = true;
    }

    /// FlightSize when congestion was noticed: before the ACK that told of it, which may have acknowledged much of it.
    fn flight_before(&self, news: &AckNews) -> u32 {
        news.flight.max(self.board.outstanding())
    }

    /// Asks the algorithm for the new threshold, remembering the old state for an undo.
    fn reduce(&mut self, cause: CongestionCause, flight: u32) {
        let segment = u32::from(self.maximum_segment);
        self.recovery.before_reduction(self.congestion.both(), self.board.start());
        self.congestion.reduce(flight, segment, cause);
    }

    /// RFC 5681 §3.1: after a time-out the window is one segment; RFC 8985 §6.3 says which segments are lost.
    pub(in crate::tcp) fn enter_loss(&mut self, env: &mut Env<'_>) {
        self.forget_mtu_probe(env);
        let lost_before = self.board.lost();
        let again = self.recovery.phase() == Phase::Recovery
            || (self.recovery.phase() == Phase::Loss && self.patience.retransmissions() > 1);
        if !again {
            // "ssthresh … when a segment is retransmitted for the second time, must not be reduced further".
            self.reduce(CongestionCause::Timeout, self.board.outstanding());
        }
        self.rack.cancel_probe();
        self.is.tail_probe = false;
        if self.board.get(0).is_some_and(|first| first.has(SACKED)) {
            // RFC 2018 §8: the receiver dropped what it had sacked.
            env.counters.sack_reneged += 1;
            self.board.forget_sacks();
            self.board.mark_all_lost();
        } else if self.is.sack && self.rtt.has_sample() {
            let segment = u32::from(self.maximum_segment);
            let window = self.rack.reordering_window(&self.rtt, true, self.board.sacked(), segment);
            self.rack.mark_on_timeout(&mut self.board, env.now, window);
        } else {
            self.board.mark_all_lost();
        }
        self.recovery.begin_loss(self.send_next);
        if let Some(model) = self.congestion.model_mut() {
            model.rate.note_lost(self.board.lost().saturating_sub(lost_before));
        }
        // In flight stays what was sent recently; one segment more may go.
        self.congestion.set_window(self.board.pipe() + u32::from(self.maximum_segment));
        self.arm_retransmission(env.now);
        self.is.output_wanted = true;
    }

    /// TLP_process_ack: a probe that repaired a loss reduces the window once.
    fn process_probe_answer(&mut self, news: &AckNews, env: &mut Env<'_>) {
        if !self.rack.probing() {
            return;
        }
        let repeated = !news.advanced && news.sacked == 0;
        if self.rack.on_probe_ack(self.board.start(), news.duplicate_report, repeated) && self.recovery.is_open() {
            env.counters.tail_loss_probe_recoveries += 1;
            // RFC 8985 §7.4.2: "invoke congestion control response equivalent to a fast recovery".
            self.reduce(CongestionCause::Loss, self.flight_before(news));
            self.recovery.forget_undo();
            self.congestion.cap();
        }
    }
}
