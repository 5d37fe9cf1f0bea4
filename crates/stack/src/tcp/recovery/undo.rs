//! Undoing reductions that turn out spurious: by timestamp (Eifel, RFC 3522, 4015) or D-SACK (RFC 3708).

use crate::tcp::Env;
use crate::tcp::congestion::control::{CongestionControl, Window};
use crate::tcp::connection::Connection;
use crate::tcp::recovery::episode::{AckNews, Phase};
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
}

impl Connection {
    /// Restores window and threshold if the retransmissions were needless.
    pub(in crate::tcp) fn process_undo(&mut self, news: &AckNews, env: &mut Env<'_>) {
        let undo = &self.recovery.undo;
        let Some(before) = undo.before else { return };
        if !undo.retransmitted && undo.first_stamp.is_none() {
            return;
        }
        // The first ACK that advances echoes a timestamp older than the first retransmission: the original arrived.
        let by_timestamp = self.phase != Phase::Open
            && news.advanced
            && !undo.decided
            && self.is.timestamps
            && matches!((news.echo, undo.first_stamp), (Some(echo), Some(first)) if timestamp_before(echo, first));
        // Every retransmission was reported as a duplicate.
        let by_duplicates = news.duplicate_report && undo.retransmitted && undo.outstanding == 0;
        if !by_timestamp && !by_duplicates {
            if news.advanced && self.phase != Phase::Open {
                self.recovery.undo.decided = true;
            }
            return;
        }
        env.counters.spurious_recoveries_undone += 1;
        self.recovery.undo.forget();
        self.rack.reordering_seen = true;
        self.congestion.on_undo();
        self.window.congestion_window = self.window.congestion_window.max(before.congestion_window);
        self.window.slow_start_threshold = self.window.slow_start_threshold.max(before.slow_start_threshold);
        if self.phase != Phase::Open {
            if by_timestamp {
                // What was retransmitted is not lost; what was marked and not retransmitted was marked too early.
                self.board.unmark_lost();
            }
            self.phase = Phase::Open;
            self.recovery.duplicates = 0;
            self.retransmissions = 0;
            self.rtt.reset_backoff();
        }
    }
}
