//! Startup and Drain: when the rate has been found, and what was sent too much is gone.

use super::state::{Bbr, PathSample, State};

/// BBR.StartupPacingGain.
const STARTUP_PACING_GAIN: u64 = 277;
/// BBR.DrainPacingGain.
const DRAIN_PACING_GAIN: u64 = 50;
/// BBR.DefaultCwndGain.
pub(super) const DEFAULT_CWND_GAIN: u64 = 200;
/// Rounds without growth by a quarter after which the pipe is full.
const FULL_ROUNDS: u32 = 3;
/// BBRStartupFullLossCnt.
const STARTUP_LOSSES: u32 = 6;
/// Rounds that Drain lasts at most.
const DRAIN_ROUNDS_MAX: u64 = 3;

impl Bbr {
    /// EnterStartup.
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
        (self.pacing_gain, self.cwnd_gain) = (STARTUP_PACING_GAIN, DEFAULT_CWND_GAIN);
    }

    /// ResetFullBW.
    pub(super) fn reset_full_bw(&mut self) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (0, 0, false);
    }

    /// CheckFullBWReached.
    pub(super) fn check_full_bw_reached(&mut self, sample: &PathSample) {
        if self.full_bw_now || !self.round_start || sample.rate.is_application_limited {
            return;
        }
        if sample.rate.rate >= self.full_bw.saturating_mul(5) / 4 {
            self.reset_full_bw();
            self.full_bw = sample.rate.rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// CheckStartupDone, with CheckStartupHighLoss.
    pub(super) fn check_startup_done(&mut self, sample: &PathSample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.full_bw_reached {
            self.state = State::Drain;
            (self.pacing_gain, self.cwnd_gain) = (DRAIN_PACING_GAIN, DEFAULT_CWND_GAIN);
            self.drain_start_round = self.round_count;
        }
    }

    /// Losses say that the pipe is full: a round trip of recovery, more than a fiftieth lost, and in several places.
    fn check_startup_high_loss(&mut self, sample: &PathSample) {
        if self.state != State::Startup || self.full_bw_reached {
            return;
        }
        let has_recovered_for_a_round = self.recovery_round.is_some_and(|round| self.round_count > round);
        let is_high = match sample.has_sack {
            true => {
                self.loss_round_start
                    && has_recovered_for_a_round
                    && self.loss_events_in_round >= STARTUP_LOSSES
                    && Bbr::is_inflight_too_high(sample)
            }
            false => sample.is_recovering && self.is_loss_in_round,
        };
        if is_high {
            self.undo.state = Some(State::Startup);
            self.full_bw_reached = true;
            self.inflight_longterm = self.bdp(100).max(self.inflight_latest);
        }
    }

    /// CheckDrainDone.
    pub(super) fn check_drain_done(&mut self, sample: &PathSample) {
        let is_drained = u64::from(sample.in_flight) <= self.inflight(100);
        if self.state == State::Drain && (is_drained || self.round_count > self.drain_start_round + DRAIN_ROUNDS_MAX) {
            self.enter_probe_bw(sample);
        }
    }
}
