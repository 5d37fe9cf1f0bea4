//! Proportional rate reduction (RFC 9937, the revision of RFC 6937).
//!
//! ```text
//!   pipe > ssthresh   send ⌈delivered · ssthresh / RecoverFS⌉ − sent      proportional part
//!   pipe ≤ ssthresh   send min(ssthresh − pipe, limit)                    slow start, or conservation, up to ssthresh
//! ```

/// State of one reduction.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ProportionalRateReduction {
    /// prr_delivered.
    delivered: u32,
    /// prr_out.
    sent: u32,
    /// RecoverFS.
    flight_size: u32,
}

impl ProportionalRateReduction {
    /// Starts a reduction with `flight_size` bytes outstanding.
    pub fn start(flight_size: u32) -> ProportionalRateReduction {
        ProportionalRateReduction { delivered: 0, sent: 0, flight_size: flight_size.max(1) }
    }

    /// Counts bytes sent during the reduction, new or again.
    #[inline]
    pub fn on_sent(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// The congestion window after an ACK that delivered `delivered` bytes, with `pipe` in flight.
    /// `safe`: it advanced SND.UNA and found no further loss.
    pub fn window(
        &mut self,
        delivered: u32,
        pipe: u32,
        slow_start_threshold: u32,
        maximum_segment: u32,
        safe: bool,
    ) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        let count = if pipe > slow_start_threshold {
            let share = u64::from(self.delivered) * u64::from(slow_start_threshold);
            let share = share.div_ceil(u64::from(self.flight_size)).min(u64::from(u32::MAX)) as u32;
            share.saturating_sub(self.sent)
        } else {
            // RFC 9937: "MAX(prr_delivered - prr_out, DeliveredData)": what was forced at the start is not held against it.
            let mut limit = self.delivered.saturating_sub(self.sent).max(delivered);
            if safe {
                // Slow-start reduction bound: one segment more than was delivered.
                limit += maximum_segment;
            }
            limit.min(slow_start_threshold - pipe)
        };
        // "Force a fast retransmit upon entering recovery."
        let count = if self.sent == 0 { count.max(maximum_segment) } else { count };
        pipe.saturating_add(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    #[test]
    fn what_was_forced_is_not_held_against_what_is_delivered() {
        // A reordering timer starts the episode: nothing was delivered by then, and one segment goes.
        let mut prr = ProportionalRateReduction::start(10 * MSS);
        assert_eq!(prr.window(0, 2 * MSS, 7 * MSS, MSS, false), 3 * MSS);
        prr.on_sent(MSS);
        // An ACK that delivers one, and finds nothing in order, lets one go.
        assert_eq!(prr.window(MSS, 3 * MSS, 7 * MSS, MSS, false), 4 * MSS);
    }

    #[test]
    fn sends_in_proportion_above_the_threshold() {
        // RFC 6937 §4's first example in spirit: 20 segments in flight, one lost, ssthresh 10: every other ACK sends.
        let mut prr = ProportionalRateReduction::start(20 * MSS);
        let mut pipe = 19 * MSS;
        let mut sent = 0;
        let window = prr.window(MSS, pipe, 10 * MSS, MSS, false);
        assert_eq!(window, pipe + MSS, "the fast retransmit");
        prr.on_sent(MSS);
        sent += 1;
        for _ in 0..18 {
            // each ACK delivers one segment, in flight only the lost one's retransmission is added
            pipe = pipe.saturating_sub(MSS);
            let window = prr.window(MSS, pipe, 10 * MSS, MSS, true);
            while pipe + MSS <= window {
                pipe += MSS;
                prr.on_sent(MSS);
                sent += 1;
            }
        }
        assert!((9..=11).contains(&sent), "about half of what was delivered: {sent}");
        assert!(pipe <= 11 * MSS);
    }

    #[test]
    fn conserves_packets_under_heavy_loss() {
        let mut prr = ProportionalRateReduction::start(100 * MSS);
        prr.on_sent(MSS);
        // pipe far below ssthresh, further loss found: exactly as much as was delivered
        let window = prr.window(3 * MSS, 4 * MSS, 50 * MSS, MSS, false);
        assert_eq!(window, 4 * MSS + 3 * MSS);
        // a safe ACK may grow by one more
        let window = prr.window(MSS, 4 * MSS, 50 * MSS, MSS, true);
        assert_eq!(window, 4 * MSS + 3 * MSS + MSS);
    }
}
