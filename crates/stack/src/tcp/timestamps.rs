//! Timestamps (RFC 7323): our clock, and the peer's last value to be echoed.
//!
//! All that changes these numbers is here.

use crate::tcp::segment::timestamp;
use crate::tcp::sequence::timestamp_before;
use qanat_nic::Time;
use std::time::Duration;

/// A TS.Recent older than this is not compared with (RFC 7323 §5.5).
const VALID: Duration = Duration::from_secs(24 * 24 * 3600);

/// The timestamps of one connection.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct TimestampClock {
    /// TS.Recent.
    recent: u32,
    /// What our clock is ahead of the stack's.
    offset: u32,
    /// When TS.Recent was set.
    recent_at: Time,
}

impl TimestampClock {
    /// Nothing was received yet.
    pub fn new(offset: u32, now: Time) -> TimestampClock {
        TimestampClock { recent: 0, offset, recent_at: now }
    }

    /// Our timestamp at `time`.
    #[inline]
    pub(in crate::tcp) fn at(&self, time: Time) -> u32 {
        timestamp(time, self.offset)
    }

    /// What our clock is ahead of the stack's.
    #[inline]
    pub(in crate::tcp) fn offset(&self) -> u32 {
        self.offset
    }

    /// TS.Recent.
    #[inline]
    pub(in crate::tcp) fn recent(&self) -> u32 {
        self.recent
    }

    /// Sets TS.Recent.
    #[inline]
    pub(in crate::tcp) fn set_recent(&mut self, value: u32, now: Time) {
        self.recent = value;
        self.recent_at = now;
    }

    /// Whether `value` is older than TS.Recent.
    #[inline]
    pub(in crate::tcp) fn is_old(&self, value: u32) -> bool {
        timestamp_before(value, self.recent)
    }

    /// Whether TS.Recent is too old itself to be compared with.
    #[inline]
    pub(in crate::tcp) fn is_outdated(&self, now: Time) -> bool {
        now.since(self.recent_at) > VALID
    }
}
