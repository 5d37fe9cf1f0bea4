//! The ration of challenge ACKs (RFC 5961 section 7): each connection has its own, half-open ones and those in TIME-WAIT too.
//!
//! A ration for all connections together can be read by whoever has one of them: the challenges that are missing there went to
//! another, and so it is known that the other exists (CVE-2016-5696). So there is none. All connections together answer at most
//! as many segments as come, by shorter ones, and each of them twice a second.

use qanat_nic::Time;
use std::time::Duration;

/// Between two challenges in the long run (as Linux: `tcp_invalid_ratelimit`).
const INTERVAL: Duration = Duration::from_millis(500);
/// Challenges at once.
const BURST: u32 = 3;

/// What a connection may still send.
#[derive(Clone, Copy, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct Challenges {
    /// When all that was sent is paid for, at one interval each.
    paid_at: Time,
}

impl Challenges {
    /// Takes a challenge. Gives `false` if none is left.
    pub fn allow(&mut self, now: Time) -> bool {
        self.take(now, INTERVAL * (BURST - 1))
    }

    /// Takes the answer to an unacceptable segment without data. Two ends could answer each other so for ever, so nothing is
    /// saved up for it.
    pub fn allow_one(&mut self, now: Time) -> bool {
        self.take(now, Duration::ZERO)
    }

    fn take(&mut self, now: Time, ahead: Duration) -> bool {
        if self.paid_at > now + ahead {
            return false;
        }
        self.paid_at = self.paid_at.max(now) + INTERVAL;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_then_two_a_second() {
        let mut challenges = Challenges::default();
        let mut count =
            |from_ms: u64, to_ms: u64| (from_ms..to_ms).filter(|now| challenges.allow(Time::from_millis(*now))).count();
        assert_eq!(count(0, 499), 3);
        assert_eq!(count(499, 10_000), 20 - 1);
        assert_eq!(count(60_000, 60_001) + count(60_001, 60_002) + count(60_002, 60_003) + count(60_003, 60_004), 3);
        assert!(!challenges.allow_one(Time::from_millis(60_100)));
        assert!(challenges.allow_one(Time::from_millis(61_500)));
        assert!(!challenges.allow_one(Time::from_millis(61_501)));
        assert!(challenges.allow(Time::from_millis(61_501)));
    }
}
