//! Which numbers the library's descriptors have: none that programs and shells choose.

use std::os::fd::RawFd;

/// The library's own are numbered from here on.
pub const FIRST_OWN: RawFd = 600;
/// There are fewer than so many.
pub const OWN_MAX: RawFd = 400;
/// Where those begin that are made one by one.
pub const OUT_OF_THE_WAY: RawFd = 700;
/// Numbers from here on are not own descriptors'.
pub const BEYOND_OWN: RawFd = 1_000;
/// A process whose hard limit is lower has no room for them.
pub const LIMIT_MIN: u64 = 1_024;
/// What the limit is raised to while they are made, if it may be.
pub const LIMIT_WANTED: u64 = 1_400;

/// What to say if the hard limit is too low.
pub fn shortage_of(hard_limit: u64) -> String {
    format!(
        "a program under `qanat run` needs a hard limit of {LIMIT_MIN} descriptors, and this one's is {hard_limit}: raise it as root \
         before the program starts, `ulimit -Hn {LIMIT_MIN}` (LimitNOFILE={LIMIT_MIN} in a unit)"
    )
}
