//! HyStart++ (RFC 9406): leaves slow start when the round-trip time rises, before the queue overflows.

use crate::tcp::sequence::SequenceNumber;
use std::time::Duration;

/// MIN_RTT_THRESH, MAX_RTT_THRESH, microseconds (RFC 9406 §4.3).
const THRESHOLD_MIN_US: u32 = 4_000;
const THRESHOLD_MAX_US: u32 = 16_000;
/// MIN_RTT_DIVISOR.
const DIVISOR: u32 = 8;
/// N_RTT_SAMPLE.
const SAMPLES: u8 = 8;
/// CSS_GROWTH_DIVISOR.
const GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS.
const ROUNDS: u8 = 5;
/// L, for senders that do not pace: segments a single ACK may grow the window by.
const SEGMENTS_MAX: u32 = 8;
/// No sample.
const NONE: u32 = u32::MAX;

/// State of HyStart++, for the initial slow start of a connection.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct HyStart {
    /// windowEnd: the round ends when it is acknowledged.
    round_end: SequenceNumber,
    last_round_us: u32,
    current_round_us: u32,
    /// cssBaselineMinRtt; `NONE`: in plain slow start.
    baseline_us: u32,
    samples: u8,
    conservative_rounds: u8,
}

impl HyStart {
    /// `next`: SND.NXT when the first round starts.
    pub fn new(next: SequenceNumber) -> HyStart {
        HyStart {
            round_end: next,
            last_round_us: NONE,
            current_round_us: NONE,
            baseline_us: NONE,
            samples: 0,
            conservative_rounds: 0,
        }
    }

    /// Takes an ACK of the initial slow start. Returns the octets the window may grow by, and whether slow start is
    /// over.
    pub fn on_ack(
        &mut self,
        acknowledged: u32,
        rtt: Duration,
        una: SequenceNumber,
        next: SequenceNumber,
        maximum_segment: u32,
    ) -> (u32, bool) {
        let mut finished = false;
        if rtt > Duration::ZERO {
            self.sample(rtt);
        }
        if una.at_or_after(self.round_end) {
            finished = self.end_round(next);
        }
        let growth = acknowledged.min(SEGMENTS_MAX * maximum_segment);
        (if self.baseline_us == NONE { growth } else { growth / GROWTH_DIVISOR }, finished)
    }

    fn sample(&mut self, rtt: Duration) {
        let rtt = u32::try_from(rtt.as_micros()).unwrap_or(NONE - 1);
        self.current_round_us = self.current_round_us.min(rtt);
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES {
            return;
        }
        if self.baseline_us == NONE {
            if self.last_round_us != NONE {
                let threshold = (self.last_round_us / DIVISOR).clamp(THRESHOLD_MIN_US, THRESHOLD_MAX_US);
                if self.current_round_us >= self.last_round_us.saturating_add(threshold) {
                    // Conservative slow start: the rise may be noise.
                    self.baseline_us = self.current_round_us;
                    self.conservative_rounds = 0;
                }
            }
        } else if self.current_round_us < self.baseline_us {
            // It was: resume slow start.
            self.baseline_us = NONE;
        }
    }

    fn end_round(&mut self, next: SequenceNumber) -> bool {
        self.round_end = next;
        self.last_round_us = self.current_round_us;
        self.current_round_us = NONE;
        self.samples = 0;
        if self.baseline_us != NONE {
            self.conservative_rounds += 1;
        }
        self.conservative_rounds >= ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `rounds` of ten ACKs each with this RTT; returns whether slow start ended.
    fn rounds(start: &mut HyStart, next: &mut u32, rounds: u32, rtt_ms: u64) -> (u32, bool) {
        let mut result = (0, false);
        for _ in 0..rounds {
            let end = *next + 10_000;
            for index in 1..=10 {
                let una = SequenceNumber(*next + index * 1_000);
                let one = start.on_ack(1_000, Duration::from_millis(rtt_ms), una, SequenceNumber(end + 10_000), 1_000);
                result = (one.0, result.1 || one.1);
            }
            *next = end;
        }
        result
    }

    #[test]
    fn a_rising_round_trip_ends_slow_start_after_five_rounds() {
        let mut next = 0;
        let mut start = HyStart::new(SequenceNumber(10_000));
        assert_eq!(rounds(&mut start, &mut next, 3, 40), (1_000, false));
        assert_eq!(rounds(&mut start, &mut next, 2, 50), (250, false), "conservative growth");
        assert!(rounds(&mut start, &mut next, 10, 50).1);
    }

    #[test]
    fn noise_does_not() {
        let mut next = 0;
        let mut start = HyStart::new(SequenceNumber(10_000));
        rounds(&mut start, &mut next, 3, 40);
        rounds(&mut start, &mut next, 1, 50);
        assert_eq!(rounds(&mut start, &mut next, 20, 41), (1_000, false), "back to plain slow start");
    }

    #[test]
    fn stretched_acks_are_limited() {
        let mut start = HyStart::new(SequenceNumber(10_000));
        let una = SequenceNumber(1);
        assert_eq!(start.on_ack(50_000, Duration::ZERO, una, una, 1_000).0, 8_000);
    }
}
