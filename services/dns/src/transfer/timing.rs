//! When a zone is to be asked for again, and when it expires (RFC 1034 section 4.3.5).

use std::time::Duration;

/// The shortest time that counts, even if a SOA record has a shorter one.
pub(super) const TIMER_MIN_S: u32 = 1;

/// A SOA record's times, seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Timing {
    pub(super) serial: u32,
    pub(super) refresh_s: u32,
    pub(super) retry_s: u32,
    pub(super) expire_s: u32,
}

impl Timing {
    /// The times in a SOA record's data.
    pub(super) fn of(data: &[u8]) -> Option<Timing> {
        let (numbers, []) = data.get(data.len().checked_sub(20)?..)?.as_chunks::<4>() else { return None };
        let number = |index: usize| numbers.get(index).map(|bytes| u32::from_be_bytes(*bytes));
        Some(Timing {
            serial: number(0)?,
            refresh_s: number(1)?.max(TIMER_MIN_S),
            retry_s: number(2)?.max(TIMER_MIN_S),
            expire_s: number(3)?,
        })
    }

    pub(super) fn expire(&self) -> Duration {
        Duration::from_secs(self.expire_s.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_soa_record() {
        let mut data = vec![0, 0];
        for number in [7u32, 0, 900, 1_209_600, 300] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        let timing = Timing::of(&data).unwrap();
        assert_eq!((timing.serial, timing.refresh_s, timing.retry_s, timing.expire_s), (7, 1, 900, 1_209_600));
        assert!(Timing::of(&data[..19]).is_none());
    }
}
