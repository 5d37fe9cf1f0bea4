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
use crate::tcp::recovery::episode::Phase;
use crate::tcp::recovery::scoreboard::LOST;
use crate::tcp::send::path_mtu::PathMtu;
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::timers::NEVER;
use crate::tcp::{Env, MSS_BASE};
use qanat_nic::Time;
use std::time::Duration;

/// RFC 1191 §6.3, RFC 8201 §4: "an attempt to detect an increase … at least 5 minutes, recommended 10".
const AGE: Duration = Duration::from_secs(600);
/// The search ends when less than this is to be gained, bytes.
const WORTHWHILE: u16 = 16;
/// Losses of a probe of one size that count as "too large": one may be chance.
const FAILURES_MAX: u8 = 3;
/// Segments that must follow a probe, so that its loss is found without a time-out.
const FOLLOWERS: u64 = 3;

/// The search's state.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(in crate::tcp) struct Search {
    /// The largest size not known to fail.
    high: u16,
    /// Size of the probe in flight; 0: none.
    size: u16,
    /// Probes of the size in question that were lost.
    failures: u8,
    /// After the probe's last octet.
    end: SequenceNumber,
    /// When the next probe may go; [`NEVER`]: there is nothing to gain.
    pub(in crate::tcp) at: Time,
}

impl Search {
    pub(in crate::tcp) fn new() -> Search {
        Search { high: 0, size: 0, failures: 0, end: SequenceNumber(0), at: NEVER }
    }
}

impl Search {
    /// Size of the probe in flight; 0: none.
    #[inline]
    pub(in crate::tcp) fn size(&self) -> u16 {
        self.size
    }
}

impl PathMtu {
    /// The size to try next; `None`: nothing worthwhile.
    fn candidate(&self) -> Option<u16> {
        let high = self.search.high;
        if high < self.current.saturating_add(WORTHWHILE) {
            return None;
        }
        // A path that has changed most likely takes everything.
        Some(if high == self.limit() { high } else { self.current + (high - self.current).div_ceil(2) })
    }

    /// The size was reduced: by a message about the path (`failed` is `None`), or because segments of `failed` bytes vanish.
    pub(in crate::tcp) fn start_search(&mut self, failed: Option<u16>, now: Time) {
        self.search.size = 0;
        self.search.failures = 0;
        self.search.high = failed.map_or(self.current, |failed| failed.saturating_sub(1).min(self.limit()));
        self.search.at = if self.candidate().is_some() { now } else { now + AGE };
    }
}

impl Connection {
    /// Payload of a probe, if one should be the next new segment.
    #[inline]
    pub(in crate::tcp) fn probe_payload(&mut self, env: &Env<'_>) -> Option<u32> {
        if self.path_mtu.search.at > env.now {
            return None;
        }
        self.plan_probe(env)
    }

    #[cold]
    fn plan_probe(&mut self, env: &Env<'_>) -> Option<u32> {
        if !env.config.path_mtu_probing {
            self.path_mtu.search.at = NEVER;
            return None;
        }
        let quiet = self.phase == Phase::Open && self.board.lost() == 0 && self.board.sacked() == 0;
        if self.path_mtu.search.size != 0 || !quiet || !self.is.sack || self.reassembly.is_some() {
            return None;
        }
        let size = match self.path_mtu.candidate() {
            Some(size) => size,
            None => {
                // What failed is ten minutes old.
                self.path_mtu.search.high = self.path_mtu.limit();
                self.path_mtu.search.failures = 0;
                match self.path_mtu.candidate() {
                    Some(size) => size,
                    None => {
                        self.path_mtu.search.at = NEVER;
                        return None;
                    }
                }
            }
        };
        let payload = u32::from(self.maximum_segment) + u32::from(size - self.path_mtu.segment());
        let enough = u64::from(payload) + FOLLOWERS * u64::from(self.maximum_segment);
        let room = self.window.congestion_window.saturating_sub(self.in_flight());
        let peer = self.send_window.saturating_sub(self.board.outstanding());
        (self.unsent() >= enough && u64::from(room) >= enough && u64::from(peer) >= enough).then_some(payload)
    }

    /// A segment with `payload` bytes, more than usual, has been sent, ending at `end`.
    pub(in crate::tcp) fn on_mtu_probe_sent(&mut self, payload: u32, end: SequenceNumber, env: &mut Env<'_>) {
        let options = self.path_mtu.segment().saturating_sub(self.maximum_segment);
        self.path_mtu.search.size = (payload as u16).saturating_add(options);
        self.path_mtu.search.end = end;
        env.counters.path_mtu_probes_sent += 1;
    }

    /// SND.UNA advanced: the probe may have arrived.
    #[inline]
    pub(in crate::tcp) fn check_mtu_probe(&mut self, env: &mut Env<'_>) {
        if self.path_mtu.search.size != 0 && self.board.start().at_or_after(self.path_mtu.search.end) {
            self.on_mtu_probe_acknowledged(env);
        }
    }

    #[cold]
    fn on_mtu_probe_acknowledged(&mut self, env: &mut Env<'_>) {
        let size = std::mem::take(&mut self.path_mtu.search.size);
        self.path_mtu.search.failures = 0;
        env.counters.path_mtu_raised += 1;
        self.path_mtu.current = size.max(self.path_mtu.current);
        self.apply_segment_size();
        self.search_on(env.now);
    }

    /// Sets the time of the next probe.
    fn search_on(&mut self, now: Time) {
        let search_more = self.path_mtu.candidate().is_some();
        let complete = self.path_mtu.current.saturating_add(WORTHWHILE) > self.path_mtu.limit();
        self.path_mtu.search.at = match (search_more, complete) {
            (true, _) => now,
            (false, true) => NEVER,
            (false, false) => now + AGE,
        };
    }

    /// The probe is given up: it was lost.
    fn on_mtu_probe_lost(&mut self, env: &mut Env<'_>) {
        let size = std::mem::take(&mut self.path_mtu.search.size);
        env.counters.path_mtu_probes_lost += 1;
        self.path_mtu.search.failures = self.path_mtu.search.failures.saturating_add(1);
        if self.path_mtu.search.failures < FAILURES_MAX {
            self.path_mtu.search.at = env.now + self.rtt.base_timeout();
            return;
        }
        self.path_mtu.search.failures = 0;
        self.path_mtu.search.high = (size - 1).max(MSS_BASE);
        self.search_on(env.now);
    }

    /// Octets newly marked `lost` that are a reason to slow down: not those of a probe, if it alone is missing.
    pub(in crate::tcp) fn excuse_mtu_probe(&mut self, lost: u32, env: &mut Env<'_>) -> u32 {
        let end = self.path_mtu.search.end;
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
            .is_some_and(|record| record.end == self.path_mtu.search.end && self.board.lost() == length(record.end))
    }

    /// Where the probe in flight begins.
    #[cfg(test)]
    pub(in crate::tcp) fn mtu_probe_start(&self) -> Option<SequenceNumber> {
        let Search { size, end, .. } = self.path_mtu.search;
        let index =
            (0..self.board.len()).find(|index| self.board.get(*index).is_some_and(|record| record.end == end))?;
        (size != 0).then(|| self.board.start_of(index))
    }

    /// A retransmission time-out: whether the probe arrived is not known.
    pub(in crate::tcp) fn forget_mtu_probe(&mut self, env: &mut Env<'_>) {
        if self.path_mtu.search.size != 0 {
            self.on_mtu_probe_lost(env);
        }
    }

    /// ICMP says that the probe, which `sequence` is in, was too large: `maximum_segment` would do. Whether it was.
    pub(in crate::tcp) fn on_mtu_probe_refused(
        &mut self,
        maximum_segment: u16,
        sequence: SequenceNumber,
        env: &mut Env<'_>,
    ) -> bool {
        let Search { size, end, .. } = self.path_mtu.search;
        if size == 0 || maximum_segment >= size || !sequence.before(end) {
            return false;
        }
        let first = (0..self.board.len()).find(|index| self.board.get(*index).is_some_and(|record| record.end == end));
        let Some(index) = first.filter(|index| self.board.start_of(*index) == sequence) else { return false };
        self.path_mtu.search.size = 0;
        self.path_mtu.search.failures = 0;
        self.path_mtu.search.high = maximum_segment.max(self.path_mtu.current);
        env.counters.path_mtu_probes_lost += 1;
        self.board.mark_lost(index);
        self.search_on(env.now);
        self.is.output_wanted = true;
        true
    }
}
