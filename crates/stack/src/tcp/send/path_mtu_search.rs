//! Packetization layer path MTU discovery, upwards (RFC 4821 §7, as Linux's `tcp_mtu_probe`): after a black hole or an ICMP
//! message made segments smaller, one segment now and then is larger. If it is acknowledged all are.
//!
//! ```text
//!   current ──────────────▶ search_high        the largest not known to fail; after AGE (RFC 1191 §6.3, RFC 8201 §5.2)
//!      ▲    probe between       ▼              what failed is forgotten: paths change
//!   acknowledged            lost three times
//! ```
//!
//! A probe's loss says nothing of congestion (RFC 4821 §7.5): if nothing else is missing it is sent again in pieces, and the
//! window stays.

use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::recovery::scoreboard::LOST;
use crate::tcp::sequence::SequenceNumber;

/// Segments that must follow a probe, so that its loss is found without a time-out.
const FOLLOWERS: u64 = 3;

impl Connection {
    /// Payload of a probe, if one should be the next new segment.
    #[inline]
    pub(in crate::tcp) fn probe_payload(&mut self, env: &Env<'_>) -> Option<u32> {
        if self.path_mtu.probe_at() > env.now {
            return None;
        }
        self.plan_probe(env)
    }

    #[cold]
    fn plan_probe(&mut self, env: &Env<'_>) -> Option<u32> {
        if !env.config.path_mtu_probing {
            self.path_mtu.end_search();
            return None;
        }
        let quiet = self.recovery.is_open() && self.board.lost() == 0 && self.board.sacked() == 0;
        if self.path_mtu.is_probing() || !quiet || !self.is.sack || self.held.has_gap() {
            return None;
        }
        let size = self.path_mtu.next_probe()?;
        let payload = u32::from(self.maximum_segment) + u32::from(size - self.path_mtu.segment());
        let enough = u64::from(payload) + FOLLOWERS * u64::from(self.maximum_segment);
        let room = self.congestion.room(self.in_flight());
        let peer = self.send_window.size().saturating_sub(self.board.outstanding());
        (self.unsent() >= enough && u64::from(room) >= enough && u64::from(peer) >= enough).then_some(payload)
    }

    /// A segment with `payload` bytes, more than usual, has been sent, ending at `end`.
    pub(in crate::tcp) fn on_mtu_probe_sent(&mut self, payload: u32, end: SequenceNumber, env: &mut Env<'_>) {
        let options = self.path_mtu.segment().saturating_sub(self.maximum_segment);
        self.path_mtu.probe_sent((payload as u16).saturating_add(options), end);
        env.counters.path_mtu_probes_sent += 1;
    }

    /// SND.UNA advanced: the probe may have arrived.
    #[inline]
    pub(in crate::tcp) fn check_mtu_probe(&mut self, env: &mut Env<'_>) {
        if self.path_mtu.is_probing() && self.board.start().at_or_after(self.path_mtu.probe_end()) {
            self.on_mtu_probe_acknowledged(env);
        }
    }

    #[cold]
    fn on_mtu_probe_acknowledged(&mut self, env: &mut Env<'_>) {
        env.counters.path_mtu_raised += 1;
        self.path_mtu.probe_acknowledged(env.now);
        self.apply_segment_size();
    }

    /// The probe is given up: it was lost.
    fn on_mtu_probe_lost(&mut self, env: &mut Env<'_>) {
        env.counters.path_mtu_probes_lost += 1;
        self.path_mtu.probe_lost(env.now, self.rtt.base_timeout());
    }

    /// Octets newly marked `lost` that are a reason to slow down: not those of a probe, if it alone is missing.
    pub(in crate::tcp) fn excuse_mtu_probe(&mut self, lost: u32, env: &mut Env<'_>) -> u32 {
        let end = self.path_mtu.probe_end();
        let mut excused = 0;
        for index in 0..self.board.len() {
            let Some(record) = self.board.get(index) else { break };
            if record.end.before(end) {
                continue;
            }
            if record.end == end && record.has(LOST) {
                excused = end.distance_from(self.board.start_of(index));
            }
            break;
        }
        if excused == 0 {
            return lost;
        }
        self.on_mtu_probe_lost(env);
        self.is.output_wanted = true;
        if self.board.lost() == excused { 0 } else { lost }
    }

    /// Whether `index`, lost, is a probe given up, and alone: then it is no reason to slow down with later ACKs either, which
    /// may come before it is sent again.
    pub(in crate::tcp) fn is_excused_mtu_probe(&self, index: usize) -> bool {
        let length = |end: SequenceNumber| end.distance_from(self.board.start_of(index));
        self.board
            .get(index)
            .is_some_and(|record| record.end == self.path_mtu.probe_end() && self.board.lost() == length(record.end))
    }

    /// Where the probe in flight begins.
    #[cfg(test)]
    pub(in crate::tcp) fn mtu_probe_start(&self) -> Option<SequenceNumber> {
        let (size, end) = (self.path_mtu.probe_size(), self.path_mtu.probe_end());
        let index =
            (0..self.board.len()).find(|index| self.board.get(*index).is_some_and(|record| record.end == end))?;
        (size != 0).then(|| self.board.start_of(index))
    }

    /// After a retransmission time-out nobody knows whether the probe arrived: it counts as lost.
    pub(in crate::tcp) fn forget_mtu_probe(&mut self, env: &mut Env<'_>) {
        if self.path_mtu.is_probing() {
            self.on_mtu_probe_lost(env);
        }
    }

    /// ICMP says that a segment with `sequence` was too large, and that `maximum_segment` would do. Gives whether it was the probe.
    pub(in crate::tcp) fn on_mtu_probe_refused(
        &mut self,
        maximum_segment: u16,
        sequence: SequenceNumber,
        env: &mut Env<'_>,
    ) -> bool {
        let (size, end) = (self.path_mtu.probe_size(), self.path_mtu.probe_end());
        if size == 0 || maximum_segment >= size || !sequence.before(end) {
            return false;
        }
        let first = (0..self.board.len()).find(|index| self.board.get(*index).is_some_and(|record| record.end == end));
        let Some(index) = first.filter(|index| self.board.start_of(*index) == sequence) else { return false };
        self.path_mtu.probe_refused(maximum_segment, env.now);
        env.counters.path_mtu_probes_lost += 1;
        self.board.mark_lost(index);
        self.is.output_wanted = true;
        true
    }
}
