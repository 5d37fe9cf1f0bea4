//! What is noted of commands: which were slow, how often each was executed, what took long, and who watches them all.

pub mod counts;
pub mod durations;
pub mod latency;
pub mod secrets;
pub mod slow;

use counts::Counts;
use latency::Latency;
use slow::SlowLog;

/// See the module.
#[derive(Debug, Default)]
pub struct Observed {
    /// Nanoseconds since some moment; `None`: nothing is measured. It is read only if something is to be noted.
    pub clock: Option<fn() -> u64>,
    /// Slow commands.
    pub slow: SlowLog,
    /// What took long.
    pub latency: Latency,
    /// How often, and how long.
    pub counts: Counts,
    /// Clients that watch all commands (MONITOR): their slots.
    pub monitors: Vec<usize>,
    /// Bytes of requests that have come in part, and of records that wait for the disk, as of this turn.
    pub buffers: u64,
    /// The most memory that keys took at a tick.
    pub memory_peak: usize,
}
