//! Response-rate limiting: a name server must not be the louder voice of somebody with a forged address.
//!
//! Equal answers to one network are counted; beyond the rate they are dropped, but every `slip`th is sent empty with TC set,
//! so that a client that is real can come by TCP. The table has a fixed size; who shares a place shares its fate, by a key
//! nobody knows.

use crate::answer::Outcome;
use crate::message::rcode;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;

/// Limits on answers to one network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateLimits {
    /// Equal answers a second to one network; 0: no limit.
    pub answers_per_s: u32,
    /// Of the answers beyond the limit, every n-th is sent with TC set, where n is this number. 0: none is sent.
    pub slip: u32,
    /// Bits of an IPv4 address that are its network.
    pub ipv4_prefix: u8,
    /// Bits of an IPv6 address that are its network.
    pub ipv6_prefix: u8,
    /// Places of the table, each 16 bytes.
    pub places: usize,
    /// Addresses without a limit.
    pub exempt: Vec<IpAddr>,
}

impl Default for RateLimits {
    fn default() -> RateLimits {
        RateLimits { answers_per_s: 0, slip: 2, ipv4_prefix: 24, ipv6_prefix: 56, places: 65_536, exempt: Vec::new() }
    }
}

/// What is to be done with an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Send it.
    Send,
    /// Send it without records, with TC set.
    Slip,
    /// Send nothing.
    Drop,
}

#[derive(Clone, Copy, Default)]
struct Place {
    key: u32,
    /// When the credit was counted.
    at_ms: u32,
    /// Answers that may be sent, thousandths.
    credit: u32,
    /// Refused since the last that was let through with TC.
    refused: u32,
}

/// The table.
pub struct RateLimiter {
    limits: RateLimits,
    places: Vec<Place>,
    secret: [u8; 16],
}

impl RateLimiter {
    /// `None`: there is no limit. `secret` must be unpredictable.
    pub fn new(limits: &RateLimits, secret: [u8; 16]) -> Option<RateLimiter> {
        (limits.answers_per_s > 0).then(|| RateLimiter {
            places: vec![Place::default(); limits.places.clamp(1, 1 << 24).next_power_of_two()],
            limits: limits.clone(),
            secret,
        })
    }

    /// What is to be done with this answer to `peer` at `now_ms` (any beginning, wrapping).
    pub fn decide(&mut self, outcome: &Outcome, peer: IpAddr, now_ms: u32) -> Decision {
        // A valid cookie: the address is not forged (RFC 7873 section 4).
        if outcome.cookie_valid || self.limits.exempt.contains(&peer) {
            return Decision::Send;
        }
        let hash = self.hash(outcome, peer);
        let index = hash as usize & (self.places.len() - 1);
        let (key, full) = ((hash >> 32) as u32, self.limits.answers_per_s.saturating_mul(1_000));
        let Some(place) = self.places.get_mut(index) else { return Decision::Send };
        if place.key != key {
            *place = Place { key, at_ms: now_ms, credit: full, refused: 0 };
        }
        let elapsed_ms = now_ms.wrapping_sub(place.at_ms);
        let earned = u64::from(elapsed_ms) * u64::from(self.limits.answers_per_s);
        place.credit = u64::from(full).min(u64::from(place.credit) + earned) as u32;
        place.at_ms = now_ms;
        match place.credit.checked_sub(1_000) {
            Some(rest) => {
                place.credit = rest;
                Decision::Send
            }
            None => {
                place.refused += 1;
                if self.limits.slip > 0 && place.refused >= self.limits.slip {
                    place.refused = 0;
                    Decision::Slip
                } else {
                    Decision::Drop
                }
            }
        }
    }

    fn hash(&self, outcome: &Outcome, peer: IpAddr) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        match peer {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.limits.ipv4_prefix.min(32))).unwrap_or(0);
                hasher.write_u32(address.to_bits() & mask);
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.limits.ipv6_prefix.min(128))).unwrap_or(0);
                hasher.write_u128(address.to_bits() & mask);
            }
        }
        // What does not exist, and what is refused, is one for all names of a zone: else every random name were new.
        let type_counts = outcome.rcode == rcode::NOERROR;
        hasher.write_u8(outcome.rcode);
        hasher.write_u16(if type_counts { outcome.qtype } else { 0 });
        hasher.write_u32(outcome.source_hash);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Fate;

    fn outcome(source_hash: u32) -> Outcome {
        Outcome {
            fate: Fate::Answered,
            length: 100,
            rcode: 0,
            qtype: 1,
            question_end: 30,
            truncated: false,
            cookie_valid: false,
            source_hash,
        }
    }

    #[test]
    fn equal_answers_to_one_network_are_limited() {
        let limits =
            RateLimits { answers_per_s: 10, exempt: vec!["192.0.2.200".parse().unwrap()], ..RateLimits::default() };
        let mut limiter = RateLimiter::new(&limits, [1; 16]).unwrap();
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        let neighbour: IpAddr = "192.0.2.2".parse().unwrap();
        let other: IpAddr = "198.51.100.1".parse().unwrap();
        let mut decisions: Vec<Decision> = (0..14).map(|_| limiter.decide(&outcome(1), one, 1_000)).collect();
        assert!(decisions.drain(..10).all(|decision| decision == Decision::Send));
        assert_eq!(decisions, [Decision::Drop, Decision::Slip, Decision::Drop, Decision::Slip]);
        assert_eq!(limiter.decide(&outcome(1), neighbour, 1_000), Decision::Drop);
        assert_eq!(limiter.decide(&outcome(1), other, 1_000), Decision::Send);
        assert_eq!(limiter.decide(&outcome(2), one, 1_000), Decision::Send);
        assert_eq!(limiter.decide(&outcome(1), "192.0.2.200".parse().unwrap(), 1_000), Decision::Send);
        assert_eq!(limiter.decide(&Outcome { cookie_valid: true, ..outcome(1) }, one, 1_000), Decision::Send);
        // 100 ms later there is one more.
        assert_eq!(limiter.decide(&outcome(1), one, 1_100), Decision::Send);
        assert_ne!(limiter.decide(&outcome(1), one, 1_100), Decision::Send);
        assert!(RateLimiter::new(&RateLimits::default(), [1; 16]).is_none());
    }
}
