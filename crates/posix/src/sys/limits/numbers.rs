//! Which numbers the library's descriptors have: none that programs and shells choose. The launcher shares this file.

use std::os::fd::RawFd;

/// The library's own are numbered from here on, and there are fewer than so many.
pub(crate) const FIRST_OWN: RawFd = 600;
pub(crate) const OWN_MAX: RawFd = 400;
/// Where those begin that are made one by one.
pub(crate) const OUT_OF_THE_WAY: RawFd = 700;
/// Numbers from here on are not own descriptors'.
pub(crate) const BEYOND_OWN: RawFd = 1_000;
/// A process whose hard limit is lower has no room for them.
pub(crate) const LIMIT_MIN: u64 = 1_024;
/// What the limit is raised to while they are made, if it may be.
pub(crate) const LIMIT_WANTED: u64 = 1_400;

/// What to say if the hard limit is too low.
pub(crate) fn shortage_of(hard_limit: u64) -> String {
    format!(
        "a program under `qanat run` needs a hard limit of {LIMIT_MIN} descriptors, and this one's is {hard_limit}: raise it as root \
         before the program starts, `ulimit -Hn {LIMIT_MIN}` (LimitNOFILE={LIMIT_MIN} in a unit)"
    )
}
