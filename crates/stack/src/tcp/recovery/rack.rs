//! RACK-TLP loss detection (RFC 8985): a segment is lost when one sent sufficiently later was delivered; a probe of the
//! tail makes sure something is delivered later.

use crate::tcp::recovery::rtt::RttEstimator;
use crate::tcp::recovery::scoreboard::{EVER_RETRANSMITTED, LOST, RETRANSMITTED, Record, SACKED, Scoreboard};
use crate::tcp::sequence::{SequenceNumber, timestamp_before};
use qanat_nic::Time;
use std::time::Duration;

/// Episodes an enlarged reordering window persists (RFC 8985 §6.2 step 4).
const WINDOW_PERSIST: u8 = 16;
/// DupThresh.
const DUPLICATE_THRESHOLD: u32 = 3;
/// Worst-case delayed ACK of a peer (§7.2).
const DELAYED_ACK_MAX: Duration = Duration::from_millis(200);
/// Margin of the probe time-out.
const PROBE_MARGIN: Duration = Duration::from_millis(2);

/// Per-connection state of RACK and TLP.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Rack {
    /// RACK.xmit_ts: when the most recently sent of the delivered segments was sent.
    sent_at: Time,
    /// RACK.rtt of that segment.
    rtt: Duration,
    /// RACK.end_seq.
    end: SequenceNumber,
    /// RACK.fack: highest sequence delivered.
    forward_ack: SequenceNumber,
    /// RACK.dsack_round: the D-SACK round ends when this is acknowledged.
    duplicate_round: Option<SequenceNumber>,
    /// TLP.end_seq: an episode is open until this is acknowledged.
    probe_end: Option<SequenceNumber>,
    /// RACK.reo_wnd_mult.
    window_multiplier: u8,
    /// RACK.reo_wnd_persist.
    window_persist: u8,
    /// RACK.reordering_seen.
    reordering_seen: bool,
    /// TLP.is_retrans.
    probe_is_retransmission: bool,
}

impl Rack {
    /// Fresh state; `start` is the first sequence number sent.
    pub fn new(start: SequenceNumber) -> Rack {
        Rack {
            sent_at: Time::ZERO,
            rtt: Duration::ZERO,
            end: start,
            forward_ack: start,
            duplicate_round: None,
            probe_end: None,
            window_multiplier: 1,
            window_persist: WINDOW_PERSIST,
            reordering_seen: false,
            probe_is_retransmission: false,
        }
    }

    /// Whether the path was seen to reorder.
    pub fn has_seen_reordering(&self) -> bool {
        self.reordering_seen
    }

    /// The path reorders.
    pub(super) fn note_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Steps 1–3 for one newly delivered (acknowledged or sacked) segment. `echo`: the ACK's TSecr and the timestamp
    /// of our clock when the record was last sent, if timestamps are on.
    #[inline]
    pub fn on_delivered(
        &mut self,
        record: &Record,
        now: Time,
        minimum_rtt: Option<Duration>,
        echo: Option<u32>,
        stamp_of: impl Fn(Time) -> u32,
    ) {
        let rtt = now.since(record.sent_at);
        if record.has(EVER_RETRANSMITTED) {
            // Step 2: was it the original that arrived? "RACK.rtt < min_RTT", or the echo is older than the copy.
            if echo.is_some_and(|echo| timestamp_before(echo, stamp_of(record.sent_at)))
                || minimum_rtt.is_some_and(|minimum| rtt < minimum)
            {
                return;
            }
        }
        if record.end.after(self.forward_ack) {
            self.forward_ack = record.end;
        } else if record.end.before(self.forward_ack) && !record.has(EVER_RETRANSMITTED) {
            // Step 3: delivered below what was delivered already, and never retransmitted: the path reorders.
            self.reordering_seen = true;
        }
        if sent_after(record.sent_at, record.end, self.sent_at, self.end) {
            self.sent_at = record.sent_at;
            self.end = record.end;
            self.rtt = rtt;
        }
    }

    /// Step 4: a D-SACK arrived; the reordering window grows by one minimum RTT / 4, at most once a round.
    pub fn on_duplicate_report(&mut self, una: SequenceNumber, next: SequenceNumber) {
        if self.duplicate_round.is_some_and(|round| una.at_or_after(round)) {
            self.duplicate_round = None;
        }
        if self.duplicate_round.is_none() {
            self.duplicate_round = Some(next);
            self.window_multiplier = self.window_multiplier.saturating_add(1);
            self.window_persist = WINDOW_PERSIST;
        }
    }

    /// A recovery ended: "decrement RACK.reo_wnd_persist … reset RACK.reo_wnd_mult".
    pub fn on_recovery_end(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
        if self.window_persist == 0 {
            self.window_multiplier = 1;
            self.window_persist = WINDOW_PERSIST;
        }
    }

    /// RACK_update_reo_wnd.
    pub fn reordering_window(
        &self,
        estimator: &RttEstimator,
        in_recovery: bool,
        sacked: u32,
        maximum_segment: u32,
    ) -> Duration {
        if !self.reordering_seen && (in_recovery || sacked >= DUPLICATE_THRESHOLD * maximum_segment) {
            return Duration::ZERO;
        }
        let quarter = estimator.minimum().unwrap_or_default() / 4;
        (quarter * u32::from(self.window_multiplier)).min(estimator.smoothed())
    }

    /// Step 5, RACK_detect_loss: marks lost what should have been delivered by now. Returns the octets marked, and how
    /// long to wait for the rest, if any could still turn out lost. `each`: a segment, as it was, and its octets.
    pub fn detect_loss(
        &self,
        board: &mut Scoreboard,
        now: Time,
        window: Duration,
        mut each: impl FnMut(&Record, u32),
    ) -> (u32, Option<Duration>) {
        let mut marked = 0;
        let mut wait: Option<Duration> = None;
        for index in 0..board.len() {
            let Some(&record) = board.get(index) else { break };
            if record.has(SACKED) || record.flags & (LOST | RETRANSMITTED) == LOST {
                continue;
            }
            if !sent_after(self.sent_at, self.end, record.sent_at, record.end) {
                if record.has(EVER_RETRANSMITTED) {
                    continue;
                }
                // Records never retransmitted are in order of time: no later one was sent before.
                if record.end.after(self.forward_ack) {
                    break;
                }
                continue;
            }
            let deadline = record.sent_at + self.rtt + window;
            if deadline <= now {
                let octets = board.mark_lost(index);
                each(&record, octets);
                marked += octets;
            } else {
                let remaining = deadline.since(now);
                wait = Some(wait.map_or(remaining, |longest| longest.max(remaining)));
            }
        }
        (marked, wait)
    }

    /// RFC 8985 §6.3: on RTO "mark … lost any segment that was sent RACK.rtt + reo_wnd ago, and the first".
    pub fn mark_on_timeout(&self, board: &mut Scoreboard, now: Time, window: Duration) {
        for index in 0..board.len() {
            let overdue = board.get(index).is_some_and(|record| record.sent_at + self.rtt + window <= now);
            if index == 0 || overdue {
                board.mark_lost(index);
            }
        }
    }

    /// TLP_calc_PTO (§7.2), before it is limited by the RTO.
    pub fn probe_timeout(estimator: &RttEstimator, segments_in_flight: usize) -> Duration {
        if !estimator.has_sample() {
            return Duration::from_secs(1);
        }
        let timeout = estimator.smoothed() * 2;
        if segments_in_flight == 1 { timeout + DELAYED_ACK_MAX } else { timeout + PROBE_MARGIN }
    }

    /// Whether a tail loss probe is outstanding.
    #[inline]
    pub fn probing(&self) -> bool {
        self.probe_end.is_some()
    }

    /// A probe was sent; `end` is SND.NXT after it.
    pub fn on_probe_sent(&mut self, end: SequenceNumber, is_retransmission: bool) {
        self.probe_end = Some(end);
        self.probe_is_retransmission = is_retransmission;
    }

    /// TLP_process_ack (§7.4.2): whether the probe is now known to have repaired a loss, so that the window must be
    /// reduced once. `duplicate`: the ACK carried a D-SACK for the probe; `repeated`: it advanced nothing.
    pub fn on_probe_ack(&mut self, ack: SequenceNumber, duplicate: bool, repeated: bool) -> bool {
        let Some(end) = self.probe_end else { return false };
        if ack.before(end) {
            return false;
        }
        if !self.probe_is_retransmission {
            self.probe_end = None;
            return false;
        }
        if duplicate {
            // "ACK matches TLP.end_seq and has D-SACK: original and probe both arrived: no loss."
            self.probe_end = None;
            return false;
        }
        if ack.after(end) {
            self.probe_end = None;
            return true;
        }
        if repeated {
            // Original and probe both arrived (a duplicate ACK without SACK information).
            self.probe_end = None;
        }
        false
    }

    /// A recovery or a time-out begins: the episode's answer no longer matters.
    pub fn cancel_probe(&mut self) {
        self.probe_end = None;
    }
}

/// RACK_sent_after.
#[inline]
fn sent_after(time_a: Time, end_a: SequenceNumber, time_b: Time, end_b: SequenceNumber) -> bool {
    time_a > time_b || (time_a == time_b && end_a.after(end_b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    fn flight(count: u32) -> (Scoreboard, Rack, RttEstimator) {
        let mut board = Scoreboard::new(SequenceNumber(0));
        for index in 1..=count {
            board.push(SequenceNumber(index * MSS), Time::from_millis(u64::from(index)));
        }
        let mut estimator = RttEstimator::new();
        estimator.sample(Duration::from_millis(40), Time::ZERO);
        (board, Rack::new(SequenceNumber(0)), estimator)
    }

    fn sack(board: &mut Scoreboard, rack: &mut Rack, from: u32, to: u32, now: Time) {
        board.sack(SequenceNumber(from * MSS), SequenceNumber(to * MSS), |record| {
            rack.on_delivered(record, now, Some(Duration::from_millis(40)), None, |_| 0);
        });
    }

    #[test]
    fn waits_a_quarter_round_trip_then_marks() {
        let (mut board, mut rack, estimator) = flight(5);
        let now = Time::from_millis(42);
        sack(&mut board, &mut rack, 1, 2, now);
        let window = rack.reordering_window(&estimator, false, board.sacked(), MSS);
        assert_eq!(window, Duration::from_millis(10));
        let (marked, wait) = rack.detect_loss(&mut board, now, window, |_, _| {});
        assert_eq!((marked, wait), (0, Some(Duration::from_millis(9))));
        let (marked, wait) = rack.detect_loss(&mut board, Time::from_millis(51), window, |_, _| {});
        assert_eq!((marked, wait), (MSS, None));
        assert_eq!(board.next_lost(), Some(0));
    }

    #[test]
    fn three_sacked_segments_mark_at_once() {
        // §6.2: "if no reordering has been observed and … DupThresh segments were SACKed: RACK.reo_wnd = 0".
        let (mut board, mut rack, estimator) = flight(5);
        let now = Time::from_millis(44);
        sack(&mut board, &mut rack, 1, 4, now);
        let window = rack.reordering_window(&estimator, false, board.sacked(), MSS);
        assert_eq!(window, Duration::ZERO);
        assert_eq!(rack.detect_loss(&mut board, now, window, |_, _| {}), (MSS, None));
    }

    #[test]
    fn reordering_is_noticed_and_waited_for() {
        let (mut board, mut rack, estimator) = flight(6);
        let now = Time::from_millis(44);
        sack(&mut board, &mut rack, 3, 4, now);
        assert!(!rack.reordering_seen);
        sack(&mut board, &mut rack, 1, 2, now);
        assert!(rack.reordering_seen);
        sack(&mut board, &mut rack, 4, 6, now);
        assert_eq!(rack.reordering_window(&estimator, true, board.sacked(), MSS), Duration::from_millis(10));
    }

    #[test]
    fn lost_retransmissions_are_found() {
        let (mut board, mut rack, _) = flight(5);
        sack(&mut board, &mut rack, 1, 4, Time::from_millis(44));
        rack.detect_loss(&mut board, Time::from_millis(44), Duration::ZERO, |_, _| {});
        board.mark_retransmitted(0, Time::from_millis(44));
        board.push(SequenceNumber(6 * MSS), Time::from_millis(45));
        assert_eq!(rack.detect_loss(&mut board, Time::from_millis(60), Duration::ZERO, |_, _| {}).0, 0);
        // the segment sent after the retransmission arrives, the retransmission did not
        sack(&mut board, &mut rack, 5, 6, Time::from_millis(85));
        let (marked, _) = rack.detect_loss(&mut board, Time::from_millis(85), Duration::ZERO, |_, _| {});
        assert!(marked >= MSS);
        assert_eq!(board.next_lost(), Some(0));
    }

    #[test]
    fn an_ack_of_the_original_does_not_count_as_the_copys() {
        let (mut board, mut rack, _) = flight(1);
        board.mark_lost(0);
        board.mark_retransmitted(0, Time::from_millis(100));
        let stamp = |time: Time| time.as_millis() as u32;
        board.acknowledge(SequenceNumber(MSS), |record| {
            rack.on_delivered(record, Time::from_millis(200), None, Some(1), stamp);
        });
        assert_eq!(rack.sent_at, Time::ZERO);
    }

    #[test]
    fn duplicates_enlarge_the_window_once_a_round() {
        let (_, mut rack, estimator) = flight(0);
        rack.reordering_seen = true;
        rack.on_duplicate_report(SequenceNumber(0), SequenceNumber(10));
        rack.on_duplicate_report(SequenceNumber(5), SequenceNumber(20));
        assert_eq!(rack.reordering_window(&estimator, false, 0, MSS), Duration::from_millis(20));
        rack.on_duplicate_report(SequenceNumber(10), SequenceNumber(30));
        assert_eq!(rack.reordering_window(&estimator, false, 0, MSS), Duration::from_millis(30));
        for _ in 0..16 {
            rack.on_recovery_end();
        }
        assert_eq!(rack.reordering_window(&estimator, false, 0, MSS), Duration::from_millis(10));
    }

    #[test]
    fn probe_episodes() {
        let mut rack = Rack::new(SequenceNumber(0));
        let end = SequenceNumber(100);
        rack.on_probe_sent(end, true);
        assert!(!rack.on_probe_ack(SequenceNumber(50), false, false) && rack.probing());
        assert!(!rack.on_probe_ack(end, false, false), "not yet decided");
        assert!(!rack.on_probe_ack(end, true, true) && !rack.probing(), "both arrived");
        rack.on_probe_sent(end, true);
        assert!(rack.on_probe_ack(SequenceNumber(101), false, false), "the probe repaired a loss");
        rack.on_probe_sent(end, false);
        assert!(!rack.on_probe_ack(end, false, false) && !rack.probing());
    }
}
