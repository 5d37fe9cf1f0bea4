//! Segment size: the peer's and the path's limit (RFC 1191, 8201), and black holes (RFC 4821 §7.7 in spirit).

use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::segment::{MSS_BASE, MSS_MIN};
use crate::tcp::sequence::SequenceNumber;
use qanat_wire::tcp_options::TIMESTAMPS_LENGTH;

/// Consecutive time-outs of a long segment taken as a black hole.
const BLACK_HOLE_TIMEOUTS: u8 = 3;

impl Connection {
    /// Applies the peer's MSS option (RFC 9293 §3.7.1, RFC 6691: options count against it).
    pub(in crate::tcp) fn set_peer_segment(&mut self, peer: u16) {
        self.path_mtu.limit_peer(peer.max(MSS_MIN));
        self.apply_segment_size();
    }

    /// Recomputes the payload size after the path's or the peer's limit changed.
    pub(in crate::tcp) fn apply_segment_size(&mut self) {
        let options = if self.is.timestamps { TIMESTAMPS_LENGTH as u16 } else { 0 };
        self.maximum_segment = self.path_mtu.segment().saturating_sub(options).max(1);
    }

    /// ICMP says that packets to the peer may carry TCP segments of at most `maximum_segment` bytes (next-hop MTU − IP
    /// header − 20), quoting `sequence`. Ignored unless that is in flight (RFC 5927 §4.1), and never raised.
    /// Whether it counts, so that others to the same host should know.
    pub fn on_path_mtu(&mut self, maximum_segment: u16, sequence: SequenceNumber, env: &mut Env<'_>) -> bool {
        if !self.is_in_flight(sequence) || maximum_segment >= self.path_mtu.segment() {
            if !self.is_in_flight(sequence) || !self.on_mtu_probe_refused(maximum_segment, sequence, env) {
                env.counters.icmp_ignored += 1;
            }
            return false;
        }
        // RFC 1191 §3: an MTU below 576 is a lie or useless; take the smallest sensible one.
        let before = self.maximum_segment;
        let segment = maximum_segment.max(MSS_BASE.min(self.path_mtu.segment()));
        self.path_mtu.reduce(segment, None, env.now);
        self.apply_segment_size();
        env.counters.path_mtu_reductions += 1;
        self.resend_too_long(before, env);
        true
    }

    /// Another connection to the same host has learnt what the path takes (RFC 8201 §5.2).
    #[cold]
    pub fn adopt_path_mtu(&mut self, maximum_segment: u16, env: &mut Env<'_>) {
        let segment = maximum_segment.max(MSS_BASE.min(self.path_mtu.segment()));
        if segment < self.path_mtu.segment() {
            self.path_mtu.reduce(segment, None, env.now);
            self.apply_segment_size();
            env.counters.path_mtus_shared += 1;
        }
    }

    /// Whether `sequence` is outstanding (RFC 5927 §4.1: "SND.UNA =< SEG.SEQ < SND.NXT").
    pub fn is_in_flight(&self, sequence: SequenceNumber) -> bool {
        sequence.is_within(self.board.start(), self.send_next.distance_from(self.board.start()))
    }

    /// Segments longer than the path takes are lost, without congestion: they are sent again at once, cut.
    fn resend_too_long(&mut self, before: u16, _env: &mut Env<'_>) {
        if self.maximum_segment >= before {
            return;
        }
        for index in 0..self.board.len() {
            let length = match self.board.get(index) {
                Some(record) => record.end.distance_from(self.board.start_of(index)),
                None => break,
            };
            if length > u32::from(self.maximum_segment) {
                self.board.mark_lost(index);
            }
        }
        self.is.output_wanted = true;
    }

    /// Repeated time-outs of a long segment while nothing smaller was tried: halve towards the base size. Not only of a
    /// full one: the stream's last segment may be the only one that is too long.
    pub(in crate::tcp) fn detect_black_hole(&mut self, env: &mut Env<'_>) {
        let start = self.board.start();
        let length = self.board.get(0).map_or(0, |first| first.end.distance_from(start));
        if length <= u32::from(MSS_BASE) || self.patience.retransmissions() < BLACK_HOLE_TIMEOUTS {
            return;
        }
        let length = u16::try_from(length).unwrap_or(u16::MAX).min(self.path_mtu.segment());
        let halved = (length / 2).max(MSS_BASE);
        if halved < self.path_mtu.segment() {
            env.counters.black_holes_detected += 1;
            if self.patience.retransmissions() == BLACK_HOLE_TIMEOUTS {
                self.path_mtu.reduce(halved, Some(length), env.now);
            } else {
                // One loss of the smaller size may be chance: it is no limit of the search.
                self.path_mtu.reduce_further(halved, env.now);
            }
            self.apply_segment_size();
        }
    }
}
