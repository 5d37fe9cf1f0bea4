//! Undoing reductions that turn out spurious: by timestamp (Eifel, RFC 3522, 4015) or D-SACK (RFC 3708).

use crate::tcp::congestion::control::Window;
use crate::tcp::recovery::phase::AckNews;
use crate::tcp::sequence::{SequenceNumber, timestamp_before};

/// What is needed to undo the current (or last) reduction.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Undo {
    /// The window before; `None`: nothing to undo.
    before: Option<Window>,
    /// SND.UNA when the episode began.
    marker: SequenceNumber,
    /// Retransmissions not yet reported as duplicates.
    outstanding: u32,
    /// Our timestamp on the first retransmission since none was in flight.
    first_stamp: Option<u32>,
    /// Any retransmission was made.
    retransmitted: bool,
    /// An ACK has advanced since: later ones prove nothing by timestamp, they may echo other segments.
    decided: bool,
}

/// Reductions turned out needless.
pub(in crate::tcp) struct Spurious {
    /// The window to go back to, at least.
    pub before: Window,
    /// Nothing was lost at all.
    pub by_timestamp: bool,
}

impl Undo {
    /// A reduction begins. The stamp of a retransmission still in flight stays: an echo must be older than that to prove
    /// anything.
    pub fn start(&mut self, before: Window, marker: SequenceNumber) {
        let first_stamp = self.first_stamp;
        *self = Undo { before: Some(before), marker, first_stamp, ..Undo::default() };
    }

    /// No retransmission is in flight any more.
    pub fn settle(&mut self) {
        self.first_stamp = None;
    }

    /// It can't be undone.
    pub fn forget(&mut self) {
        self.before = None;
    }

    /// A retransmission was sent with timestamp `stamp`.
    pub fn on_retransmission(&mut self, stamp: u32) {
        self.outstanding += 1;
        self.retransmitted = true;
        self.first_stamp.get_or_insert(stamp);
    }

    /// A D-SACK for a block starting at `start`.
    pub fn on_duplicate_report(&mut self, start: SequenceNumber) {
        if self.before.is_some() && start.at_or_after(self.marker) {
            self.outstanding = self.outstanding.saturating_sub(1);
        }
    }

    /// Whether an ACK shows that the reductions were needless. `within` says that an episode is under way. If an ACK decides
    /// nothing, later ones may.
    pub(in crate::tcp) fn judge(&mut self, news: &AckNews, within: bool, has_timestamps: bool) -> Option<Spurious> {
        let before = self.before?;
        if !self.retransmitted && self.first_stamp.is_none() {
            return None;
        }
        // The first ACK that advances echoes a timestamp older than the first retransmission: the original arrived.
        let by_timestamp = within
            && news.advanced
            && !self.decided
            && has_timestamps
            && matches!((news.echo, self.first_stamp), (Some(echo), Some(first)) if timestamp_before(echo, first));
        // Every retransmission was reported as a duplicate.
        let by_duplicates = news.duplicate_report && self.retransmitted && self.outstanding == 0;
        if !by_timestamp && !by_duplicates {
            if news.advanced && within {
                self.decided = true;
            }
            return None;
        }
        self.forget();
        Some(Spurious { before, by_timestamp })
    }
}
