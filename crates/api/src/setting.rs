//! [`Setting`]: how one connection is to behave.

use crate::congestion::CongestionAlgorithm;
use std::time::Duration;

/// Keepalive of one connection (RFC 9293 section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Keepalive {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub probes_max: u8,
}

/// One setting of one connection, for [`Commands::set`](crate::Commands::set).
///
/// To add a setting, add a variant here, its line in [`to_words`](Setting::to_words) and in [`from_words`](Setting::from_words), what
/// the stack does about it, and a test.
///
/// ```
/// use qanat_api::{Keepalive, Setting};
/// use std::time::Duration;
///
/// let keepalive = Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(5), probes_max: 3 };
/// let setting = Setting::Keepalive(Some(keepalive));
/// // As it goes to a net core in another process, and comes back.
/// assert_eq!(Setting::from_words(setting.to_words()), Some(setting));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Nagle's algorithm is off (`true`) or on (RFC 9293 section 3.7.4).
    NoDelay(bool),
    /// What does not fill a segment is held back until this is off again, or the connection is closed.
    Cork(bool),
    /// Keepalive with these times, or none.
    Keepalive(Option<Keepalive>),
    /// Longest time sent data may stay unacknowledged before the connection ends; `None`: the retransmission limit alone. The
    /// peer's option (RFC 5482) changes it no more.
    UserTimeout(Option<Duration>),
    /// The peer is told how long this side waits for acknowledgements (RFC 5482's option), so that it may wait as long.
    AdvertisedUserTimeout(Duration),
    /// At most so many payload bytes are sent in a second; `None`: no limit.
    PacingRate(Option<u64>),
    /// How often the SYN of a connection under way is repeated; `None`: as the stack is configured (RFC 9293 section 3.8.3).
    SynRetransmissions(Option<u8>),
    /// The receive window of a connection under way is at most so large; `None`: as the stack is configured. What has been offered
    /// stays offered, and the scale what it is.
    ReceiveWindowMax(Option<u32>),
    /// Congestion is controlled in this way from now on. What is in flight, and may be, stays.
    Congestion(CongestionAlgorithm),
}

/// A setting in numbers, as it goes to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingWords {
    /// Which setting.
    pub kind: u16,
    /// Whether it is on, or whether there is a value.
    pub flag: bool,
    /// The value: times in nanoseconds, of keepalive in milliseconds.
    pub values: [u64; 2],
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// At least one: no time at all would be no time-out.
fn milliseconds(duration: Duration) -> u64 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX).max(1).into()
}

impl Setting {
    /// The setting in numbers.
    pub fn to_words(self) -> SettingWords {
        let words = |kind, flag, values| SettingWords { kind, flag, values };
        let optional = |kind, value: Option<u64>| words(kind, value.is_some(), [value.unwrap_or(0), 0]);
        match self {
            Setting::NoDelay(on) => words(0, on, [0; 2]),
            Setting::Cork(on) => words(1, on, [0; 2]),
            Setting::Keepalive(None) => words(2, false, [0; 2]),
            Setting::Keepalive(Some(Keepalive { idle, interval, probes_max })) => {
                words(2, true, [milliseconds(idle) | milliseconds(interval) << 32, probes_max.into()])
            }
            Setting::UserTimeout(timeout) => optional(3, timeout.map(nanoseconds)),
            Setting::AdvertisedUserTimeout(timeout) => optional(4, Some(nanoseconds(timeout))),
            Setting::PacingRate(bytes_per_second) => optional(5, bytes_per_second),
            Setting::SynRetransmissions(most) => optional(6, most.map(u64::from)),
            Setting::ReceiveWindowMax(most) => optional(7, most.map(u64::from)),
            Setting::Congestion(algorithm) => optional(8, Some(algorithm as u64)),
        }
    }

    /// The setting that these numbers mean. `None`: [`to_words`](Setting::to_words) never gives these numbers.
    pub fn from_words(words: SettingWords) -> Option<Setting> {
        let SettingWords { kind, flag, values: [first, second] } = words;
        let value = flag.then_some(first);
        let milliseconds = |value: u64| Duration::from_millis(u64::from(value as u32));
        let setting = match kind {
            0 => Setting::NoDelay(flag),
            1 => Setting::Cork(flag),
            2 => Setting::Keepalive(value.map(|times| Keepalive {
                idle: milliseconds(times),
                interval: milliseconds(times >> 32),
                probes_max: second as u8,
            })),
            3 => Setting::UserTimeout(value.map(Duration::from_nanos)),
            4 => Setting::AdvertisedUserTimeout(Duration::from_nanos(value?)),
            5 => Setting::PacingRate(value),
            6 => Setting::SynRetransmissions(value.map(|most| most as u8)),
            7 => Setting::ReceiveWindowMax(value.map(|most| most as u32)),
            8 => {
                let mut all = CongestionAlgorithm::ALL.into_iter();
                Setting::Congestion(all.find(|algorithm| Some(*algorithm as u64) == value)?)
            }
            _ => return None,
        };
        (setting.to_words() == words).then_some(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_setting() -> impl Strategy<Value = Setting> {
        let times = (1..=u32::MAX, 1..=u32::MAX, any::<u8>()).prop_map(|(idle, interval, probes_max)| Keepalive {
            idle: Duration::from_millis(idle.into()),
            interval: Duration::from_millis(interval.into()),
            probes_max,
        });
        let time = any::<u64>().prop_map(Duration::from_nanos);
        prop_oneof![
            any::<bool>().prop_map(Setting::NoDelay),
            any::<bool>().prop_map(Setting::Cork),
            proptest::option::of(times).prop_map(Setting::Keepalive),
            proptest::option::of(time.clone()).prop_map(Setting::UserTimeout),
            time.prop_map(Setting::AdvertisedUserTimeout),
            any::<Option<u64>>().prop_map(Setting::PacingRate),
            any::<Option<u8>>().prop_map(Setting::SynRetransmissions),
            any::<Option<u32>>().prop_map(Setting::ReceiveWindowMax),
            proptest::sample::select(&CongestionAlgorithm::ALL).prop_map(Setting::Congestion),
        ]
    }

    proptest! {
        #[test]
        fn a_setting_comes_back_as_it_was(setting in any_setting()) {
            prop_assert_eq!(Setting::from_words(setting.to_words()), Some(setting));
        }

        #[test]
        fn other_numbers_say_nothing(kind in 0..12_u16, flag in any::<bool>(), first in any::<u64>(), second in any::<u64>()) {
            let words = SettingWords { kind, flag, values: [first, second] };
            let setting = Setting::from_words(words);
            prop_assert!(setting.is_none_or(|setting| setting.to_words() == words));
            prop_assert!(kind < 8 || setting.is_none());
        }
    }

    #[test]
    fn no_time_is_the_shortest_there_is() {
        let none = Keepalive { idle: Duration::ZERO, interval: Duration::MAX, probes_max: 1 };
        let words = Setting::Keepalive(Some(none)).to_words();
        let Some(Setting::Keepalive(Some(times))) = Setting::from_words(words) else { panic!("{words:?}") };
        assert_eq!((times.idle.as_millis(), times.interval.as_millis()), (1, u128::from(u32::MAX)));
    }
}
