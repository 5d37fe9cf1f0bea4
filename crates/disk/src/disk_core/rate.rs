//! [`Rates`]: how much a tenant may ask for, as virtual scheduling (GCRA, ITU-T I.371), as the fence does for packets.

use crate::area::AreaLimits;
use qanat_nic::Time;

/// What may be asked for at once: as much as in so many nanoseconds.
const BURST_NS: u128 = 10_000_000;

/// One limit. Times in 1/65,536 of a nanosecond, so that a byte of a fast disk is more than nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    /// What one unit takes; 0: there is no limit.
    per_unit: u128,
    /// When the bucket would be full again.
    arrival: u128,
}

impl Limit {
    fn new(per_second: u64, old: Limit) -> Limit {
        let per_unit = if per_second == 0 { 0 } else { (1_000_000_000_u128 << 16) / u128::from(per_second) };
        // A new limit begins with what the old one owes, a second of it at most.
        Limit { per_unit, arrival: old.arrival }
    }

    /// How long until it has room, in 1/65,536 ns.
    fn wait(&self, now: u128) -> u128 {
        if self.per_unit == 0 { 0 } else { self.arrival.saturating_sub(now + (BURST_NS << 16)) }
    }

    fn take(&mut self, units: u64, now: u128) {
        if self.per_unit > 0 {
            self.arrival = self.arrival.max(now) + self.per_unit * u128::from(units);
        }
    }
}

/// Both limits of a tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    requests: Limit,
    bytes: Limit,
}

impl Rates {
    /// Other limits from now on.
    pub(super) fn set(&mut self, limits: AreaLimits) {
        self.requests = Limit::new(limits.requests_per_second, self.requests);
        self.bytes = Limit::new(limits.bytes_per_second, self.bytes);
    }

    /// Whether there is any limit.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.requests.per_unit > 0 || self.bytes.per_unit > 0
    }

    /// When all that was taken will have been earned, in 1/65,536 ns.
    pub(super) fn owes(&self) -> u128 {
        self.requests.arrival.max(self.bytes.arrival)
    }

    /// Takes a request of so many bytes, if neither limit is used up: what it takes beyond what there is, those after it wait for. So the
    /// largest passes as well, and no more than the limit in the long run.
    ///
    /// # Errors
    /// When there will be room.
    #[inline]
    pub(super) fn take(&mut self, bytes: u64, now: Time) -> Result<(), Time> {
        if !self.is_limited() {
            return Ok(());
        }
        let at = u128::from(now.as_nanos()) << 16;
        let wait = self.requests.wait(at).max(self.bytes.wait(at));
        if wait > 0 {
            let nanoseconds = u64::try_from((wait >> 16) + 1).unwrap_or(u64::MAX);
            return Err(now + std::time::Duration::from_nanos(nanoseconds));
        }
        self.requests.take(1, at);
        self.bytes.take(bytes, at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Requests that pass in a second when asked for each microsecond.
    fn in_a_second(rates: &mut Rates, bytes: u64, from: Time) -> u64 {
        (0..1_000_000).filter(|us| rates.take(bytes, from + Duration::from_micros(*us)).is_ok()).count() as u64
    }

    #[test]
    fn in_the_long_run_no_more_than_the_limit_passes() {
        let start = Time::ZERO + Duration::from_secs(5);
        for (limits, bytes, expected) in [
            (AreaLimits { requests_per_second: 1_000, bytes_per_second: 0 }, 512, 1_010),
            (AreaLimits { requests_per_second: 0, bytes_per_second: 4_096_000 }, 4_096, 1_010),
            (AreaLimits { requests_per_second: 100_000, bytes_per_second: 4_096_000 }, 4_096, 1_010),
            // Each is more than a burst.
            (AreaLimits { requests_per_second: 0, bytes_per_second: 1_000_000 }, 100_000, 11),
        ] {
            let mut rates = Rates::default();
            rates.set(limits);
            let passed = in_a_second(&mut rates, bytes, start);
            assert!(passed.abs_diff(expected) <= expected / 100 + 1, "{limits:?}: {passed}");
        }
        assert_eq!(in_a_second(&mut Rates::default(), 1 << 20, start), 1_000_000, "no limit");
    }

    #[test]
    fn it_says_when_there_is_room() {
        let mut rates = Rates::default();
        rates.set(AreaLimits { requests_per_second: 10, bytes_per_second: 0 });
        let now = Time::ZERO + Duration::from_secs(1);
        assert!(rates.take(0, now).is_ok());
        let due = rates.take(0, now).unwrap_err();
        assert!(rates.take(0, due).is_ok() && rates.take(0, due).is_err());
        // The largest there can be, and then another limit.
        rates.set(AreaLimits { requests_per_second: 1, bytes_per_second: 1 });
        assert!(rates.take(u64::MAX, due + Duration::from_secs(9)).is_ok());
        assert!(rates.take(1, due + Duration::from_secs(1_000)).is_err());
        rates.set(AreaLimits::default());
        assert!(rates.take(u64::MAX, due).is_ok());
    }
}
