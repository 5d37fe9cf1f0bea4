//! [`Usage`]: when a key was used last, or how often. A key keeps it in 32 bits, as Redis does.
//!
//! ```text
//!  by time:       tenths of a second since 1970, the lower 32 bits of them
//!  by frequency:  minutes since 1970, the lower 24 bits · how often (8): a logarithm that decays
//! ```

use std::cell::Cell;

/// Milliseconds of one step of the time.
const STEP_MS: i64 = 100;
/// How often a new key was used, so that it is not the first to go.
const BORN: u8 = 5;

/// How the use of keys is noted.
#[derive(Debug)]
pub struct Usage {
    /// How often, not when.
    pub is_lfu: bool,
    /// The larger it is, the more uses it takes to be counted (`lfu-log-factor`).
    pub log_factor: u32,
    /// So many minutes without use count one less (`lfu-decay-time`); 0: never.
    pub decay_minutes: u32,
    /// Reads note uses, too, and share the keyspace.
    chance: Cell<u64>,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { is_lfu: false, log_factor: 10, decay_minutes: 1, chance: Cell::new(0x9e37_79b9_7f4a_7c15) }
    }
}

fn minutes(now_ms: i64) -> u32 {
    (now_ms / 60_000) as u32 & 0xff_ffff
}

impl Usage {
    /// What a new key has.
    #[inline]
    pub fn born(&self, now_ms: i64) -> u32 {
        if self.is_lfu { minutes(now_ms) << 8 | u32::from(BORN) } else { (now_ms / STEP_MS) as u32 }
    }

    /// What a key has when it was used again.
    #[inline]
    pub fn used(&self, noted: u32, now_ms: i64) -> u32 {
        if !self.is_lfu {
            return (now_ms / STEP_MS) as u32;
        }
        let before = self.frequency(noted, now_ms);
        let odds = u64::from(before.saturating_sub(BORN)) * u64::from(self.log_factor) + 1;
        let is_counted = before < u8::MAX && self.draw().is_multiple_of(odds);
        minutes(now_ms) << 8 | u32::from(before + u8::from(is_counted))
    }

    /// How often it was used, of what [`Usage::used`] noted with `is_lfu`.
    pub fn frequency(&self, noted: u32, now_ms: i64) -> u8 {
        let since = minutes(now_ms).wrapping_sub(noted >> 8) & 0xff_ffff;
        // Whoever set the clock back has not made keys old: half of all differences are of the future.
        let since = if since > 0x7f_ffff { 0 } else { since };
        let lost = since.checked_div(self.decay_minutes).unwrap_or(0).min(u32::from(u8::MAX)) as u8;
        (noted as u8).saturating_sub(lost)
    }

    /// How long ago it was used, of what was noted without `is_lfu`.
    pub fn idle_ms(&self, noted: u32, now_ms: i64) -> u64 {
        let since = ((now_ms / STEP_MS) as u32).wrapping_sub(noted) as i32;
        u64::from(since.max(0) as u32) * STEP_MS as u64
    }

    /// A number by chance (xorshift, of which the upper bits are taken).
    fn draw(&self) -> u64 {
        let mut number = self.chance.get();
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        self.chance.set(number);
        number >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_even_when_the_bits_wrap() {
        let usage = Usage::default();
        let end = (1_i64 << 32) * STEP_MS;
        let noted = usage.born(end - 300);
        assert_eq!(usage.idle_ms(noted, end + 700), 1_000);
        assert_eq!(usage.idle_ms(usage.used(noted, end), end), 0);
        assert_eq!(usage.idle_ms(noted, end - 5_000), 0);
    }

    /// As `redis.conf` has it: with a factor of 10, a hundred uses are some ten, and a million are all that there is.
    #[test]
    fn often_used_keys_count_by_a_logarithm_and_decay() {
        let usage = Usage { is_lfu: true, ..Usage::default() };
        let after = |uses: u32| (0..uses).fold(usage.born(0), |noted, _| usage.used(noted, 0));
        let counts = [100, 1_000, 100_000].map(|uses| usage.frequency(after(uses), 0));
        assert!((8..=14).contains(&counts[0]) && (14..=24).contains(&counts[1]), "{counts:?}");
        assert!((110..=180).contains(&counts[2]), "{counts:?}");
        let noted = after(1_000);
        assert_eq!(usage.frequency(noted, 5 * 60_000), counts[1].min(usage.frequency(noted, 0)) - 5);
        assert_eq!(usage.frequency(noted, 900 * 60_000), 0);
        let kept = Usage { is_lfu: true, decay_minutes: 0, ..Usage::default() };
        assert_eq!(kept.frequency(noted, 900 * 60_000), noted as u8);
        assert_eq!(usage.frequency(usage.born(5 * 60_000), 0), BORN);
    }
}
