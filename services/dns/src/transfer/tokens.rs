//! Tokens of timers: whose they are.

/// Timers of ours have this bit in their token.
pub const TIMER_BIT: u64 = 1 << 63;
pub(super) const TIMER_NOTIFY: u64 = TIMER_BIT;
pub(super) const TIMER_SECONDARY: u64 = TIMER_BIT | 1 << 62;
pub(super) const TIMER_NUMBER: u64 = (1 << 62) - 1;
