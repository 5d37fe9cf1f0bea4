//! What is asked of a disk, and what that gave.

use crate::harness::HarnessError;
use crate::machine::{CpuTimes, MachineSample};
use std::fmt;

/// What is asked of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Overwrites; else reads.
    pub is_write: bool,
    /// Bytes of a request.
    pub bytes: u32,
    /// Requests under way at once.
    pub depth: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_write { "overwrites" } else { "reads" };
        match self.bytes {
            bytes if bytes < 1_024 => write!(f, "random {what}, {bytes} B, depth {}", self.depth),
            bytes => write!(f, "random {what}, {} KiB, depth {}", bytes / 1_024, self.depth),
        }
    }
}

/// What a run at a point gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Requests that completed in a second.
    pub requests_per_s: f64,
    /// Time of all processors for a request, interrupts and kernel threads included, µs.
    pub cpu_us: f64,
    /// The middle response time, µs.
    pub p50_us: f64,
    /// The response time that one of a hundred exceeds, µs.
    pub p99_us: f64,
}

/// Busy time of all processors while `run` runs, seconds.
pub(super) fn busy<T>(run: impl FnOnce() -> Result<T, HarnessError>) -> Result<(T, f64), HarnessError> {
    let before = MachineSample::take(None);
    let value = run()?;
    let after = MachineSample::take(None);
    let seconds = after.cpus.iter().zip(&before.cpus).map(|(after, before)| CpuTimes::busy_s(&after.since(before)));
    Ok((value, seconds.sum()))
}
