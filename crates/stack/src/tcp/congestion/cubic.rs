//! CUBIC congestion control (RFC 9438). Windows inside are in segments, times in seconds, as in the RFC's formulas.

use crate::tcp::congestion::control::{AckSample, CongestionCause, CongestionControl, Window, slow_start};
use qanat_nic::Time;
use std::time::Duration;

/// β_cubic (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// C (§4.1.2... §5).
const C: f64 = 0.4;
/// α_cubic (§4.3): 3 · (1 − β) / (1 + β).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State of CUBIC.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cubic {
    /// Start of the current congestion avoidance stage; `None`: none yet since the last congestion.
    epoch_start: Option<Time>,
    /// W_max.
    maximum: f64,
    /// K.
    k: f64,
    /// W_est: what Reno would have.
    estimate: f64,
    /// cwnd_prior: the window at the last congestion.
    prior: f32,
    /// W_max and cwnd_prior before the last congestion, for an undo.
    undo: (f32, f32),
    /// Fraction of a segment grown but not yet a whole byte.
    fraction: f32,
    last_ack: Time,
}

impl Cubic {
    /// Fresh state.
    pub fn new() -> Cubic {
        Cubic {
            epoch_start: None,
            maximum: 0.0,
            k: 0.0,
            estimate: 0.0,
            prior: 0.0,
            undo: (0.0, 0.0),
            fraction: 0.0,
            last_ack: Time::ZERO,
        }
    }

    fn start_epoch(&mut self, segments: f64, now: Time) {
        self.epoch_start = Some(now);
        self.estimate = segments;
        if self.maximum <= segments {
            // No congestion remembered, or grown past it (§4.8: after a timeout "K is set to 0 and W_max is set to the
            // congestion window size at the beginning of the current congestion avoidance stage").
            self.maximum = segments;
            self.k = 0.0;
        } else {
            // (2) K = cubic root of ((W_max − cwnd_epoch) / C)
            self.k = ((self.maximum - segments) / C).cbrt();
        }
    }

    fn avoid(&mut self, window: &mut Window, acknowledged: u32, sample: &AckSample) {
        let unit = f64::from(sample.maximum_segment.max(1));
        let segments = f64::from(window.congestion_window) / unit;
        let acknowledged = f64::from(acknowledged) / unit;
        let start = match self.epoch_start {
            Some(start) => start,
            None => {
                self.start_epoch(segments, sample.now);
                sample.now
            }
        };
        let elapsed = sample.now.since(start).as_secs_f64();
        let cubic = |t: f64| {
            let offset = t - self.k;
            C * offset * offset * offset + self.maximum
        };
        // §4.3: "α_cubic … once W_est has reached cwnd_prior, the sender SHOULD set α_cubic to 1".
        let alpha = if self.estimate >= f64::from(self.prior) { 1.0 } else { ALPHA };
        self.estimate += alpha * acknowledged / segments;
        let grown = if cubic(elapsed) < self.estimate {
            // The Reno-friendly region (§4.3).
            (self.estimate - segments).max(0.0)
        } else {
            // §4.2: target = W_cubic(t + RTT) within [cwnd, 1.5 · cwnd]; (target − cwnd) / cwnd per segment.
            let target = cubic(elapsed + sample.smoothed_rtt.as_secs_f64()).clamp(segments, 1.5 * segments);
            (target - segments) / segments * acknowledged
        };
        let bytes = grown * unit + f64::from(self.fraction);
        let whole = bytes.min(f64::from(u32::MAX / 2));
        self.fraction = (whole - whole.floor()) as f32;
        window.congestion_window = window.congestion_window.saturating_add(whole as u32);
    }
}

impl Default for Cubic {
    fn default() -> Self {
        Cubic::new()
    }
}

impl CongestionControl for Cubic {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        let previous = self.last_ack;
        self.last_ack = sample.now;
        if !sample.window_limited {
            // §5.8: time while the application limits the rate does not count.
            if let Some(start) = self.epoch_start.as_mut() {
                *start = (*start + sample.now.since(previous)).min(sample.now);
            }
            return;
        }
        let mut acknowledged = sample.acknowledged;
        if window.in_slow_start() {
            acknowledged = slow_start(window, acknowledged);
        }
        if acknowledged > 0 {
            self.avoid(window, acknowledged, sample);
        }
    }

    fn on_congestion(&mut self, window: &Window, _in_flight: u32, maximum_segment: u32, cause: CongestionCause) -> u32 {
        let unit = f64::from(maximum_segment.max(1));
        let segments = f64::from(window.congestion_window) / unit;
        self.undo = (self.maximum as f32, self.prior);
        self.epoch_start = None;
        self.fraction = 0.0;
        // §4.7 fast convergence: "if cwnd < W_max: W_max = cwnd * (1 + β) / 2".
        self.maximum = if segments < self.maximum { segments * (1.0 + BETA) / 2.0 } else { segments };
        self.prior = segments as f32;
        if cause == CongestionCause::Timeout {
            self.maximum = 0.0;
        }
        // §4.6: ssthresh = flight_size · β_cubic; as Linux, the window stands for the flight, so that an application
        // that paused is not punished twice.
        ((segments * BETA * unit) as u32).max(2 * maximum_segment)
    }

    fn on_undo(&mut self) {
        self.maximum = f64::from(self.undo.0);
        self.prior = self.undo.1;
        self.epoch_start = None;
    }

    fn on_idle(&mut self, idle: Duration) {
        if let Some(start) = self.epoch_start.as_mut() {
            *start += idle;
        }
    }

    fn name(&self) -> &'static str {
        "cubic"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    fn sample(acknowledged: u32, now: Time) -> AckSample {
        AckSample {
            acknowledged,
            now,
            smoothed_rtt: Duration::from_millis(100),
            maximum_segment: MSS,
            window_limited: true,
        }
    }

    #[test]
    fn returns_to_the_old_maximum_after_k_seconds() {
        let mut cubic = Cubic::new();
        let mut window = Window { congestion_window: 100 * MSS, slow_start_threshold: u32::MAX };
        window.slow_start_threshold = cubic.on_congestion(&window, 100 * MSS, MSS, CongestionCause::Loss);
        assert_eq!(window.slow_start_threshold, 70 * MSS);
        window.congestion_window = window.slow_start_threshold;
        // K = cbrt(30 / 0.4) = 4.217 s
        let mut now = Time::from_millis(1_000);
        let end = now + Duration::from_millis(4_217);
        while now < end {
            let window_bytes = window.congestion_window;
            cubic.on_ack(&mut window, &sample(window_bytes, now));
            now += Duration::from_millis(100);
        }
        let segments = window.congestion_window / MSS;
        assert!((97..=102).contains(&segments), "W_cubic(K) = W_max, got {segments}");
    }

    #[test]
    fn friendly_region_grows_like_reno_on_a_short_path() {
        let mut cubic = Cubic::new();
        let mut window = Window { congestion_window: 20 * MSS, slow_start_threshold: 0 };
        window.slow_start_threshold = cubic.on_congestion(&window, 20 * MSS, MSS, CongestionCause::Loss);
        window.congestion_window = window.slow_start_threshold;
        let mut now = Time::from_millis(1);
        // 100 round trips of 1 ms: W_cubic hardly moves, W_est grows α = 0.53, then 1 segment per round trip.
        for _ in 0..100 {
            let mut one = sample(window.congestion_window, now);
            one.smoothed_rtt = Duration::from_millis(1);
            cubic.on_ack(&mut window, &one);
            now += Duration::from_millis(1);
        }
        let segments = window.congestion_window / MSS;
        assert!((80..=115).contains(&segments), "got {segments}");
    }

    #[test]
    fn fast_convergence_and_undo() {
        let mut cubic = Cubic::new();
        let mut window = Window { congestion_window: 100 * MSS, slow_start_threshold: u32::MAX };
        cubic.on_congestion(&window, 0, MSS, CongestionCause::Loss);
        window.congestion_window = 80 * MSS;
        cubic.on_congestion(&window, 0, MSS, CongestionCause::Loss);
        assert!((cubic.maximum - 68.0).abs() < 0.01);
        cubic.on_undo();
        assert!((cubic.maximum - 100.0).abs() < 0.01);
    }

    #[test]
    fn application_limited_time_does_not_count() {
        let mut cubic = Cubic::new();
        let mut window = Window { congestion_window: 100 * MSS, slow_start_threshold: u32::MAX };
        window.slow_start_threshold = cubic.on_congestion(&window, 0, MSS, CongestionCause::Loss);
        window.congestion_window = window.slow_start_threshold;
        cubic.on_ack(&mut window, &sample(MSS, Time::from_millis(100)));
        let before = window.congestion_window;
        let mut idle = sample(MSS, Time::from_millis(60_000));
        idle.window_limited = false;
        cubic.on_ack(&mut window, &idle);
        assert_eq!(window.congestion_window, before);
        cubic.on_ack(&mut window, &sample(MSS, Time::from_millis(60_001)));
        assert!(window.congestion_window < before + 2 * MSS);
    }
}
