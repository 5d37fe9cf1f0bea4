//! NewReno congestion control (RFC 5681, 6582).

use crate::tcp::congestion::control::{AckSample, CongestionCause, CongestionControl, Window, slow_start};
use std::time::Duration;

/// State of NewReno: bytes acknowledged towards the next increase.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct NewReno {
    acknowledged: u32,
}

impl NewReno {
    /// Fresh state.
    pub fn new() -> NewReno {
        NewReno::default()
    }
}

impl CongestionControl for NewReno {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        if !sample.window_limited {
            return;
        }
        let mut acknowledged = sample.acknowledged;
        if window.in_slow_start() {
            acknowledged = slow_start(window, acknowledged);
        }
        if acknowledged == 0 {
            return;
        }
        // RFC 5681 §3.1 (3), by byte counting: one segment more for each window acknowledged.
        self.acknowledged = self.acknowledged.saturating_add(acknowledged);
        while self.acknowledged >= window.congestion_window {
            self.acknowledged -= window.congestion_window;
            window.congestion_window = window.congestion_window.saturating_add(sample.maximum_segment);
        }
    }

    fn on_congestion(
        &mut self,
        _window: &Window,
        in_flight: u32,
        maximum_segment: u32,
        _cause: CongestionCause,
    ) -> u32 {
        self.acknowledged = 0;
        // RFC 5681 (4): "ssthresh = max (FlightSize / 2, 2*SMSS)"
        (in_flight / 2).max(2 * maximum_segment)
    }

    fn on_undo(&mut self) {}

    fn on_idle(&mut self, _idle: Duration) {}

    fn name(&self) -> &'static str {
        "reno"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_nic::Time;

    fn sample(acknowledged: u32) -> AckSample {
        AckSample {
            acknowledged,
            now: Time::ZERO,
            smoothed_rtt: Duration::from_millis(10),
            maximum_segment: 1_000,
            window_limited: true,
        }
    }

    #[test]
    fn doubles_then_adds_one_segment_per_window() {
        let mut reno = NewReno::new();
        let mut window = Window { congestion_window: 10_000, slow_start_threshold: 20_000 };
        for _ in 0..10 {
            reno.on_ack(&mut window, &sample(1_000));
        }
        assert_eq!(window.congestion_window, 20_000);
        for _ in 0..20 {
            reno.on_ack(&mut window, &sample(1_000));
        }
        assert_eq!(window.congestion_window, 21_000);
    }

    #[test]
    fn halves_the_flight() {
        let mut reno = NewReno::new();
        let window = Window { congestion_window: 20_000, slow_start_threshold: u32::MAX };
        assert_eq!(reno.on_congestion(&window, 18_000, 1_000, CongestionCause::Loss), 9_000);
        assert_eq!(reno.on_congestion(&window, 1_000, 1_000, CongestionCause::Timeout), 2_000);
    }
}
