//! A token bucket, for what an attacker could make us send: challenge ACKs, resets, ICMP errors, ARP requests.

use qanat_nic::Time;

/// Allows `per_second` events with bursts of as many.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct RateLimiter {
    per_second: u32,
    tokens: u32,
    refilled: Time,
}

impl RateLimiter {
    /// A full bucket.
    pub fn new(per_second: u32, now: Time) -> RateLimiter {
        RateLimiter { per_second, tokens: per_second, refilled: now }
    }

    /// Takes a token; `false` when there is none.
    pub fn allow(&mut self, now: Time) -> bool {
        if self.tokens < self.per_second {
            let elapsed_ns = now.since(self.refilled).as_nanos().min(1_000_000_000) as u64;
            let earned = (elapsed_ns * u64::from(self.per_second) / 1_000_000_000) as u32;
            if earned > 0 {
                self.tokens = self.tokens.saturating_add(earned).min(self.per_second);
                self.refilled = now;
            }
        }
        if self.tokens == 0 {
            return false;
        }
        self.tokens -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_then_rations() {
        let mut limiter = RateLimiter::new(10, Time::ZERO);
        assert_eq!((0..100).filter(|_| limiter.allow(Time::ZERO)).count(), 10);
        assert!(!limiter.allow(Time::from_millis(99)));
        assert!(limiter.allow(Time::from_millis(200)));
        assert_eq!((0..100).filter(|_| limiter.allow(Time::from_millis(5_000))).count(), 10);
    }
}
