//! Round-trip time and retransmission time-out (RFC 6298), with exponential backoff and Karn's rule.
//!
//! Differences from the RFC, both those of Linux: the lower bound is 200 ms rather than 1 s (RFC 6298 §2.4 is a SHOULD
//! for coarse clocks), and it bounds the variance term (`RTO = SRTT + max(200 ms, 4 · RTTVAR)`), so that a long steady
//! path does not time out at its first jitter.

use qanat_nic::Time;
use std::time::Duration;

/// Lower bound of the variance term of the RTO.
pub const RTO_MIN: Duration = Duration::from_millis(200);
/// Upper bound of the RTO, backed off or not (RFC 6298 §2.5: at least 60 s).
pub const RTO_MAX: Duration = Duration::from_secs(120);
/// RTO before any sample (RFC 6298 §2.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// How long a minimum RTT stays believed.
const MINIMUM_WINDOW: Duration = Duration::from_secs(300);

/// Smoothed estimate of the round-trip time. Times inside are microseconds, scaled as in RFC 6298's shifts.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct RttEstimator {
    /// SRTT · 8; zero: no sample yet.
    smoothed_x8: u32,
    /// RTTVAR · 4.
    variance_x4: u32,
    /// Smallest sample of the last five minutes; `u32::MAX`: none.
    minimum_us: u32,
    minimum_at: Time,
    /// Doublings of the RTO since the last sample of a segment sent once (RFC 6298 §5.5).
    backoff: u8,
}

impl RttEstimator {
    /// No sample yet.
    pub fn new() -> RttEstimator {
        RttEstimator { smoothed_x8: 0, variance_x4: 0, minimum_us: u32::MAX, minimum_at: Time::ZERO, backoff: 0 }
    }

    /// Takes a sample (of a segment transmitted once, or by a timestamp: Karn's rule is the caller's).
    pub fn sample(&mut self, rtt: Duration, now: Time) {
        let sample = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).clamp(1, 120_000_000);
        if self.smoothed_x8 == 0 {
            // (2.2) SRTT <- R, RTTVAR <- R/2
            self.smoothed_x8 = sample * 8;
            self.variance_x4 = sample * 2;
        } else {
            // (2.3) RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R'|; SRTT <- 7/8 SRTT + 1/8 R'
            let smoothed = self.smoothed_x8 / 8;
            let deviation = smoothed.abs_diff(sample);
            self.variance_x4 = self.variance_x4 - self.variance_x4 / 4 + deviation;
            self.smoothed_x8 = self.smoothed_x8 - smoothed + sample;
        }
        if sample <= self.minimum_us || now.since(self.minimum_at) > MINIMUM_WINDOW {
            self.minimum_us = sample;
            self.minimum_at = now;
        }
        self.backoff = 0;
    }

    /// Whether any sample was taken.
    #[inline]
    pub fn has_sample(&self) -> bool {
        self.smoothed_x8 != 0
    }

    /// SRTT; zero without a sample.
    #[inline]
    pub fn smoothed(&self) -> Duration {
        Duration::from_micros(u64::from(self.smoothed_x8 / 8))
    }

    /// RTTVAR; zero without a sample.
    pub fn variance(&self) -> Duration {
        Duration::from_micros(u64::from(self.variance_x4 / 4))
    }

    /// The windowed minimum, if any sample was taken.
    #[inline]
    pub fn minimum(&self) -> Option<Duration> {
        (self.minimum_us != u32::MAX).then(|| Duration::from_micros(u64::from(self.minimum_us)))
    }

    /// The RTO without backoff.
    #[inline]
    pub fn base_timeout(&self) -> Duration {
        if self.smoothed_x8 == 0 {
            return RTO_INITIAL;
        }
        let variance = u64::from(self.variance_x4).max(RTO_MIN.as_micros() as u64);
        Duration::from_micros(u64::from(self.smoothed_x8 / 8) + variance).min(RTO_MAX)
    }

    /// The RTO, backed off.
    #[inline]
    pub fn timeout(&self) -> Duration {
        if self.backoff == 0 {
            return self.base_timeout();
        }
        (self.base_timeout() * (1u32 << self.backoff.min(10))).min(RTO_MAX)
    }

    /// (5.5) "The host MUST set RTO <- RTO * 2 ("back off the timer")."
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Forgets the backoff: new data was acknowledged.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Doublings in force.
    pub fn backoff(&self) -> u8 {
        self.backoff
    }
}

impl Default for RttEstimator {
    fn default() -> Self {
        RttEstimator::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_any_sample_one_second() {
        // RFC 6298 (2.1): "the sender SHOULD set RTO <- 1 second".
        assert_eq!(RttEstimator::new().timeout(), Duration::from_secs(1));
    }

    #[test]
    fn first_sample_and_smoothing() {
        let mut estimator = RttEstimator::new();
        estimator.sample(Duration::from_millis(100), Time::ZERO);
        assert_eq!(estimator.smoothed(), Duration::from_millis(100));
        assert_eq!(estimator.variance(), Duration::from_millis(50));
        assert_eq!(estimator.timeout(), Duration::from_millis(300));
        estimator.sample(Duration::from_millis(180), Time::ZERO);
        assert_eq!(estimator.smoothed(), Duration::from_millis(110));
        assert_eq!(estimator.variance(), Duration::from_micros(57_500));
    }

    #[test]
    fn backs_off_to_the_maximum_and_recovers() {
        let mut estimator = RttEstimator::new();
        estimator.sample(Duration::from_millis(10), Time::ZERO);
        let base = estimator.timeout();
        estimator.back_off();
        assert_eq!(estimator.timeout(), base * 2);
        for _ in 0..300 {
            estimator.back_off();
        }
        assert_eq!(estimator.timeout(), RTO_MAX);
        estimator.sample(Duration::from_millis(10), Time::ZERO);
        assert!(estimator.timeout() <= base);
    }

    #[test]
    fn steady_path_keeps_the_floor_above_the_rtt() {
        let mut estimator = RttEstimator::new();
        for _ in 0..200 {
            estimator.sample(Duration::from_millis(190), Time::ZERO);
        }
        assert_eq!(estimator.timeout(), Duration::from_millis(390));
    }

    #[test]
    fn minimum_is_windowed() {
        let mut estimator = RttEstimator::new();
        estimator.sample(Duration::from_millis(1), Time::ZERO);
        estimator.sample(Duration::from_millis(5), Time::from_millis(1000));
        assert_eq!(estimator.minimum(), Some(Duration::from_millis(1)));
        estimator.sample(Duration::from_millis(5), Time::from_millis(400_000));
        assert_eq!(estimator.minimum(), Some(Duration::from_millis(5)));
    }
}
