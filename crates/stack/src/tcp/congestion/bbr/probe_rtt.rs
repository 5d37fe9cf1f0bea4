//! ProbeRTT: now and then little is kept in flight, so that the shortest round trip shows.

use super::state::{AckPhase, Bbr, PathSample, State};
use std::time::Duration;

/// BBR.MinRTTFilterLen.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval.
const INTERVAL: Duration = Duration::from_secs(5);
/// BBR.ProbeRTTDuration.
const DURATION: Duration = Duration::from_millis(200);
/// BBR.ProbeRTTCwndGain.
const CWND_GAIN: u64 = 50;

impl Bbr {
    /// UpdateMinRTT.
    pub(super) fn update_min_rtt(&mut self, sample: &PathSample) {
        let now = sample.now;
        self.probe_rtt_expired = self.probe_rtt_min_delay.is_some() && now.since(self.probe_rtt_min_stamp) > INTERVAL;
        if let Some(rtt) = sample.rate.rtt
            && (self.probe_rtt_expired || self.probe_rtt_min_delay.is_none_or(|least| rtt < least))
        {
            (self.probe_rtt_min_delay, self.probe_rtt_min_stamp) = (Some(rtt), now);
        }
        let is_expired = now.since(self.min_rtt_stamp) > MIN_RTT_WINDOW;
        if let Some(least) = self.probe_rtt_min_delay
            && (is_expired || self.min_rtt.is_none_or(|rtt| least < rtt))
        {
            (self.min_rtt, self.min_rtt_stamp) = (Some(least), self.probe_rtt_min_stamp);
        }
    }

    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, sample: &PathSample, cwnd: &mut u64) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(*cwnd, sample.is_recovering);
            self.state = State::ProbeRtt;
            (self.pacing_gain, self.cwnd_gain) = (100, CWND_GAIN);
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(sample.delivered);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(sample, cwnd);
        }
        if sample.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// HandleProbeRTT.
    fn handle_probe_rtt(&mut self, sample: &PathSample, cwnd: &mut u64) {
        self.wants_application_limited = true;
        match self.probe_rtt_done_stamp {
            None if u64::from(sample.in_flight) <= self.probe_rtt_cwnd() => {
                self.probe_rtt_done_stamp = Some(sample.now + DURATION);
                self.probe_rtt_round_done = false;
                self.start_round(sample.delivered);
            }
            None => {}
            Some(_) => {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(sample, cwnd);
                }
            }
        }
    }

    /// CheckProbeRTTDone, with ExitProbeRTT.
    fn check_probe_rtt_done(&mut self, sample: &PathSample, cwnd: &mut u64) {
        if self.probe_rtt_done_stamp.is_none_or(|done| sample.now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = sample.now;
        *cwnd = self.restored_cwnd(*cwnd);
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_down(sample);
            self.start_cruise();
        } else {
            self.enter_startup();
        }
    }

    /// ProbeRTTCwnd.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(CWND_GAIN).max(self.min_pipe_cwnd())
    }
}
