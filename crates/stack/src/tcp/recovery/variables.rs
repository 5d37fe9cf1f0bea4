//! The variables of loss recovery: its phase, where the episode ends, and what may be undone.
//!
//! All that changes them is here.

use crate::tcp::congestion::control::Window;
use crate::tcp::recovery::phase::{AckNews, Phase};
use crate::tcp::recovery::prr::ProportionalRateReduction;
use crate::tcp::recovery::undo::{Spurious, Undo};
use crate::tcp::sequence::SequenceNumber;

/// Variables of loss recovery.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Recovery {
    /// RecoveryPoint: the episode ends when it is acknowledged.
    point: SequenceNumber,
    rate_reduction: ProportionalRateReduction,
    undo: Undo,
    phase: Phase,
    /// Duplicate ACKs in a row, for peers without SACK.
    duplicates: u8,
}

impl Recovery {
    /// Nothing under way.
    pub fn new(start: SequenceNumber) -> Recovery {
        Recovery {
            point: start,
            rate_reduction: ProportionalRateReduction::default(),
            undo: Undo::default(),
            phase: Phase::Open,
            duplicates: 0,
        }
    }

    /// The phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether no episode is under way.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether proportional rate reduction sets the congestion window.
    #[inline]
    pub fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Reduced)
    }

    /// RecoveryPoint: the episode ends when it is acknowledged.
    pub(super) fn point(&self) -> SequenceNumber {
        self.point
    }

    /// Duplicate ACKs in a row.
    #[inline]
    pub(super) fn duplicates(&self) -> u8 {
        self.duplicates
    }

    /// An ACK is no duplicate: the row ends.
    #[inline]
    pub(in crate::tcp) fn end_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// An ACK is a duplicate. Gives how many there are in a row.
    pub(super) fn count_duplicate(&mut self) -> u8 {
        self.duplicates = self.duplicates.saturating_add(1);
        self.duplicates
    }

    /// The window will be reduced. Outside an episode the old one is kept, so that this can be undone.
    pub(super) fn before_reduction(&mut self, window: Window, unacknowledged: SequenceNumber) {
        if self.is_open() {
            self.undo.start(window, unacknowledged);
        }
    }

    /// An episode begins, `flight` octets outstanding: it ends when all before `point` is acknowledged.
    pub(super) fn begin(&mut self, phase: Phase, point: SequenceNumber, flight: u32) {
        self.phase = phase;
        self.point = point;
        self.rate_reduction = ProportionalRateReduction::start(flight);
    }

    /// A retransmission time-out: what was sent before `point` is sent again as far as it is lost.
    pub(super) fn begin_loss(&mut self, point: SequenceNumber) {
        self.phase = Phase::Loss;
        self.point = point;
        self.duplicates = 0;
    }

    /// The episode is over.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Open;
        self.duplicates = 0;
    }

    /// The congestion window after an ACK, as proportional rate reduction sets it.
    pub(super) fn reduced_window(
        &mut self,
        delivered: u32,
        pipe: u32,
        slow_start_threshold: u32,
        maximum_segment: u32,
        safe: bool,
    ) -> u32 {
        self.rate_reduction.window(delivered, pipe, slow_start_threshold, maximum_segment, safe)
    }

    /// `octets` have been sent for the first time.
    #[inline]
    pub(in crate::tcp) fn on_sent(&mut self, octets: u32) {
        if self.is_reducing() {
            self.rate_reduction.on_sent(octets);
        }
    }

    /// `octets` have been sent again, with timestamp `stamp`.
    pub(in crate::tcp) fn on_retransmission(&mut self, octets: u32, stamp: u32) {
        self.undo.on_retransmission(stamp);
        if !self.is_open() {
            self.rate_reduction.on_sent(octets);
        }
    }

    /// A D-SACK for a block starting at `start`.
    pub(in crate::tcp) fn on_duplicate_report(&mut self, start: SequenceNumber) {
        self.undo.on_duplicate_report(start);
    }

    /// Whether an ACK shows that the reductions were needless.
    pub(super) fn judge(&mut self, news: &AckNews, has_timestamps: bool) -> Option<Spurious> {
        self.undo.judge(news, !self.is_open(), has_timestamps)
    }

    /// No retransmission is in flight any more.
    pub(super) fn settle_undo(&mut self) {
        self.undo.settle();
    }

    /// The reduction can't be undone.
    pub(super) fn forget_undo(&mut self) {
        self.undo.forget();
    }
}
