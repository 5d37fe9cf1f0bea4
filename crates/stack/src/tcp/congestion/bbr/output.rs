//! What the model makes of the connection: how fast it sends, and how much it may have in flight.

use super::state::{Bbr, INFINITE, PathSample, State};
use crate::tcp::congestion::control::initial_window;
use std::time::Duration;

/// BBR.PacingMarginPercent.
const PACING_MARGIN: u64 = 1;
/// C.send_quantum at most, octets.
const QUANTUM_MAX: u64 = 64 << 10;
/// Of this time's sending.
const QUANTUM_TIME: Duration = Duration::from_millis(1);

fn percent(volume: u64, gain: u64) -> u64 {
    u64::try_from(u128::from(volume) * u128::from(gain) / 100).unwrap_or(u64::MAX)
}

impl Bbr {
    /// C.pacing_rate, octets a second. 0: it is not known yet.
    pub fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// Whether what is sent now says nothing of the path.
    pub fn wants_application_limited(&self) -> bool {
        self.wants_application_limited
    }

    /// The shortest round trip.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// C.send_quantum: octets that leave together.
    pub fn send_quantum(&self) -> u64 {
        let quantum = u128::from(self.pacing_rate) * QUANTUM_TIME.as_nanos() / 1_000_000_000;
        u64::try_from(quantum).unwrap_or(u64::MAX).clamp(2 * self.segment, QUANTUM_MAX)
    }

    /// InitPacingRate and SetPacingRate.
    pub(super) fn set_pacing_rate(&mut self, sample: &PathSample) {
        if self.pacing_rate == 0 {
            let rtt = if sample.smoothed_rtt.is_zero() { Duration::from_millis(1) } else { sample.smoothed_rtt };
            let window = u128::from(initial_window(sample.maximum_segment));
            let nominal = window * 1_000_000_000 / rtt.as_nanos().max(1);
            self.pacing_rate = percent(u64::try_from(nominal).unwrap_or(u64::MAX), self.pacing_gain);
        }
        self.set_pacing_rate_with_gain(self.pacing_gain);
    }

    /// SetPacingRateWithGain.
    pub(super) fn set_pacing_rate_with_gain(&mut self, gain: u64) {
        let rate = percent(percent(self.bw, gain), 100 - PACING_MARGIN);
        if rate > 0 && (self.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn bdp_at(&self, bw: u64, gain: u64) -> u64 {
        let Some(rtt) = self.min_rtt else { return u64::from(initial_window(self.segment as u32)) };
        let bdp = u128::from(bw) * rtt.as_nanos() / 1_000_000_000;
        percent(u64::try_from(bdp).unwrap_or(u64::MAX), gain)
    }

    /// BDPMultiple.
    pub(super) fn bdp(&self, gain: u64) -> u64 {
        self.bdp_at(self.bw, gain)
    }

    /// QuantizationBudget.
    fn quantized(&self, volume: u64) -> u64 {
        let volume = volume.max(3 * self.send_quantum()).max(self.min_pipe_cwnd());
        if self.state == State::Up { volume.saturating_add(2 * self.segment) } else { volume }
    }

    /// Inflight, for a rate.
    pub(super) fn inflight_at(&self, bw: u64, gain: u64) -> u64 {
        self.quantized(self.bdp_at(bw, gain))
    }

    /// Inflight.
    pub(super) fn inflight(&self, gain: u64) -> u64 {
        self.inflight_at(self.bw, gain)
    }

    /// TargetInflight.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(100).min(self.cwnd)
    }

    /// SetCwnd.
    pub(super) fn next_cwnd(&mut self, sample: &PathSample, cwnd: u64) -> u32 {
        let max_inflight = self.quantized(self.bdp(self.cwnd_gain).saturating_add(self.extra_acked_filter.get()));
        let grown = cwnd.saturating_add(u64::from(sample.acknowledged));
        let initial = u64::from(initial_window(sample.maximum_segment));
        let mut cwnd = if self.full_bw_reached {
            grown.min(max_inflight)
        } else if cwnd < max_inflight || sample.delivered < initial {
            grown
        } else {
            cwnd
        };
        cwnd = cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            cwnd = cwnd.min(self.probe_rtt_cwnd());
        }
        u32::try_from(cwnd.min(self.volume_cap())).unwrap_or(u32::MAX)
    }

    /// BoundCwndForModel.
    fn volume_cap(&self) -> u64 {
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => INFINITE,
        };
        cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd())
    }

    /// SaveCwnd.
    pub(super) fn save_cwnd(&mut self, cwnd: u64, is_recovering: bool) {
        let is_good = !is_recovering && self.state != State::ProbeRtt;
        self.prior_cwnd = if is_good { cwnd } else { self.prior_cwnd.max(cwnd) };
    }

    /// OnEnterRTO and OnEnterFastRecovery.
    pub fn on_recovery(&mut self, cwnd: u32, is_recovering: bool) {
        self.save_cwnd(u64::from(cwnd), is_recovering);
        self.save_state_upon_loss();
    }

    /// RestoreCwnd.
    pub(super) fn restored_cwnd(&self, cwnd: u64) -> u64 {
        cwnd.max(self.prior_cwnd)
    }

    /// The window after recovery, before the model bounds it at the next acknowledgement.
    pub fn after_recovery(&self, cwnd: u32) -> u32 {
        u32::try_from(self.restored_cwnd(u64::from(cwnd)).min(self.volume_cap())).unwrap_or(u32::MAX)
    }
}
