//! Congestion control behind one trait (RFC 5681's terms).

use qanat_nic::Time;
use std::time::Duration;

/// Initial window: ten segments, at most `max(2·MSS, 14,600)` bytes (RFC 6928 §2).
pub fn initial_window(maximum_segment: u32) -> u32 {
    (10 * maximum_segment).min((2 * maximum_segment).max(14_600))
}

/// The congestion window and slow-start threshold, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Window {
    /// cwnd.
    pub congestion_window: u32,
    /// ssthresh; `u32::MAX` until the first congestion.
    pub slow_start_threshold: u32,
}

impl Window {
    /// Whether slow start applies.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.congestion_window < self.slow_start_threshold
    }
}

/// What an acknowledgement outside recovery tells.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Newly delivered bytes.
    pub acknowledged: u32,
    /// Time of the poll.
    pub now: Time,
    /// SRTT.
    pub smoothed_rtt: Duration,
    /// Effective segment size, bytes.
    pub maximum_segment: u32,
    /// Whether the window, not the application or the peer's window, bounded sending (RFC 7661's validated phase).
    pub window_limited: bool,
}

/// Why the window must be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionCause {
    /// Loss found by RACK or duplicate ACKs.
    Loss,
    /// ECE (RFC 3168).
    EcnEcho,
    /// The retransmission timer.
    Timeout,
}

/// A congestion control algorithm. It owns growth and the reduction; PRR and recovery are outside.
pub trait CongestionControl {
    /// Grows the window for an ACK outside recovery.
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample);
    /// Congestion was found: returns the new slow-start threshold. Called once per episode.
    fn on_congestion(&mut self, window: &Window, in_flight: u32, maximum_segment: u32, cause: CongestionCause) -> u32;
    /// The last `on_congestion` was spurious; window and threshold have been restored by the caller.
    fn on_undo(&mut self);
    /// The connection sends again after idling for `idle`.
    fn on_idle(&mut self, idle: Duration);
    /// Its name as in `ss -i`.
    fn name(&self) -> &'static str;
}

/// Slow start with appropriate byte counting (RFC 3465, L = whole ACK as RFC 9438 and Linux): grows by the bytes
/// acknowledged up to the threshold; returns the bytes left over for congestion avoidance.
#[inline]
pub fn slow_start(window: &mut Window, acknowledged: u32) -> u32 {
    let grown = window.congestion_window.saturating_add(acknowledged).min(window.slow_start_threshold);
    let used = grown - window.congestion_window;
    window.congestion_window = grown;
    acknowledged - used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_window_of_rfc_6928() {
        // "min (10*MSS, max (2*MSS, 14600))"
        assert_eq!(initial_window(1460), 14_600);
        assert_eq!(initial_window(536), 5_360);
        assert_eq!(initial_window(8_960), 17_920);
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut window = Window { congestion_window: 10_000, slow_start_threshold: 12_000 };
        assert_eq!(slow_start(&mut window, 1_000), 0);
        assert_eq!(slow_start(&mut window, 3_000), 2_000);
        assert_eq!(window.congestion_window, 12_000);
    }
}
