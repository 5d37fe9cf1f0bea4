//! A connection's congestion control: the window, the algorithm that moves it, and whether it is used.
//!
//! All that changes these numbers is here.

use crate::tcp::congestion::algorithm::Congestion;
use crate::tcp::congestion::control::{AckSample, CongestionCause, CongestionControl, Window, initial_window};
use crate::tcp::congestion::hystart::HyStart;
use crate::tcp::congestion::model::Model;
use crate::tcp::sequence::SequenceNumber;
use qanat_api::CongestionAlgorithm;
use qanat_nic::Time;
use std::time::Duration;

/// What an ACK outside a reduction tells.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Growth {
    /// Octets newly acknowledged or sacked.
    pub delivered: u32,
    /// Octets thought in flight after it.
    pub in_flight: u32,
    /// Latest RTT sample, zero for none.
    pub rtt: Duration,
    /// SRTT.
    pub smoothed_rtt: Duration,
    /// SND.UNA and SND.NXT.
    pub outstanding: (SequenceNumber, SequenceNumber),
    /// Effective segment size, bytes.
    pub maximum_segment: u32,
    /// No episode of loss recovery is under way.
    pub is_open: bool,
}

/// Congestion control of one connection.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct CongestionState {
    window: Window,
    /// Most octets in flight in the round trip that ends when `flight_end` is acknowledged.
    flight_max: u32,
    flight_end: SequenceNumber,
    algorithm: Congestion,
    hystart: HyStart,
    /// The congestion window held back data since it was last checked.
    is_limiting: bool,
}

impl CongestionState {
    /// Before the handshake is over: the window is shut.
    #[inline(always)] // part of a connection, which is built where it stays
    pub fn new(algorithm: CongestionAlgorithm, start: SequenceNumber) -> CongestionState {
        CongestionState {
            window: Window { congestion_window: 0, slow_start_threshold: u32::MAX },
            flight_max: 0,
            flight_end: start,
            algorithm: Congestion::new(algorithm, start.0),
            hystart: HyStart::new(start),
            is_limiting: false,
        }
    }

    /// The handshake is over: the initial window. RFC 6298 §5.7 and RFC 5681 §3.1 want one segment if the SYN or SYN-ACK was
    /// lost; as on Linux, a single lost SYN does not shrink the window.
    pub(in crate::tcp) fn open(&mut self, maximum_segment: u32) {
        self.window.congestion_window = initial_window(maximum_segment);
    }

    /// The model of the path, if the algorithm has one.
    #[inline]
    pub(in crate::tcp) fn model(&self) -> Option<&Model> {
        if let Congestion::Bbr(model) = &self.algorithm { Some(model) } else { None }
    }

    /// The same, to tell it something.
    #[inline]
    pub(in crate::tcp) fn model_mut(&mut self) -> Option<&mut Model> {
        if let Congestion::Bbr(model) = &mut self.algorithm { Some(model) } else { None }
    }

    /// Whether the window held data back since it was last checked.
    pub(in crate::tcp) fn is_limiting(&self) -> bool {
        self.is_limiting
    }

    /// Goes on with another algorithm, and the window as it is.
    pub(in crate::tcp) fn change(&mut self, algorithm: CongestionAlgorithm, seed: u32) {
        if self.algorithm.name() == algorithm.name() {
            return;
        }
        if self.model().is_some() {
            // A model has no threshold; the others would take that for slow start.
            self.window.slow_start_threshold = self.window.congestion_window;
        } else if algorithm == CongestionAlgorithm::Bbr {
            self.window.slow_start_threshold = u32::MAX;
        }
        self.algorithm = Congestion::new(algorithm, seed);
    }

    /// The algorithm's name as in `ss -i`.
    pub(in crate::tcp) fn name(&self) -> &'static str {
        self.algorithm.name()
    }

    /// cwnd, bytes.
    #[inline]
    pub(in crate::tcp) fn window(&self) -> u32 {
        self.window.congestion_window
    }

    /// ssthresh, bytes; `u32::MAX` until the first congestion.
    #[inline]
    pub(in crate::tcp) fn slow_start_threshold(&self) -> u32 {
        self.window.slow_start_threshold
    }

    /// Window and threshold together, to be restored should a reduction turn out needless.
    pub(in crate::tcp) fn both(&self) -> Window {
        self.window
    }

    /// Whether slow start applies.
    pub(in crate::tcp) fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// Room of the window beside what is in flight, octets.
    #[inline]
    pub(in crate::tcp) fn room(&self, in_flight: u32) -> u32 {
        self.window.congestion_window.saturating_sub(in_flight)
    }

    /// The window holds data back, or does not.
    #[inline]
    pub(in crate::tcp) fn set_limiting(&mut self, is_limiting: bool) {
        self.is_limiting = is_limiting;
    }

    /// New data was sent up to `next`, and `in_flight` octets are on their way.
    #[inline]
    pub(in crate::tcp) fn note_flight(&mut self, in_flight: u32, unacknowledged: SequenceNumber, next: SequenceNumber) {
        if in_flight > self.flight_max || unacknowledged.at_or_after(self.flight_end) {
            (self.flight_max, self.flight_end) = (in_flight, next);
        }
    }

    /// RFC 5681 §4.1: the connection sends again after idling for `idle`, longer than the time-out. The window is halved for
    /// each time-out, as on Linux, but not below the initial one. Gives whether it has become smaller.
    pub(in crate::tcp) fn restart(&mut self, idle: Duration, timeout: Duration, maximum_segment: u32) -> bool {
        if self.model().is_some() {
            // It goes on at the rate that it knows.
            return false;
        }
        let before = self.window.congestion_window;
        let restart = initial_window(maximum_segment).min(before);
        let mut window = before;
        let mut left = idle;
        // At most 32 turns: the window is halved each.
        while left > timeout && window > restart {
            left -= timeout;
            window /= 2;
        }
        let is_smaller = window < before;
        if is_smaller {
            // RFC 7661: remember three quarters of what worked.
            self.window.slow_start_threshold = self.window.slow_start_threshold.max(before / 4 * 3);
            self.window.congestion_window = window.max(restart);
        }
        self.algorithm.on_idle(idle);
        self.is_limiting = false;
        is_smaller
    }

    /// Grows the window for an ACK outside proportional rate reduction.
    #[inline]
    pub(in crate::tcp) fn grow(&mut self, growth: &Growth, now: Time) {
        // RFC 7661: only a window that is used may grow. In slow start half of it suffices, at any moment of the round trip (as
        // Linux).
        let flight = self.flight_max.max(growth.in_flight.saturating_add(growth.delivered));
        let window_limited = self.is_limiting
            || (self.window.in_slow_start() && self.window.congestion_window < flight.saturating_mul(2));
        let mut acknowledged = growth.delivered;
        if self.window.slow_start_threshold == u32::MAX && growth.is_open {
            // The initial slow start.
            let (una, next) = growth.outstanding;
            let (counted, finished) = self.hystart.on_ack(acknowledged, growth.rtt, una, next, growth.maximum_segment);
            acknowledged = counted;
            if finished {
                self.window.slow_start_threshold = self.window.congestion_window;
            }
        }
        let sample = AckSample {
            acknowledged,
            now,
            smoothed_rtt: growth.smoothed_rtt,
            maximum_segment: growth.maximum_segment,
            window_limited,
        };
        self.algorithm.on_ack(&mut self.window, &sample);
    }

    /// Congestion was noticed with `flight` octets outstanding: the algorithm gives the new threshold.
    pub(in crate::tcp) fn reduce(&mut self, flight: u32, maximum_segment: u32, cause: CongestionCause) {
        self.window.slow_start_threshold = self.algorithm.on_congestion(&self.window, flight, maximum_segment, cause);
    }

    /// Loss recovery, or a probe, sets the window. Gives what it was.
    pub(in crate::tcp) fn set_window(&mut self, bytes: u32) -> u32 {
        std::mem::replace(&mut self.window.congestion_window, bytes)
    }

    /// RFC 6937: "at the end of recovery cwnd = ssthresh". A model has the window as it was before.
    pub(in crate::tcp) fn end_reduction(&mut self) {
        if let Some(model) = self.model() {
            self.window.congestion_window = model.bbr.after_recovery(self.window.congestion_window);
            return;
        }
        self.window.congestion_window = self.window.slow_start_threshold;
    }

    /// The window goes down to the threshold at once, if it is larger.
    pub(in crate::tcp) fn cap(&mut self) {
        self.window.congestion_window = self.window.congestion_window.min(self.window.slow_start_threshold);
    }

    /// The reductions since `before` were needless.
    pub(in crate::tcp) fn undo(&mut self, before: Window) {
        self.algorithm.on_undo();
        self.window.congestion_window = self.window.congestion_window.max(before.congestion_window);
        self.window.slow_start_threshold = self.window.slow_start_threshold.max(before.slow_start_threshold);
    }
}
