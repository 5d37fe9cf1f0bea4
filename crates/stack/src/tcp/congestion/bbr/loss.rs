//! What losses say: while the rate is tried, how much is too much; else, that there is less now.

use super::state::{Bbr, INFINITE, PathSample, State, Undo};
use crate::tcp::recovery::delivery_rate::RateSample;

/// BBR.LossThresh: one in so many.
const LOSS_THRESHOLD: u64 = 50;
/// BBR.Beta, hundredths.
const BETA: u64 = 70;

impl Bbr {
    /// IsInflightTooHigh.
    pub(super) fn is_inflight_too_high(sample: &PathSample) -> bool {
        is_too_high(&sample.rate, sample.has_sack)
    }

    /// HandleLostPacket. A segment of so many octets is lost; `lost` is what is known of it.
    pub fn on_lost(&mut self, length: u32, lost: &RateSample, sample: &PathSample) {
        self.note_loss(sample.delivered);
        self.loss_events_in_round = self.loss_events_in_round.saturating_add(1);
        if !self.is_bw_probe_sample || !is_too_high(lost, sample.has_sack) {
            return;
        }
        // InflightAtLoss: which part of what left together was too much?
        let length = u64::from(length);
        let before = u64::from(lost.in_flight_when_sent).saturating_sub(length);
        let lost_before = lost.lost.saturating_sub(length);
        let prefix = (before / LOSS_THRESHOLD).saturating_sub(lost_before) * LOSS_THRESHOLD / (LOSS_THRESHOLD - 1);
        self.on_inflight_too_high(before + prefix, lost.is_application_limited, sample);
    }

    /// HandleInflightTooHigh.
    fn on_inflight_too_high(&mut self, in_flight_at_loss: u64, is_application_limited: bool, sample: &PathSample) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !is_application_limited {
            self.inflight_longterm = in_flight_at_loss.max(self.target_inflight() / 100 * BETA);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(sample);
        }
    }

    /// NoteLoss.
    fn note_loss(&mut self, delivered: u64) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = delivered;
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    /// The peer echoes congestion (RFC 3168): a round with it is as one with a loss.
    pub fn on_congestion_echo(&mut self, delivered: u64) {
        self.note_loss(delivered);
    }

    /// SaveStateUponLoss.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// HandleSpuriousLossDetection: the losses were none.
    pub fn on_spurious_loss(&mut self, delivered: u64) {
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(delivered),
            _ => {}
        }
    }

    /// UpdateLatestDeliverySignals.
    pub(super) fn update_latest_delivery_signals(&mut self, sample: &PathSample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(sample.rate.rate);
        self.inflight_latest = self.inflight_latest.max(sample.rate.delivered);
        if sample.rate.has_data && sample.rate.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = sample.delivered;
            self.loss_round_start = true;
        }
    }

    /// AdvanceLatestDeliverySignals.
    pub(super) fn advance_latest_delivery_signals(&mut self, sample: &PathSample) {
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (sample.rate.rate, sample.rate.delivered);
            self.loss_events_in_round = 0;
        }
    }

    /// AdaptLowerBoundsFromCongestion, at the end of a round.
    pub(super) fn adapt_lower_bounds(&mut self, cwnd: u64) {
        if self.is_probing_bw() || !self.is_loss_in_round {
            return;
        }
        if self.bw_shortterm == INFINITE {
            self.bw_shortterm = self.max_bw;
        }
        if self.inflight_shortterm == INFINITE {
            self.inflight_shortterm = cwnd;
        }
        self.bw_shortterm = self.bw_latest.max(self.bw_shortterm / 100 * BETA);
        self.inflight_shortterm = self.inflight_latest.max(self.inflight_shortterm / 100 * BETA);
    }
}

fn is_too_high(rate: &RateSample, has_sack: bool) -> bool {
    rate.lost > u64::from(rate.in_flight_when_sent) / LOSS_THRESHOLD || rate.lost > 0 && !has_sack
}
