//! [`DeliveryRate`]: how fast the path delivers what is sent (draft-ietf-ccwg-bbr, "Delivery Rate Samples").
//!
//! ```text
//!  sent ──────────► Departure: how much was delivered, and when, at that time
//!  acknowledged ──► RateSample: what was delivered since, by the time it took to send it, or to have it acknowledged
//! ```
//! What is sent in one turn of the stack leaves at one time, and has one entry: so there are as many as there were turns, not segments.

use qanat_nic::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Entries that are kept. With more turns in flight the oldest give no samples.
const DEPARTURES_MAX: usize = 4_096;

/// What was known when segments left.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Departure {
    /// When they left.
    pub sent_at: Time,
    /// Octets that had been delivered.
    pub delivered: u64,
    /// When the last of those was.
    pub delivered_at: Time,
    /// When the segment left that was delivered last.
    pub first_sent_at: Time,
    /// Octets in flight, with them.
    pub in_flight: u32,
    /// Octets that had been lost.
    pub lost: u64,
    /// The application gave less than the path takes.
    pub is_application_limited: bool,
}

/// What an acknowledgement tells of the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Octets delivered over the interval.
    pub delivered: u64,
    /// Octets delivered in all when it began.
    pub prior_delivered: u64,
    /// Octets a second; 0: it can't be said.
    pub rate: u64,
    /// By the segment that was sent last of those that are acknowledged now.
    pub rtt: Option<Duration>,
    /// Octets in flight when that was sent.
    pub in_flight_when_sent: u32,
    /// Octets lost since it was sent.
    pub lost: u64,
    /// The application was the limit.
    pub is_application_limited: bool,
    /// Something was delivered of which it is known when it left.
    pub has_data: bool,
}

/// The sample of the acknowledgement that is being processed.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Gathered {
    newest: Option<Departure>,
    is_retransmitted: bool,
}

/// Of one connection.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct DeliveryRate {
    /// Ordered by time.
    departures: VecDeque<Departure>,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    lost: u64,
    /// What is delivered up to this many octets was limited by the application; 0: nothing is.
    application_limit: u64,
    gathered: Gathered,
}

impl DeliveryRate {
    /// Octets delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A segment leaves; `in_flight`: octets in flight with it, `length` of which are its own.
    pub fn on_sent(&mut self, in_flight: u32, length: u32, now: Time) {
        if in_flight <= length {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        if let Some(last) = self.departures.back_mut()
            && last.sent_at == now
        {
            last.in_flight = last.in_flight.max(in_flight);
            return;
        }
        if self.departures.len() >= DEPARTURES_MAX {
            self.departures.pop_front();
        }
        self.departures.push_back(Departure {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight,
            lost: self.lost,
            is_application_limited: self.application_limit != 0,
        });
    }

    /// What was known when a segment left that left at `sent_at`.
    fn departure(&self, sent_at: Time) -> Option<Departure> {
        let at = self.departures.partition_point(|departure| departure.sent_at < sent_at);
        self.departures.get(at).copied().filter(|departure| departure.sent_at == sent_at)
    }

    /// A segment was acknowledged that was sent last at `sent_at`.
    pub fn on_delivered(&mut self, sent_at: Time, is_retransmitted: bool) {
        let is_newest = self.gathered.newest.is_none_or(|newest| sent_at >= newest.sent_at);
        if is_newest && let Some(departure) = self.departure(sent_at) {
            self.gathered = Gathered { newest: Some(departure), is_retransmitted };
            self.first_sent_at = self.first_sent_at.max(sent_at);
        }
    }

    /// So many octets were acknowledged in all.
    pub fn note_delivered(&mut self, octets: u32, now: Time) {
        self.delivered += u64::from(octets);
        self.delivered_at = now;
    }

    /// So many octets are taken for lost, of which nothing else is known.
    pub fn note_lost(&mut self, octets: u32) {
        self.lost += u64::from(octets);
    }

    /// A segment of so many octets, sent last at `sent_at`, was found lost. Gives what is known of it, if anything is: as a sample would
    /// have it.
    pub fn on_lost(&mut self, sent_at: Time, length: u32) -> Option<RateSample> {
        self.lost += u64::from(length);
        let departure = self.departure(sent_at)?;
        Some(RateSample {
            in_flight_when_sent: departure.in_flight,
            lost: self.lost - departure.lost,
            is_application_limited: departure.is_application_limited,
            ..RateSample::default()
        })
    }

    /// All that an acknowledgement acknowledges was told. `minimum_rtt`: what takes less gives no rate.
    pub fn sample(&mut self, minimum_rtt: Option<Duration>, now: Time) -> RateSample {
        if self.application_limit != 0 && self.delivered > self.application_limit {
            self.application_limit = 0;
        }
        let Gathered { newest, is_retransmitted } = std::mem::take(&mut self.gathered);
        let Some(newest) = newest else { return RateSample::default() };
        let send_elapsed = newest.sent_at.since(newest.first_sent_at);
        let interval = send_elapsed.max(self.delivered_at.since(newest.delivered_at));
        let delivered = self.delivered - newest.delivered;
        let is_reliable = !interval.is_zero() && minimum_rtt.is_none_or(|minimum| interval >= minimum);
        let nanoseconds = interval.as_nanos().max(1);
        let rate = u128::from(delivered) * 1_000_000_000 / nanoseconds;
        RateSample {
            delivered,
            prior_delivered: newest.delivered,
            rate: if is_reliable { u64::try_from(rate).unwrap_or(u64::MAX) } else { 0 },
            rtt: (!is_retransmitted).then(|| now.since(newest.sent_at)),
            in_flight_when_sent: newest.in_flight,
            lost: self.lost - newest.lost,
            is_application_limited: newest.is_application_limited,
            has_data: true,
        }
    }

    /// There is nothing to send, and room for more.
    pub fn set_application_limited(&mut self, in_flight: u32) {
        self.application_limit = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// Whether there was less to send than the path takes.
    pub fn is_application_limited(&self) -> bool {
        self.application_limit != 0
    }

    /// Everything that left before `oldest` is acknowledged.
    pub fn forget_before(&mut self, oldest: Time) {
        while self.departures.front().is_some_and(|departure| departure.sent_at < oldest) {
            self.departures.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_millis(milliseconds)
    }

    /// Sends so many segments of 1,000 octets, each `gap` after the other, that are acknowledged `rtt` later, each `delay` more.
    fn run(count: u64, gap: u64, delay: u64) -> RateSample {
        let mut rate = DeliveryRate::default();
        let mut sample = RateSample::default();
        let (rtt, mut in_flight) = (100, 0);
        let mut next = 0;
        for number in 0..count {
            while next < count && next * gap < rtt + number * (gap + delay) {
                in_flight += 1_000;
                rate.on_sent(in_flight, 1_000, at(next * gap));
                next += 1;
            }
            let now = at(rtt + number * (gap + delay));
            rate.on_delivered(at(number * gap), false);
            rate.note_delivered(1_000, now);
            in_flight -= 1_000;
            sample = rate.sample(None, now);
        }
        sample
    }

    #[test]
    fn the_rate_is_that_of_the_slower_side() {
        // One segment in 2 ms, and acknowledged as fast: 500 kB/s.
        let sample = run(200, 2, 0);
        assert!((490_000..=510_000).contains(&sample.rate), "{sample:?}");
        // Acknowledged half as fast.
        let sample = run(200, 2, 2);
        assert!((240_000..=260_000).contains(&sample.rate), "{sample:?}");
    }

    #[test]
    fn what_the_application_held_back_is_told() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(1_000, 1_000, at(0));
        rate.set_application_limited(1_000);
        rate.on_sent(2_000, 1_000, at(10));
        rate.on_delivered(at(0), false);
        rate.note_delivered(1_000, at(50));
        assert!(!rate.sample(None, at(50)).is_application_limited);
        rate.on_delivered(at(10), false);
        rate.note_delivered(1_000, at(60));
        assert!(rate.sample(None, at(60)).is_application_limited);
        // What comes behind the gap is not limited any more.
        assert!(!rate.is_application_limited());
    }

    #[test]
    fn what_was_sent_again_gives_no_round_trip_and_what_is_lost_is_counted() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(1_000, 1_000, at(0));
        rate.on_sent(2_000, 1_000, at(1));
        let lost = rate.on_lost(at(0), 1_000).unwrap();
        assert_eq!((lost.lost, lost.in_flight_when_sent), (1_000, 1_000));
        rate.on_sent(2_000, 1_000, at(30));
        rate.on_delivered(at(30), true);
        rate.note_delivered(1_000, at(60));
        let sample = rate.sample(None, at(60));
        assert_eq!((sample.rtt, sample.lost), (None, 0));
        rate.forget_before(at(31));
        assert!(rate.on_lost(at(30), 1).is_none() && rate.departures.is_empty());
    }
}
