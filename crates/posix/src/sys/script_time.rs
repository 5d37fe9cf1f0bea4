//! Whether time is a script's, and what time it is in that case.

use qanat::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Whether time is a script's.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

pub(crate) fn now() -> Time {
    Time::from_nanos(NOW.load(Ordering::Relaxed))
}

/// Time is a script's from now on.
pub(crate) fn begin() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// A moment passes.
pub(crate) fn pass(time_ns: u64) {
    NOW.fetch_add(time_ns, Ordering::Relaxed);
}

/// It is `time`, or later.
pub(crate) fn pass_to(time: Time) {
    NOW.fetch_max(time.as_nanos(), Ordering::Relaxed);
}

/// It is `time`.
pub(crate) fn set(time: Time) {
    NOW.store(time.as_nanos(), Ordering::Relaxed);
}
