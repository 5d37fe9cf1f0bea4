//! [`Operating`]: settings of those who operate the server: memory, and what is noted of commands.

use crate::keyspace::events::Kinds;
use crate::resp::number::{integer, unsigned};

/// Entries of the slow log and of `ACL LOG`, at most. Each has some kibibytes.
const SLOW_ENTRIES_MAX: i64 = 16_384;

/// Which keys go if there is too little memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// None: what would grow is refused.
    #[default]
    NoEviction,
    /// The one that was not used for the longest time; `true`: among those that expire.
    Lru(bool),
    /// The one that was used least.
    Lfu(bool),
    /// Any.
    Random(bool),
    /// The one that expires first.
    Ttl,
}

const POLICIES: [(&str, Policy); 8] = [
    ("volatile-lru", Policy::Lru(true)),
    ("volatile-lfu", Policy::Lfu(true)),
    ("volatile-random", Policy::Random(true)),
    ("volatile-ttl", Policy::Ttl),
    ("allkeys-lru", Policy::Lru(false)),
    ("allkeys-lfu", Policy::Lfu(false)),
    ("allkeys-random", Policy::Random(false)),
    ("noeviction", Policy::NoEviction),
];

impl Policy {
    /// As Redis' `maxmemory-policy` names it.
    pub fn name(self) -> &'static str {
        POLICIES.iter().find(|(_, policy)| *policy == self).map_or("noeviction", |(name, _)| name)
    }

    /// What is called so.
    pub fn of(name: &str) -> Option<Policy> {
        POLICIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, policy)| *policy)
    }

    /// Whether it counts how often keys are used, and not when.
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::Lfu(_))
    }

    /// Whether only keys that expire go.
    pub fn is_volatile(self) -> bool {
        matches!(self, Policy::Ttl | Policy::Lru(true) | Policy::Lfu(true) | Policy::Random(true))
    }
}

/// Why a value is none, as Redis words it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WrongValue {
    /// No integer.
    #[error("argument couldn't be parsed into an integer")]
    NotInteger,
    /// It is too small or too large.
    #[error("argument must be between {0} and {1} inclusive")]
    Range(i64, i64),
    /// No size.
    #[error("argument must be a memory value")]
    NotMemory,
    /// Not one of these.
    #[error("argument(s) must be one of the following: {0}")]
    NotOf(String),
    /// A letter that means no kind of events.
    #[error("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")]
    NotKinds,
}

/// Settings of memory, and of what is noted.
#[derive(Clone, Debug)]
pub struct Operating {
    /// Bytes of memory that keys may take; 0: any.
    pub memory_max: u64,
    /// Which go if they take more.
    pub policy: Policy,
    /// How many are looked at to choose one.
    pub samples: u32,
    /// See [`Usage`](crate::keyspace::usage::Usage).
    pub log_factor: u32,
    /// The same.
    pub decay_minutes: u32,
    /// Commands that take so many microseconds are in the slow log; negative: none.
    pub slow_us: i64,
    /// Entries of the slow log.
    pub slow_entries: usize,
    /// What takes so many milliseconds is noted; 0: nothing.
    pub latency_ms: u64,
    /// Entries of `ACL LOG`.
    pub denials: usize,
    /// Keys that are noted for clients that cache them; 0: any number.
    pub tracked_keys: usize,
    /// Events of keys that are told.
    pub events: Kinds,
}

impl Default for Operating {
    fn default() -> Operating {
        Operating {
            memory_max: 0,
            policy: Policy::default(),
            samples: 5,
            log_factor: 10,
            decay_minutes: 1,
            slow_us: 10_000,
            slow_entries: 128,
            latency_ms: 0,
            denials: 128,
            tracked_keys: 1_000_000,
            events: Kinds::default(),
        }
    }
}

/// Bytes as Redis' settings have them: `100mb`.
fn memory(value: &[u8]) -> Option<u64> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = value.split_at_checked(digits)?;
    let unit: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    unsigned(number)?.checked_mul(unit)
}

fn number(value: &[u8], least: i64, most: i64) -> Result<i64, WrongValue> {
    let number = integer(value).ok_or(WrongValue::NotInteger)?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(WrongValue::Range(least, most)),
    }
}

fn small(value: &[u8], least: u32) -> Result<u32, WrongValue> {
    number(value, i64::from(least), i64::from(i32::MAX)).map(|number| number as u32)
}

impl Operating {
    /// Names and values.
    pub fn list(&self) -> [(&'static str, String); 11] {
        [
            ("acllog-max-len", self.denials.to_string()),
            ("latency-monitor-threshold", self.latency_ms.to_string()),
            ("lfu-decay-time", self.decay_minutes.to_string()),
            ("lfu-log-factor", self.log_factor.to_string()),
            ("maxmemory", self.memory_max.to_string()),
            ("maxmemory-policy", self.policy.name().to_owned()),
            ("maxmemory-samples", self.samples.to_string()),
            ("notify-keyspace-events", self.events.letters()),
            ("slowlog-log-slower-than", self.slow_us.to_string()),
            ("slowlog-max-len", self.slow_entries.to_string()),
            ("tracking-table-max-keys", self.tracked_keys.to_string()),
        ]
    }

    /// Sets one; whether it is one of these.
    ///
    /// # Errors
    /// Why the value is none.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<bool, WrongValue> {
        match name {
            "acllog-max-len" => self.denials = number(value, 0, SLOW_ENTRIES_MAX)? as usize,
            "latency-monitor-threshold" => self.latency_ms = number(value, 0, i64::MAX)? as u64,
            "lfu-decay-time" => self.decay_minutes = small(value, 0)?,
            "lfu-log-factor" => self.log_factor = small(value, 0)?,
            "maxmemory" => self.memory_max = memory(value).ok_or(WrongValue::NotMemory)?,
            "maxmemory-policy" => {
                let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
                let wrong = || WrongValue::NotOf(names.join(", "));
                self.policy = Policy::of(&String::from_utf8_lossy(value)).ok_or_else(wrong)?;
            }
            "maxmemory-samples" => self.samples = small(value, 1)?,
            "notify-keyspace-events" => self.events = Kinds::of(value).ok_or(WrongValue::NotKinds)?,
            "slowlog-log-slower-than" => self.slow_us = number(value, -1, i64::MAX)?,
            "slowlog-max-len" => self.slow_entries = number(value, 0, SLOW_ENTRIES_MAX)? as usize,
            "tracking-table-max-keys" => self.tracked_keys = number(value, 0, i64::MAX)? as usize,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
