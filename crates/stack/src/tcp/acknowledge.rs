//! Acknowledgements received: RFC 9293 §3.10.7.4 fifth, RFC 2018 and 2883 for their SACK blocks.

use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::recovery::phase::AckNews;
use crate::tcp::recovery::scoreboard::{EVER_RETRANSMITTED, SACKED};
use crate::tcp::segment::SegmentIn;
use crate::tcp::sequence::SequenceNumber;
use qanat_api::Event;
use qanat_nic::Time;
use qanat_wire::tcp::Flags;
use std::time::Duration;

/// Largest RTT believed from a timestamp echo, milliseconds: a peer may echo anything.
const ECHO_RTT_MAX_MS: u32 = 60_000;

/// Whether the acknowledgement was acceptable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckVerdict {
    /// Go on with the segment.
    Accepted,
    /// Drop the segment.
    Drop,
}

impl Connection {
    /// Processes SEG.ACK, SEG.WND and the SACK blocks.
    pub(super) fn process_ack(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> AckVerdict {
        let ack = segment.acknowledgment;
        let una = self.board.start();
        if ack.after(self.send_next) {
            // RFC 9293: "If the ACK acks something not yet sent …, then send an ACK, drop the segment"; RFC 5961 §5.2.
            env.counters.acknowledgements_of_unsent += 1;
            self.send_challenge(env);
            return AckVerdict::Drop;
        }
        if ack.before(una) {
            if una.distance_from(ack) > self.send_window.max() {
                // RFC 5961 §5.2: "SND.UNA - MAX.SND.WND <= SEG.ACK" or a challenge ACK.
                env.counters.acknowledgements_too_old += 1;
                self.send_challenge(env);
                return AckVerdict::Drop;
            }
            env.counters.old_acknowledgements += 1;
            if self.is.sack && !segment.options.sack_blocks.is_empty() {
                let mut news = AckNews { echo: self.echo_of(segment), ..AckNews::default() };
                self.process_sack(segment, env, &mut news);
                self.recover(&news, env);
            }
            return AckVerdict::Accepted;
        }
        self.patience.end_probes();
        let window_before = self.send_window.size();
        let window = u32::from(segment.window) << self.send_scale;
        self.send_window.update(window, segment.sequence, ack.after(self.board.start()));
        let echo = self.echo_of(segment);
        let flight = self.board.outstanding();
        let mut news = AckNews { flight, echo, advanced: ack != una, ..AckNews::default() };
        if news.advanced {
            self.bunching.release();
            self.advance(ack, env, &mut news);
        }
        if self.is.sack && !segment.options.sack_blocks.is_empty() {
            self.process_sack(segment, env, &mut news);
        }
        news.congestion_echo = segment.flags.contains(Flags::ECE);
        let simple = self.recovery.is_open()
            && self.board.sacked() == 0
            && self.board.lost() == 0
            && news.sacked == 0
            && !news.duplicate_report
            && !news.congestion_echo
            && !self.rack.probing();
        if simple && news.advanced {
            // The usual case: in order, nothing missing.
            self.recovery.end_duplicates();
            self.grow_window(&news, env);
            self.arm_retransmission(env.now);
            self.is.output_wanted |=
                !self.board.is_empty() || self.queue.byte_count() > 0 || self.lifecycle.is_fin_queued();
            return AckVerdict::Accepted;
        }
        // RFC 5681 §2: "a duplicate acknowledgment": data outstanding, no data, same ACK number, same window.
        news.duplicate = !news.advanced
            && !self.board.is_empty()
            && segment.sequence_length() == 0
            && self.send_window.size() == window_before;
        let something = news.advanced || news.sacked > 0 || news.duplicate_report || news.congestion_echo;
        if something || news.duplicate || self.rack.probing() {
            self.recover(&news, env);
        }
        if self.send_window.size() != window_before {
            self.is.output_wanted = true;
            if self.timers.is_persisting() && self.send_window.size() > 0 {
                self.timers.stop();
                self.rtt.reset_backoff();
            }
        }
        AckVerdict::Accepted
    }

    /// TSecr, if it means anything.
    #[inline]
    fn echo_of(&self, segment: &SegmentIn<'_>) -> Option<u32> {
        match segment.options.timestamps {
            Some(timestamps) if self.is.timestamps && timestamps.echo != 0 => Some(timestamps.echo),
            _ => None,
        }
    }

    /// SND.UNA advances to `ack`: releases bytes, samples the RTT.
    #[inline]
    fn advance(&mut self, ack: SequenceNumber, env: &mut Env<'_>, news: &mut AckNews) {
        let now = env.now;
        let octets = ack.distance_from(self.board.start());
        let fin = u32::from(self.lifecycle.is_fin_sent() && ack == self.send_next);
        let mut first_sent: Option<Time> = None;
        let mut resent = false;
        let minimum = self.rtt.minimum();
        let offset = self.timestamps.offset();
        let rack = &mut self.rack;
        let segments = &mut self.statistics.delivered;
        let mut model = self.congestion.model_mut();
        let echo = news.echo;
        news.delivered += self.board.acknowledge(ack, |record| {
            if record.has(SACKED) {
                return;
            }
            *segments = segments.wrapping_add(1);
            if let Some(model) = &mut model {
                model.rate.on_delivered(record.sent_at, record.has(EVER_RETRANSMITTED));
            }
            if record.has(EVER_RETRANSMITTED) {
                resent = true;
            } else if first_sent.is_none() {
                first_sent = Some(record.sent_at);
            }
            rack.on_delivered(record, now, minimum, echo, |at| crate::tcp::segment::timestamp(at, offset));
        });
        self.sample_rtt(first_sent, resent, now, news);
        self.patience.end_retransmissions();
        self.outcome.forget_soft_error();
        self.check_mtu_probe(env);
        self.patience.restart(now);
        let data = octets - fin;
        if data > 0 {
            self.queue.release(u64::from(data));
            self.statistics.bytes_acknowledged += u64::from(data);
            env.counters.bytes_acknowledged += u64::from(data);
            env.events.push_back(Event::Acked { connection: self.id, bytes: data });
        }
    }

    /// RFC 6298 §3 (Karn): a segment sent once gives a sample; else a timestamp echo may (RFC 7323 §4).
    #[inline]
    fn sample_rtt(&mut self, first_sent: Option<Time>, resent: bool, now: Time, news: &mut AckNews) {
        if let Some(sent_at) = first_sent
            && !resent
        {
            news.rtt = now.since(sent_at);
            self.rtt.sample(news.rtt, now);
            return;
        }
        if let Some(echo) = news.echo {
            let elapsed = self.timestamp_now(now).wrapping_sub(echo);
            if elapsed < ECHO_RTT_MAX_MS {
                // Half a tick more: the clock counts whole milliseconds.
                news.rtt = Duration::from_micros(u64::from(elapsed) * 1_000 + 500);
                self.rtt.sample(news.rtt, now);
            }
        }
    }

    /// Applies SACK blocks; the first may be a D-SACK (RFC 2883 §4).
    #[inline(never)]
    fn process_sack(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>, news: &mut AckNews) {
        let una = self.board.start();
        let blocks = segment.options.sack_blocks;
        let blocks = blocks.as_slice();
        env.counters.sack_blocks_received += blocks.len() as u64;
        for (index, block) in blocks.iter().enumerate() {
            if !block.start.before(block.end) {
                env.counters.sack_blocks_invalid += 1;
                continue;
            }
            if index == 0 && self.is_duplicate_report(segment.acknowledgment, blocks) {
                if block.end.after(self.send_next) || block.start.before(una - self.send_window.max().min(u32::MAX / 4))
                {
                    env.counters.sack_blocks_invalid += 1;
                    continue;
                }
                env.counters.duplicate_sacks_received += 1;
                self.statistics.duplicate_sacks = self.statistics.duplicate_sacks.saturating_add(1);
                news.duplicate_report = true;
                self.rack.on_duplicate_report(una, self.send_next);
                self.recovery.on_duplicate_report(block.start);
                continue;
            }
            if block.end.at_or_before(una) {
                continue;
            }
            if block.start.before(una) || block.end.after(self.send_next) {
                // Not sent, or acknowledged already: never trusted.
                env.counters.sack_blocks_invalid += 1;
                continue;
            }
            let now = env.now;
            let minimum = self.rtt.minimum();
            let offset = self.timestamps.offset();
            let rack = &mut self.rack;
            let segments = &mut self.statistics.delivered;
            let mut model = self.congestion.model_mut();
            let mut sent_once: Option<Time> = None;
            let newly = self.board.sack(block.start, block.end, |record| {
                *segments = segments.wrapping_add(1);
                if let Some(model) = &mut model {
                    model.rate.on_delivered(record.sent_at, record.has(EVER_RETRANSMITTED));
                }
                if !record.has(EVER_RETRANSMITTED) {
                    sent_once = Some(record.sent_at);
                }
                // The echo tells nothing of segments beyond a gap (RFC 7323 §4.3).
                rack.on_delivered(record, now, minimum, None, |at| crate::tcp::segment::timestamp(at, offset));
            });
            news.sacked += newly;
            news.delivered += newly;
            if !news.advanced
                && let Some(sent_at) = sent_once
            {
                self.rtt.sample(now.since(sent_at), now);
            }
        }
    }

    /// RFC 2883 §4: the first block is below SEG.ACK, or inside the second block.
    fn is_duplicate_report(&self, ack: SequenceNumber, blocks: &[qanat_wire::tcp_options::SackBlock]) -> bool {
        let Some(first) = blocks.first() else { return false };
        if first.start.before(ack) {
            return true;
        }
        blocks.get(1).is_some_and(|second| first.start.at_or_after(second.start) && first.end.at_or_before(second.end))
    }
}
