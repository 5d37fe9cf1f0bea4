//! [`Clock`]: seconds, as items count them.

/// A delay of more seconds than 30 days is a time of day instead (doc/protocol.txt, "Expiration times").
const DELAY_MAX_S: i64 = 30 * 24 * 60 * 60;
/// The clock begins a little later than at 0, which means never.
const BEGINNING_S: i64 = 2;

/// Seconds since a little before the start: short enough to be in every item.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Of the clock's second 0 (Unix).
    zero_s: i64,
    now_s: u32,
}

impl Clock {
    /// It begins now (Unix seconds).
    pub fn new(unix_s: i64) -> Clock {
        Clock { zero_s: unix_s - BEGINNING_S, now_s: BEGINNING_S as u32 }
    }

    /// It is so late now. It never goes back.
    pub fn set(&mut self, unix_s: i64) {
        self.now_s = self.now_s.max(u32::try_from(unix_s - self.zero_s).unwrap_or(self.now_s));
    }

    /// Now.
    #[inline]
    pub fn now_s(&self) -> u32 {
        self.now_s
    }

    /// Now, as Unix counts.
    pub fn unix_s(&self) -> i64 {
        self.unix_of(self.now_s)
    }

    /// A second of this clock, as Unix counts.
    pub fn unix_of(&self, second: u32) -> i64 {
        self.zero_s + i64::from(second)
    }

    /// Seconds since it began.
    pub fn uptime_s(&self) -> u32 {
        self.now_s - BEGINNING_S as u32
    }

    /// When what a client says is over: 0: never. What is over already has a second that has gone by.
    pub fn expiry(&self, said: i64) -> u32 {
        let past = 1;
        match said {
            0 => 0,
            ..0 => past,
            1..=DELAY_MAX_S => self.now_s.saturating_add(said as u32),
            _ => {
                u32::try_from(said - self.zero_s).unwrap_or(if said < self.zero_s { past } else { u32::MAX }).max(past)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_is_a_delay_or_a_time_of_day() {
        let mut clock = Clock::new(1_800_000_000);
        clock.set(1_800_000_100);
        assert_eq!((clock.now_s(), clock.uptime_s(), clock.unix_s()), (102, 100, 1_800_000_100));
        let expiries = [0, -1, 1, DELAY_MAX_S, DELAY_MAX_S + 1, 1_800_000_000, 1_800_000_200, i64::MAX];
        let found = expiries.map(|said| clock.expiry(said));
        assert_eq!(found, [0, 1, 103, 102 + DELAY_MAX_S as u32, 1, 2, 202, u32::MAX]);
        clock.set(1_700_000_000);
        assert_eq!(clock.now_s(), 102, "an operator who sets the time back makes nothing live again");
    }
}
