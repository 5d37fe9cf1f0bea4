//! The numbers of the model.

use super::filter::WindowedMax;
use crate::tcp::recovery::delivery_rate::RateSample;
use qanat_nic::Time;
use std::time::Duration;

/// No bound.
pub(super) const INFINITE: u64 = u64::MAX;
/// BBR.MinPipeCwnd, segments.
const PIPE_SEGMENTS_MIN: u64 = 4;

/// BBR.state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// BBR.ack_phase: what the acknowledgements that come are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// What is saved when losses begin, should they turn out none.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
}

/// What an acknowledgement tells, with how the connection is.
#[derive(Clone, Copy, Debug)]
pub struct PathSample {
    /// Of the path.
    pub rate: RateSample,
    /// Octets newly acknowledged, or sacked.
    pub acknowledged: u32,
    /// Octets in flight.
    pub in_flight: u32,
    /// Octets delivered in all.
    pub delivered: u64,
    /// The congestion window held something back.
    pub is_window_limited: bool,
    /// Effective segment size, octets.
    pub maximum_segment: u32,
    /// The peer tells what it has.
    pub has_sack: bool,
    /// Losses are being repaired.
    pub is_recovering: bool,
    /// SRTT; zero: there was no sample.
    pub smoothed_rtt: Duration,
    /// Now.
    pub now: Time,
}

/// State of one connection. Rates are octets a second, volumes octets, gains hundredths.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Bbr {
    pub(super) state: State,
    pub(super) segment: u64,
    pub(super) pacing_gain: u64,
    pub(super) cwnd_gain: u64,
    pub(super) pacing_rate: u64,
    // Round trips, counted by what is delivered.
    pub(super) round_count: u64,
    pub(super) round_start: bool,
    pub(super) next_round_delivered: u64,
    pub(super) idle_restart: bool,
    pub(super) drain_start_round: u64,
    // The model.
    pub(super) max_bw_filter: WindowedMax,
    pub(super) cycle_count: u64,
    pub(super) max_bw: u64,
    pub(super) bw: u64,
    pub(super) bw_shortterm: u64,
    pub(super) bw_latest: u64,
    pub(super) inflight_latest: u64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
    pub(super) min_rtt: Option<Duration>,
    pub(super) min_rtt_stamp: Time,
    pub(super) extra_acked_filter: WindowedMax,
    pub(super) extra_acked_delivered: u64,
    pub(super) extra_acked_interval_start: Time,
    // Losses.
    pub(super) loss_round_delivered: u64,
    pub(super) loss_round_start: bool,
    pub(super) is_loss_in_round: bool,
    pub(super) loss_events_in_round: u32,
    pub(super) recovery_round: Option<u64>,
    pub(super) undo: Undo,
    // Whether the pipe is full.
    pub(super) full_bw_reached: bool,
    pub(super) full_bw_now: bool,
    pub(super) full_bw: u64,
    pub(super) full_bw_count: u32,
    // The cycle.
    pub(super) ack_phase: AckPhase,
    pub(super) is_bw_probe_sample: bool,
    pub(super) bw_probe_up_acked: u64,
    pub(super) probe_up_acked_per_inc: u64,
    pub(super) bw_probe_up_rounds: u32,
    pub(super) rounds_since_probe_up: u64,
    pub(super) probe_wait_rounds: u64,
    pub(super) bw_probe_wait: Duration,
    pub(super) cycle_stamp: Time,
    pub(super) prev_probe_too_high: bool,
    pub(super) prev_probe_precautionary: bool,
    /// Decides how long it waits: flows that began together do not probe together.
    pub(super) random: u64,
    // ProbeRTT.
    pub(super) probe_rtt_min_delay: Option<Duration>,
    pub(super) probe_rtt_min_stamp: Time,
    pub(super) probe_rtt_expired: bool,
    pub(super) probe_rtt_done_stamp: Option<Time>,
    pub(super) probe_rtt_round_done: bool,
    /// It holds less in flight than the path takes, and asks that this is not taken for the path.
    pub(super) wants_application_limited: bool,
    // The window, as losses and ProbeRTT did not make it smaller.
    pub(super) prior_cwnd: u64,
    /// The window, as it was set last.
    pub(super) cwnd: u64,
    pub(super) is_window_limited: bool,
}

impl Bbr {
    /// Of a connection whose first sequence number, or anything else that differs, is `seed`.
    pub fn new(seed: u32) -> Bbr {
        Bbr {
            state: State::Startup,
            segment: 1_460,
            pacing_gain: 0,
            cwnd_gain: 0,
            pacing_rate: 0,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            idle_restart: false,
            drain_start_round: 0,
            max_bw_filter: WindowedMax::default(),
            cycle_count: 0,
            max_bw: 0,
            bw: 0,
            bw_shortterm: INFINITE,
            bw_latest: 0,
            inflight_latest: 0,
            inflight_shortterm: INFINITE,
            inflight_longterm: INFINITE,
            min_rtt: None,
            min_rtt_stamp: Time::ZERO,
            extra_acked_filter: WindowedMax::default(),
            extra_acked_delivered: 0,
            extra_acked_interval_start: Time::ZERO,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            loss_events_in_round: 0,
            recovery_round: None,
            undo: Undo { state: None, bw_shortterm: 0, inflight_shortterm: 0, inflight_longterm: 0 },
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0,
            full_bw_count: 0,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITE,
            bw_probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            probe_wait_rounds: 0,
            bw_probe_wait: Duration::ZERO,
            cycle_stamp: Time::ZERO,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            random: u64::from(seed) | 1 << 32,
            probe_rtt_min_delay: None,
            probe_rtt_min_stamp: Time::ZERO,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            wants_application_limited: false,
            prior_cwnd: 0,
            cwnd: INFINITE,
            is_window_limited: false,
        }
        .started()
    }

    fn started(mut self) -> Bbr {
        self.enter_startup();
        self
    }

    /// BBR.MinPipeCwnd.
    pub(super) fn min_pipe_cwnd(&self) -> u64 {
        PIPE_SEGMENTS_MIN * self.segment
    }

    pub(super) fn is_in_probe_bw(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// IsProbingBW.
    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    /// StartRound.
    pub(super) fn start_round(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    /// ResetShortTermModel.
    pub(super) fn reset_short_term_model(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (INFINITE, INFINITE);
    }

    /// ResetCongestionSignals.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.loss_events_in_round = 0;
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    /// A number below `bound`.
    pub(super) fn random_below(&mut self, bound: u64) -> u64 {
        // xorshift64: it only has to differ among flows.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound.max(1)
    }
}
