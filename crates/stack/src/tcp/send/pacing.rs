//! Pacing: segments spread over the round trip, or held to a rate, instead of leaving as acknowledgements arrive.

use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use qanat_nic::Time;
use std::time::Duration;

/// Segments that were due while the timer slept (its ticks are coarse) leave together, so many milliseconds' worth at most.
const CATCH_UP: Duration = Duration::from_millis(2);

impl Connection {
    /// Whether the next segment must wait; if so the pacing timer is set.
    #[inline]
    pub(in crate::tcp) fn is_paced(&mut self, env: &Env<'_>) -> bool {
        if !self.is.paced || self.pacing_next <= env.now {
            return false;
        }
        self.timers.set_pacing(self.pacing_next);
        true
    }

    /// Notes when the next segment may go, after one with `length` bytes.
    #[inline]
    pub(in crate::tcp) fn pace(&mut self, length: u32, env: &Env<'_>) {
        if self.is.paced {
            self.pace_after(length, env);
        }
    }

    fn pace_after(&mut self, length: u32, env: &Env<'_>) {
        let mut gap = Duration::ZERO;
        if let Some(model) = self.congestion.model() {
            let nanoseconds = u64::from(length).saturating_mul(1_000_000_000).checked_div(model.bbr.pacing_rate());
            gap = Duration::from_nanos(nanoseconds.unwrap_or(0));
        } else if env.config.pacing && self.rtt.has_sample() {
            // cwnd · 2 per SRTT in slow start, · 1.2 after (as Linux).
            let gain = if self.congestion.in_slow_start() { 20 } else { 12 };
            let rate_x10 = u64::from(self.congestion.window().max(1)) * gain;
            let smoothed = self.rtt.smoothed().as_nanos() as u64;
            gap = Duration::from_nanos(smoothed.saturating_mul(u64::from(length)).saturating_mul(10) / rate_x10);
        }
        let rate = self.extras.as_deref().map_or(0, |extras| extras.pacing_rate);
        if let Some(nanoseconds) = u64::from(length).saturating_mul(1_000_000_000).checked_div(rate) {
            gap = gap.max(Duration::from_nanos(nanoseconds));
        }
        let earliest = Time::from_nanos(env.now.as_nanos().saturating_sub(CATCH_UP.as_nanos() as u64));
        self.pacing_next = self.pacing_next.max(earliest) + gap;
    }
}
