//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970: what signatures are dated by.
pub(super) fn wall_clock_s() -> u64 {
    // No system call: the kernel's page of the clock. And only for signed messages and transfers.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
