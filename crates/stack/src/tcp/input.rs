//! Segment arrives: RFC 9293 §3.10.7, with the checks of RFC 5961 and RFC 7323.

use crate::tcp::acknowledge::AckVerdict;
use crate::tcp::connection::Connection;
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::segment::SegmentIn;
use crate::tcp::state::State;
use qanat_api::{Chunk, CloseReason, Event};
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::Flags;

impl Connection {
    /// Processes a received segment. `payload` holds exactly its data, if it has any.
    pub fn input(&mut self, segment: &SegmentIn<'_>, payload: Option<Chunk>, env: &mut Env<'_>) -> Disposition {
        env.counters.segments_received += 1;
        self.statistics.segments_received = self.statistics.segments_received.wrapping_add(1);
        match self.lifecycle.state() {
            State::Closed => return Disposition::Keep,
            State::SynSent => return self.input_syn_sent(segment, payload, env),
            _ => {}
        }
        if self.is.handshake.is_unproved()
            && let Some(disposition) = self.input_unproved(segment, env)
        {
            return disposition;
        }
        if self.lifecycle.state() == State::SynReceived && self.is_crossing_syn_ack(segment) {
            return self.establish_crossed(segment, env);
        }
        // First: sequence number, and before it the timestamp (RFC 7323 §5.3 R1).
        if self.is.timestamps && !self.timestamp_acceptable(segment, env) {
            return Disposition::Keep;
        }
        if !self.sequence_acceptable(segment) {
            self.reject_sequence(segment, env);
            return Disposition::Keep;
        }
        if segment.flags.intersects(Flags::RST | Flags::SYN) {
            return self.input_reset_or_syn(segment, env);
        }
        if !segment.flags.contains(Flags::ACK) {
            env.counters.acknowledgement_missing += 1;
            return Disposition::Keep;
        }
        self.last_received = env.now;
        self.note_timestamp(segment, env);
        self.note_user_timeout(segment, env);
        if self.lifecycle.state() == State::SynReceived && !self.establish_received(segment, env) {
            return Disposition::Reset;
        }
        if self.process_ack(segment, env) == AckVerdict::Drop {
            return Disposition::Keep;
        }
        if self.lifecycle.is_fin_sent() && self.board.is_empty() {
            let disposition = self.on_fin_acknowledged(env);
            if !matches!(disposition, Disposition::Keep) {
                return disposition;
            }
        }
        if segment.flags.contains(Flags::URG) {
            self.note_urgent(segment, env);
        }
        if self.is.ecn {
            self.note_ecn(segment, env);
        }
        if segment.sequence_length() > 0 {
            return self.receive(segment, payload, env);
        }
        Disposition::Keep
    }

    /// PAWS: RFC 7323 §5.3. `false`: the segment has been dealt with.
    #[inline]
    fn timestamp_acceptable(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> bool {
        if segment.flags.contains(Flags::RST) {
            return true;
        }
        let Some(timestamps) = segment.options.timestamps else {
            // §3.2: "If a non-<RST> segment is received without a TSopt, a TCP SHOULD silently drop the segment."
            env.counters.timestamp_missing += 1;
            return segment.flags.contains(Flags::SYN);
        };
        if !self.timestamps.is_old(timestamps.value) || self.timestamps.is_outdated(env.now) {
            return true;
        }
        env.counters.paws_rejected += 1;
        // A pure ACK overtaken by a newer one brings nothing and asks for nothing.
        let overtaken = segment.sequence_length() == 0 && segment.sequence == self.receive_window.next();
        if !overtaken {
            // "Send an acknowledgment in reply … and drop the segment."
            self.reply_out_of_window(segment, env);
        }
        false
    }

    /// RFC 7323 §4.3: TS.Recent is updated by the segment that the next ACK's edge falls into.
    #[inline]
    fn note_timestamp(&mut self, segment: &SegmentIn<'_>, env: &Env<'_>) {
        if let Some(timestamps) = segment.options.timestamps
            && self.is.timestamps
            && segment.sequence.at_or_before(self.acks.last_sent())
            && !self.timestamps.is_old(timestamps.value)
        {
            self.timestamps.set_recent(timestamps.value, env.now);
        }
    }

    /// RFC 9293 §3.10.7.4 first, as Linux reads it: a segment may also begin at the right edge (an ACK by a peer that
    /// has filled the window), and end where our last ACK stands (the last segment again: its ACK and timestamp count,
    /// or two ends that both only retransmit would never hear each other).
    #[inline]
    fn sequence_acceptable(&self, segment: &SegmentIn<'_>) -> bool {
        let end = segment.sequence + segment.sequence_length();
        segment.sequence.at_or_before(self.receive_window.edge()) && end.at_or_after(self.acks.last_sent())
    }

    #[cold]
    fn reject_sequence(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) {
        env.counters.out_of_window += 1;
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if segment.flags.contains(Flags::SYN) {
            env.counters.syn_in_window += 1;
            self.send_challenge(env);
            return;
        }
        let end = segment.sequence + segment.payload_length;
        if segment.payload_length > 0 && end.at_or_before(self.receive_window.next()) {
            env.counters.duplicate_data += 1;
            self.report_duplicate(segment.sequence, end);
        }
        self.reply_out_of_window(segment, env);
    }

    /// "If an incoming segment is not acceptable, an acknowledgment should be sent in reply."
    fn reply_out_of_window(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) {
        if segment.sequence_length() == 0 && !self.challenges.allow_one(env.now) {
            env.counters.challenge_acks_suppressed += 1;
            return;
        }
        self.acknowledge_now();
    }

    /// A challenge ACK (RFC 5961), within the connection's ration.
    pub(super) fn send_challenge(&mut self, env: &mut Env<'_>) {
        if self.challenges.allow(env.now) {
            env.counters.challenge_acks_sent += 1;
            self.acknowledge_now();
        } else {
            env.counters.challenge_acks_suppressed += 1;
        }
    }

    /// RFC 5961 §3.2 and §4.2.
    #[cold]
    fn input_reset_or_syn(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> Disposition {
        if segment.flags.contains(Flags::RST) {
            env.counters.resets_received += 1;
            if segment.sequence != self.receive_window.next() {
                if !segment.sequence.is_within(self.receive_window.next(), self.receive_window.offered()) {
                    // "If the RST bit is set and the sequence number is outside the current receive window, silently drop the
                    // segment." What begins right at its edge is, though an ACK may begin there.
                    env.counters.out_of_window += 1;
                    return Disposition::Keep;
                }
                // "If the RST bit is set and the sequence number does not exactly match …, send a challenge ACK."
                self.send_challenge(env);
                return Disposition::Keep;
            }
            let why = match self.lifecycle.state() {
                State::SynReceived => CloseReason::Refused,
                // Both directions were finished: nothing was lost.
                State::Closing | State::LastAck if self.board.outstanding() <= 1 => CloseReason::Finished,
                _ => CloseReason::ResetByPeer,
            };
            return self.finish(why, env);
        }
        // "If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK".
        env.counters.syn_in_window += 1;
        self.send_challenge(env);
        Disposition::Keep
    }

    /// SYN-SENT: RFC 9293 §3.10.7.3.
    #[cold]
    fn input_syn_sent(&mut self, segment: &SegmentIn<'_>, payload: Option<Chunk>, env: &mut Env<'_>) -> Disposition {
        let acknowledges = segment.flags.contains(Flags::ACK);
        let first = self.initial_send + 1;
        let is_of_syn = segment.acknowledgment.is_within(first, self.syn_data_sent() + 1);
        if acknowledges && !is_of_syn {
            if segment.flags.contains(Flags::RST) {
                return Disposition::Keep;
            }
            // Most likely the peer still has an earlier incarnation, which our reset ends (RFC 9293 §3.5.1, figure 9): the
            // SYN follows it, as Linux's does after TCP_TIMEOUT_MIN, rather than after the time-out. Once: it counts as a
            // retransmission (so its answer gives no round-trip time), and a flood of such segments makes no flood of SYNs.
            if self.patience.retransmissions() == 0 && !self.board.is_empty() {
                self.patience.count_retransmission();
                self.is.handshake.want_syn(true);
                self.is.output_wanted = true;
            }
            return Disposition::Reset;
        }
        if segment.flags.contains(Flags::RST) {
            env.counters.resets_received += 1;
            return if acknowledges { self.finish(CloseReason::Refused, env) } else { Disposition::Keep };
        }
        if !segment.flags.contains(Flags::SYN) {
            return Disposition::Keep;
        }
        self.adopt_options(segment, env);
        self.note_user_timeout(segment, env);
        self.send_window.open(u32::from(segment.window), segment.sequence);
        if !acknowledges {
            // Simultaneous open: "enter SYN-RECEIVED, form a SYN,ACK segment and send it".
            env.counters.simultaneous_opens += 1;
            self.is.ecn &= segment.flags.contains(Flags::ECE | Flags::CWR);
            self.lifecycle.cross();
            self.is.handshake.want_syn(true);
            self.is.output_wanted = true;
            return Disposition::Keep;
        }
        self.is.ecn &= segment.flags.intersection(Flags::ECE | Flags::CWR) == Flags::ECE;
        let has_retried = self.patience.retransmissions() > 0;
        self.establish(segment, env);
        self.acks.owe();
        if self.finish_fast_open(segment, has_retried, env) {
            // The peer would send its data again, but a client that asked for Fast Open may have it at once (RFC 7413 §4.2.2).
            return self.receive_syn_data(segment, payload, env);
        }
        Disposition::Keep
    }

    /// What the peer's SYN offers.
    fn adopt_options(&mut self, segment: &SegmentIn<'_>, env: &Env<'_>) {
        let options = segment.options;
        self.set_receive_start(segment.sequence, env.config.initial_window(self.right_sizing.most()));
        self.is.sack &= options.sack_permitted;
        match (self.is.timestamps, options.timestamps) {
            (true, Some(timestamps)) => {
                self.timestamps.set_recent(timestamps.value, env.now);
            }
            _ => self.is.timestamps = false,
        }
        if let (true, Some(scale)) = (env.config.window_scaling, options.window_scale) {
            self.send_scale = scale.min(14);
            self.receive_window.set_scale(env.config.window_scale(self.right_sizing.most()));
        }
        self.set_peer_segment(options.mss.unwrap_or(crate::tcp::segment::MSS_DEFAULT));
    }

    /// Our SYN is acknowledged: ESTABLISHED, or beyond if a FIN was queued meanwhile.
    fn establish(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) {
        let now = env.now;
        let mut sent_once = None;
        self.board.acknowledge(segment.acknowledgment.earlier(self.initial_send + 1), |record| {
            sent_once = Some(record.sent_at);
        });
        if self.patience.retransmissions() == 0
            && let Some(sent_at) = sent_once
        {
            self.rtt.sample(now.since(sent_at), now);
        }
        self.statistics.delivered = 1;
        self.congestion.open(u32::from(self.maximum_segment));
        self.patience.end_retransmissions();
        self.rtt.reset_backoff();
        self.timers.stop();
        self.lifecycle.establish();
        self.is.handshake.want_syn(false);
        self.is.output_wanted = true;
        self.last_received = now;
        self.patience.restart(now);
        self.start_right_sizing(now);
        self.arm_keepalive(env.config, now);
        env.counters.active_opens += 1;
        env.events.push_back(Event::Connected { connection: self.id });
    }

    /// In SYN-RECEIVED of a simultaneous open: the peer's SYN-ACK, whose SYN we have seen.
    fn is_crossing_syn_ack(&self, segment: &SegmentIn<'_>) -> bool {
        segment.flags.contains(Flags::SYN | Flags::ACK)
            && !segment.flags.contains(Flags::RST)
            && segment.sequence == self.receive_window.initial()
            && self.acknowledges_syn(segment)
    }

    /// Whether a segment acknowledges the SYN, or the FIN that followed it, too.
    fn acknowledges_syn(&self, segment: &SegmentIn<'_>) -> bool {
        // Nothing, as long as the SYN itself has not left.
        let sent = self.send_next.distance_from(self.initial_send);
        segment.acknowledgment.is_within(self.initial_send + 1, sent)
    }

    fn establish_crossed(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> Disposition {
        self.is.ecn &= segment.flags.intersection(Flags::ECE | Flags::CWR) == Flags::ECE;
        self.establish(segment, env);
        self.acks.owe();
        Disposition::Keep
    }

    /// SYN-RECEIVED: "If SND.UNA < SEG.ACK =< SND.NXT then enter ESTABLISHED …; else form a reset".
    fn establish_received(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> bool {
        if !self.acknowledges_syn(segment) {
            return false;
        }
        self.establish(segment, env);
        self.send_window.establish(u32::from(segment.window) << self.send_scale);
        true
    }

    /// Our FIN is acknowledged.
    fn on_fin_acknowledged(&mut self, env: &mut Env<'_>) -> Disposition {
        match self.lifecycle.state() {
            State::FinWait1 => {
                self.lifecycle.enter_fin_wait_2();
                if self.lifecycle.is_orphaned() {
                    self.timers.set_idle(env.now + env.config.fin_wait_2);
                }
                Disposition::Keep
            }
            State::Closing => self.enter_time_wait(env),
            State::LastAck => self.finish(CloseReason::Finished, env),
            _ => Disposition::Keep,
        }
    }

    /// TIME-WAIT: the slot is given up; a small record answers old duplicates.
    pub(super) fn enter_time_wait(&mut self, env: &mut Env<'_>) -> Disposition {
        let remains = self.time_wait(env.now + env.config.time_wait);
        self.report_closed(CloseReason::Finished, env);
        Disposition::TimeWait(remains)
    }

    /// RFC 3168 §6.1.3: the receiver echoes congestion until CWR.
    #[inline]
    fn note_ecn(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) {
        if segment.flags.contains(Flags::CWR) && segment.payload_length > 0 {
            self.is.ecn_echo = false;
        }
        if segment.ecn == Ecn::CongestionExperienced && segment.payload_length > 0 {
            env.counters.ecn_marks_received += 1;
            self.statistics.delivered_ecn = self.statistics.delivered_ecn.wrapping_add(1);
            self.is.ecn_echo = true;
            // "the data receiver … as soon as possible": the sender should hear of it now.
            self.acknowledge_now();
        }
    }
}
