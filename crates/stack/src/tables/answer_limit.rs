//! Limits on answers to strangers (resets, ICMP) that tell nobody of anybody else.
//!
//! An attacker who forges a peer's address sees none of the answers that it draws. A limit on all answers together shows them
//! nevertheless: what the forged packets have used up is missing from the answers to the attacker's own, and so it learns
//! whether a port is open or a connection exists (CVE-2016-5696, CVE-2020-25705). So:
//!
//! * Each peer has an allowance of its own. A forged packet is charged to the peer whose address it bears.
//! * Allowances lie in a table of fixed size. A keyed hash decides, anew in each period, which peers share a place. So an attacker
//!   with one address shares a place with its victim in one period of [`PLACES`], and does not know in which.
//! * An allowance has a random size, anew in each period. What is missing from it can't be told from what never was in it.
//!   This also blurs what an attacker sees that has the address of its victim, behind the same address translator.
//!
//! An attacker with more addresses than places sees the sum of all places. The noise of that sum is larger than all that one
//! place can change.

use crate::tables::peer::Peer;
use qanat_nic::Time;
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

/// Places of the table.
const PLACES: usize = 256;
/// A period is 2^30 ns: a little more than a second.
const PERIOD_SHIFT: u32 = 30;

/// The allowances of all peers for one kind of answer.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct AnswerLimit {
    key: (u64, u64),
    /// The smallest allowance. The largest is just below twice as much. 0: there is no limit.
    least: u16,
    period: u64,
    /// Answers of this period.
    used: Vec<u16>,
}

impl AnswerLimit {
    /// At least `least` answers to each peer in a period.
    pub(crate) fn new(least: u16, key: (u64, u64)) -> AnswerLimit {
        AnswerLimit { key, least, period: 0, used: vec![0; PLACES] }
    }

    /// No limit: for a stack whose only work is to answer.
    pub(crate) fn lift(&mut self) {
        self.least = 0;
    }

    /// Takes one answer from the allowance of `peer`. Gives `false` if that is used up.
    pub(crate) fn allow(&mut self, now: Time, peer: IpAddr) -> bool {
        if self.least == 0 {
            return true;
        }
        let period = now.as_nanos() >> PERIOD_SHIFT;
        if period != self.period {
            self.period = period;
            self.used.fill(0);
        }
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        (Peer::from(peer), period).hash(&mut hasher);
        let hash = hasher.finish();
        let Some(used) = self.used.get_mut(hash as usize % PLACES) else { return false };
        let allowance = self.least + (hash >> 40) as u16 % self.least;
        let is_allowed = *used < allowance;
        *used += u16::from(is_allowed);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    fn draw(limit: &mut AnswerLimit, now: Time, peer: IpAddr, tries: usize) -> usize {
        (0..tries).filter(|_| limit.allow(now, peer)).count()
    }

    #[test]
    fn allowances_are_bounded_and_come_anew() {
        let mut limit = AnswerLimit::new(100, (1, 2));
        let mut sizes: Vec<usize> = Vec::new();
        for second in 0..50 {
            let now = Time::ZERO + Duration::from_secs(2 * second);
            sizes.push(draw(&mut limit, now, address(1), 1_000));
            assert_eq!(draw(&mut limit, now, address(1), 1_000), 0);
        }
        assert!(sizes.iter().all(|size| (100..200).contains(size)));
        sizes.sort_unstable();
        sizes.dedup();
        assert!(sizes.len() > 20, "an allowance that can be foreseen: {sizes:?}");
    }

    #[test]
    fn a_limit_can_be_lifted() {
        let mut limit = AnswerLimit::new(10, (1, 2));
        limit.lift();
        assert_eq!(draw(&mut limit, Time::ZERO, address(1), 1_000), 1_000);
    }

    #[test]
    fn a_flood_from_everywhere_is_bounded() {
        let mut limit = AnswerLimit::new(10, (1, 2));
        let answers: usize = (0..100_000).map(|number| draw(&mut limit, Time::ZERO, address(number), 5)).sum();
        assert!(answers < PLACES * 20, "{answers}");
    }

    #[test]
    fn who_shares_a_place_changes_with_each_period() {
        // The attacker looks for an address of its own that shares the victim's place. What it finds is worth nothing later.
        let mut limit = AnswerLimit::new(10, (3, 4));
        let shares = |limit: &mut AnswerLimit, now: Time, number: u32| {
            limit.used.fill(0);
            draw(limit, now, address(0), 100);
            draw(limit, now, address(number), 100) < 10
        };
        let found: Vec<u32> = (1..8_000).filter(|number| shares(&mut limit, Time::ZERO, *number)).collect();
        assert!(found.len() < 80, "{}", found.len());
        let later = Time::ZERO + Duration::from_secs(2);
        assert!(found.iter().filter(|number| shares(&mut limit, later, **number)).count() < 4);
    }
}
