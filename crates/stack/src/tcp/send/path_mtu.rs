//! Segment size: the peer's and the path's limit (RFC 1191, 8201), and black holes (RFC 4821 §7.7 in spirit).

use crate::tcp::connection::Connection;
use crate::tcp::send::path_mtu_search::Search;
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::{Env, MSS_BASE};

/// Consecutive time-outs of a long segment taken as a black hole.
const BLACK_HOLE_TIMEOUTS: u8 = 3;

/// Largest TCP segments, headers excluded and options included.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PathMtu {
    /// What our interface takes: announced in our MSS option.
    local: u16,
    /// The least of what the interface and the peer take.
    limit: u16,
    /// The least of what the interface, the peer and the path take.
    pub(in crate::tcp) current: u16,
    pub(in crate::tcp) search: Search,
}

impl PathMtu {
    /// Nothing known but the interface's limit.
    pub fn new(local: u16) -> PathMtu {
        PathMtu { local, limit: local, current: local, search: Search::new() }
    }

    /// To announce.
    pub fn local_segment(&self) -> u16 {
        self.local
    }

    /// The least of all limits.
    #[inline]
    pub fn segment(&self) -> u16 {
        self.current
    }

    /// What the path could take at best.
    pub(in crate::tcp) fn limit(&self) -> u16 {
        self.limit
    }

    /// The peer's MSS option.
    pub fn limit_peer(&mut self, peer: u16) {
        self.limit = self.limit.min(peer);
        self.current = self.current.min(peer);
    }
}

impl Connection {
    /// ICMP says that packets to the peer may carry TCP segments of at most `maximum_segment` bytes (next-hop MTU − IP
    /// header − 20), quoting `sequence`. Ignored unless that is in flight (RFC 5927 §4.1), and never raised.
    /// Whether it counts, so that others to the same host should know.
    pub fn on_path_mtu(&mut self, maximum_segment: u16, sequence: SequenceNumber, env: &mut Env<'_>) -> bool {
        if !self.is_in_flight(sequence) || maximum_segment >= self.path_mtu.current {
            if !self.is_in_flight(sequence) || !self.on_mtu_probe_refused(maximum_segment, sequence, env) {
                env.counters.icmp_ignored += 1;
            }
            return false;
        }
        // RFC 1191 §3: an MTU below 576 is a lie or useless; take the smallest sensible one.
        let before = self.maximum_segment;
        self.path_mtu.current = maximum_segment.max(MSS_BASE.min(self.path_mtu.current));
        self.apply_segment_size();
        self.path_mtu.start_search(None, env.now);
        env.counters.path_mtu_reductions += 1;
        self.resend_too_long(before, env);
        true
    }

    /// Another connection to the same host has learnt what the path takes (RFC 8201 §5.2).
    #[cold]
    pub fn adopt_path_mtu(&mut self, maximum_segment: u16, env: &mut Env<'_>) {
        let segment = maximum_segment.max(MSS_BASE.min(self.path_mtu.current));
        if segment < self.path_mtu.current {
            self.path_mtu.current = segment;
            self.apply_segment_size();
            self.path_mtu.start_search(None, env.now);
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
        if length <= u32::from(MSS_BASE) || self.retransmissions < BLACK_HOLE_TIMEOUTS {
            return;
        }
        let length = u16::try_from(length).unwrap_or(u16::MAX).min(self.path_mtu.current);
        let halved = (length / 2).max(MSS_BASE);
        if halved < self.path_mtu.current {
            env.counters.black_holes_detected += 1;
            self.path_mtu.current = halved;
            self.path_mtu.start_search(Some(length), env.now);
            self.apply_segment_size();
        }
    }
}
