//! What an acknowledgement changes.

use super::state::{Bbr, PathSample};

/// BBR.MaxBwFilterLen, cycles.
const MAX_BW_CYCLES: u64 = 2;
/// BBR.ExtraAckedFilterLen, rounds.
const EXTRA_ACKED_ROUNDS: u64 = 10;

impl Bbr {
    /// UpdateOnACK: something was acknowledged, or sacked. Returns the congestion window.
    pub fn on_ack(&mut self, sample: &PathSample, cwnd: u32) -> u32 {
        self.segment = u64::from(sample.maximum_segment.max(1));
        self.wants_application_limited = false;
        let mut cwnd = u64::from(cwnd);
        self.update_latest_delivery_signals(sample);
        self.update_max_bw(sample);
        self.is_window_limited = sample.is_window_limited || self.is_window_limited && !self.round_start;
        self.note_recovery(sample);
        if self.loss_round_start {
            self.adapt_lower_bounds(cwnd);
        }
        self.update_ack_aggregation(sample, cwnd);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        if self.loss_round_start {
            self.is_loss_in_round = false;
        }
        self.check_drain_done(sample);
        self.update_cycle_phase(sample, cwnd);
        self.update_min_rtt(sample);
        self.check_probe_rtt(sample, &mut cwnd);
        self.advance_latest_delivery_signals(sample);
        // BoundBWForModel.
        self.bw = self.max_bw.min(self.bw_shortterm);
        self.set_pacing_rate(sample);
        let cwnd = self.next_cwnd(sample, cwnd);
        self.cwnd = u64::from(cwnd);
        cwnd
    }

    /// UpdateRound and UpdateMaxBw.
    fn update_max_bw(&mut self, sample: &PathSample) {
        self.round_start = sample.rate.has_data && sample.rate.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(sample.delivered);
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
        let rate = sample.rate.rate;
        if rate > 0 && (rate >= self.max_bw || !sample.rate.is_application_limited) {
            self.max_bw = self.max_bw_filter.update(rate, self.cycle_count, MAX_BW_CYCLES);
        }
    }

    /// Since when losses are repaired.
    fn note_recovery(&mut self, sample: &PathSample) {
        match (sample.is_recovering, self.recovery_round) {
            (true, None) => self.recovery_round = Some(self.round_count),
            (false, Some(_)) => self.recovery_round = None,
            _ => {}
        }
    }

    /// UpdateACKAggregation.
    fn update_ack_aggregation(&mut self, sample: &PathSample, cwnd: u64) {
        let interval = sample.now.since(self.extra_acked_interval_start);
        let expected = u128::from(self.bw) * interval.as_nanos() / 1_000_000_000;
        let mut expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.extra_acked_delivered <= expected {
            (self.extra_acked_delivered, self.extra_acked_interval_start, expected) = (0, sample.now, 0);
        }
        self.extra_acked_delivered += u64::from(sample.acknowledged);
        let extra = (self.extra_acked_delivered - expected).min(cwnd);
        let rounds = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra_acked_filter.update(extra, self.round_count, rounds);
    }

    /// HandleRestartFromIdle: it sends again, and nothing is in flight.
    pub fn on_restart(&mut self, now: qanat_nic::Time) {
        self.idle_restart = true;
        self.extra_acked_interval_start = now;
        if self.is_in_probe_bw() {
            self.set_pacing_rate_with_gain(100);
        }
    }
}
