//! ProbeBW: the rate is tried, and given way, in turns.

use super::full_pipe::DEFAULT_CWND_GAIN;
use super::state::{AckPhase, Bbr, INFINITE, PathSample, State};
use std::time::Duration;

/// Pacing gains of DOWN, CRUISE and REFILL, UP.
const DOWN_PACING_GAIN: u64 = 90;
const CRUISE_PACING_GAIN: u64 = 100;
const UP_PACING_GAIN: u64 = 125;
/// cwnd_gain of UP.
const UP_CWND_GAIN: u64 = 225;
/// BBR.Headroom, hundredths.
const HEADROOM: u64 = 15;
/// Rounds after which a flow of Reno's, of the same window, would have probed: at most.
const PROBE_ROUNDS_MAX: u64 = 63;

impl Bbr {
    fn enter(&mut self, state: State, pacing_gain: u64, cwnd_gain: u64) {
        self.state = state;
        (self.pacing_gain, self.cwnd_gain) = (pacing_gain, cwnd_gain);
    }

    /// EnterProbeBW.
    pub(super) fn enter_probe_bw(&mut self, sample: &PathSample) {
        self.start_down(sample);
    }

    /// StartProbeBW_DOWN.
    pub(super) fn start_down(&mut self, sample: &PathSample) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITE;
        self.pick_probe_wait();
        self.cycle_stamp = sample.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(sample.delivered);
        self.enter(State::Down, DOWN_PACING_GAIN, DEFAULT_CWND_GAIN);
    }

    /// StartProbeBW_CRUISE.
    pub(super) fn start_cruise(&mut self) {
        self.enter(State::Cruise, CRUISE_PACING_GAIN, DEFAULT_CWND_GAIN);
    }

    /// StartProbeBW_REFILL.
    pub(super) fn start_refill(&mut self, delivered: u64) {
        self.reset_short_term_model();
        (self.bw_probe_up_rounds, self.bw_probe_up_acked) = (0, 0);
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(delivered);
        self.enter(State::Refill, CRUISE_PACING_GAIN, DEFAULT_CWND_GAIN);
    }

    /// StartProbeBW_UP.
    fn start_up(&mut self, sample: &PathSample, cwnd: u64) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(sample.delivered);
        self.reset_full_bw();
        self.full_bw = sample.rate.rate;
        self.enter(State::Up, UP_PACING_GAIN, UP_CWND_GAIN);
        self.raise_inflight_longterm_slope(cwnd);
    }

    /// UpdateProbeBWCyclePhase.
    pub(super) fn update_cycle_phase(&mut self, sample: &PathSample, cwnd: u64) {
        if !self.full_bw_reached || self.adapt_long_term_model(sample, cwnd) || !self.is_in_probe_bw() {
            return;
        }
        match self.state {
            State::Down => {
                if !self.is_time_to_probe(sample) && self.is_time_to_cruise(sample) {
                    self.start_cruise();
                }
            }
            State::Cruise => {
                self.is_time_to_probe(sample);
            }
            State::Refill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_up(sample, cwnd);
            }
            State::Up => {
                if self.is_time_to_go_down(sample, cwnd) {
                    self.prev_probe_too_high = false;
                    self.start_down(sample);
                }
            }
            State::Refill | State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// IsTimeToProbeBW: begins it, if it is.
    fn is_time_to_probe(&mut self, sample: &PathSample) -> bool {
        let has_waited = sample.now.since(self.cycle_stamp) > self.bw_probe_wait;
        let is_time = has_waited || self.is_reno_coexistence_probe_time();
        if is_time {
            self.start_refill(sample.delivered);
        }
        is_time
    }

    /// As often as Reno would have grown by as many segments as its window has.
    fn is_reno_coexistence_probe_time(&self) -> bool {
        let reno_rounds = self.target_inflight() / self.segment.max(1);
        self.rounds_since_probe_up >= reno_rounds.min(PROBE_ROUNDS_MAX)
    }

    /// PickProbeWait: two to three seconds, and a round less at times.
    fn pick_probe_wait(&mut self) {
        self.rounds_since_probe_up = self.random_below(2);
        self.bw_probe_wait = Duration::from_millis(2_000 + self.random_below(1_000));
    }

    /// IsTimeToCruise.
    fn is_time_to_cruise(&self, sample: &PathSample) -> bool {
        let in_flight = u64::from(sample.in_flight);
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight_at(self.max_bw, 100)
    }

    /// IsTimeToGoDown.
    fn is_time_to_go_down(&mut self, sample: &PathSample, cwnd: u64) -> bool {
        if self.prev_probe_too_high && u64::from(sample.in_flight) >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.is_window_limited && cwnd >= self.inflight_longterm {
            // The bound is the limit, not the path.
            self.reset_full_bw();
            self.full_bw = sample.rate.rate;
            return false;
        }
        self.full_bw_now
    }

    /// InflightWithHeadroom.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == INFINITE {
            return INFINITE;
        }
        let headroom = self.segment.max(self.inflight_longterm / 100 * HEADROOM);
        self.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
    }

    /// RaiseInflightLongtermSlope.
    fn raise_inflight_longterm_slope(&mut self, cwnd: u64) {
        let growth = 1u64 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (cwnd / growth).max(self.segment);
    }

    /// ProbeInflightLongtermUpward.
    fn probe_inflight_longterm_upward(&mut self, sample: &PathSample, cwnd: u64) {
        if !self.is_window_limited || cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += u64::from(sample.acknowledged);
        let steps = self.bw_probe_up_acked / self.probe_up_acked_per_inc.max(1);
        self.bw_probe_up_acked -= steps * self.probe_up_acked_per_inc;
        self.inflight_longterm = self.inflight_longterm.saturating_add(steps * self.segment);
        if self.round_start {
            self.raise_inflight_longterm_slope(cwnd);
        }
    }

    /// AdaptLongTermModel: whether it has changed the state.
    fn adapt_long_term_model(&mut self, sample: &PathSample, cwnd: u64) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.is_in_probe_bw() && !sample.rate.is_application_limited {
                // AdvanceMaxBwFilter.
                self.cycle_count += 1;
            }
            if self.is_in_probe_bw() && self.prev_probe_precautionary && !self.prev_probe_too_high {
                self.start_refill(sample.delivered);
                return true;
            }
        }
        if !Bbr::is_inflight_too_high(sample) && self.inflight_longterm != INFINITE {
            self.inflight_longterm = self.inflight_longterm.max(u64::from(sample.rate.in_flight_when_sent));
            if self.state == State::Up {
                self.probe_inflight_longterm_upward(sample, cwnd);
            }
        }
        false
    }
}
