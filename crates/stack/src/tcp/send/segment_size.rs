//! How long segments may be: what the interface, the peer and the path take, and the search for more. All that changes these
//! numbers is here.

use crate::tcp::segment::MSS_BASE;
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::timers::NEVER;
use qanat_nic::Time;
use std::time::Duration;

/// RFC 1191 §6.3, RFC 8201 §4: "an attempt to detect an increase … at least 5 minutes, recommended 10".
const AGE: Duration = Duration::from_secs(600);
/// The search ends when less than this is to be gained, bytes.
const WORTHWHILE: u16 = 16;
/// Losses of a probe of one size that count as "too large": one may be chance.
const FAILURES_MAX: u8 = 3;

/// Largest TCP segments, headers excluded and options included.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PathMtu {
    /// What our interface takes: announced in our MSS option.
    local: u16,
    /// The least of what the interface and the peer take.
    limit: u16,
    /// The least of what the interface, the peer and the path take.
    current: u16,
    search: Search,
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

    /// The peer's MSS option.
    pub fn limit_peer(&mut self, peer: u16) {
        self.limit = self.limit.min(peer);
        self.current = self.current.min(peer);
    }
}

/// The search's state.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Search {
    /// The largest size not known to fail.
    high: u16,
    /// Size of the probe in flight; 0: none.
    size: u16,
    /// Probes of the size in question that were lost.
    failures: u8,
    /// After the probe's last octet.
    end: SequenceNumber,
    /// When the next probe may go; [`NEVER`]: there is nothing to gain.
    at: Time,
}

impl Search {
    fn new() -> Search {
        Search { high: 0, size: 0, failures: 0, end: SequenceNumber(0), at: NEVER }
    }
}

impl PathMtu {
    /// When the next probe may go; [`NEVER`]: there is nothing to gain.
    #[inline]
    pub(in crate::tcp) fn probe_at(&self) -> Time {
        self.search.at
    }

    /// Whether a probe is in flight.
    #[inline]
    pub(in crate::tcp) fn is_probing(&self) -> bool {
        self.search.size != 0
    }

    /// Size of the probe in flight; 0: none.
    pub(super) fn probe_size(&self) -> u16 {
        self.search.size
    }

    /// After the last octet of the probe sent last.
    #[inline]
    pub(super) fn probe_end(&self) -> SequenceNumber {
        self.search.end
    }

    /// The size to try next; `None`: nothing worthwhile.
    fn candidate(&self) -> Option<u16> {
        let high = self.search.high;
        if high < self.current.saturating_add(WORTHWHILE) {
            return None;
        }
        // A path that has changed most likely takes everything.
        Some(if high == self.limit { high } else { self.current + (high - self.current).div_ceil(2) })
    }

    /// The size to try next, now that it is time; `None`: there is nothing to gain any more.
    pub(super) fn next_probe(&mut self) -> Option<u16> {
        if let Some(size) = self.candidate() {
            return Some(size);
        }
        // What failed is ten minutes old.
        self.search.high = self.limit;
        self.search.failures = 0;
        let size = self.candidate();
        if size.is_none() {
            self.search.at = NEVER;
        }
        size
    }

    /// No search.
    pub(super) fn end_search(&mut self) {
        self.search.at = NEVER;
    }

    /// Segments are `to` bytes from now on: by a message about the path (`failed` is `None`), or because segments of `failed`
    /// bytes vanish.
    pub(super) fn reduce(&mut self, to: u16, failed: Option<u16>, now: Time) {
        self.current = to;
        self.search.size = 0;
        self.search.failures = 0;
        self.search.high = failed.map_or(self.current, |failed| failed.saturating_sub(1).min(self.limit));
        self.search.at = if self.candidate().is_some() { now } else { now + AGE };
    }

    /// Segments are `to` bytes from now on. What the path takes at most is known as well as before.
    pub(super) fn reduce_further(&mut self, to: u16, now: Time) {
        self.current = to;
        self.search.size = 0;
        self.search.failures = 0;
        self.search_on(now);
    }

    /// Sets the time of the next probe.
    fn search_on(&mut self, now: Time) {
        let search_more = self.candidate().is_some();
        let complete = self.current.saturating_add(WORTHWHILE) > self.limit;
        self.search.at = match (search_more, complete) {
            (true, _) => now,
            (false, true) => NEVER,
            (false, false) => now + AGE,
        };
    }

    /// A probe of `size` bytes has left, which ends at `end`.
    pub(super) fn probe_sent(&mut self, size: u16, end: SequenceNumber) {
        self.search.size = size;
        self.search.end = end;
    }

    /// The probe has arrived: the path takes as much.
    pub(super) fn probe_acknowledged(&mut self, now: Time) {
        let size = std::mem::take(&mut self.search.size);
        self.search.failures = 0;
        self.current = size.max(self.current);
        self.search_on(now);
    }

    /// The probe is given up: it was lost. Another of its size may go after a `pause`, if this can be chance.
    pub(super) fn probe_lost(&mut self, now: Time, pause: Duration) {
        let size = std::mem::take(&mut self.search.size);
        self.search.failures = self.search.failures.saturating_add(1);
        if self.search.failures < FAILURES_MAX {
            self.search.at = now + pause;
            return;
        }
        self.search.failures = 0;
        self.search.high = (size - 1).max(MSS_BASE);
        self.search_on(now);
    }

    /// A router says that the probe was too large, and what would do.
    pub(super) fn probe_refused(&mut self, maximum_segment: u16, now: Time) {
        self.search.size = 0;
        self.search.failures = 0;
        self.search.high = maximum_segment.max(self.current);
        self.search_on(now);
    }
}
