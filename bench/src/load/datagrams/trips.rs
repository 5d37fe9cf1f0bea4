//! What a run saw: live figures, and the result.

use crate::load::figures::{Latency, OpenLoop};
use crate::machine::CpuTimes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Live figures.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TripFigures {
    /// Answers in the last second.
    pub per_s: f64,
    /// Lost since the window began.
    pub lost: u64,
    /// Median round trip since the window began, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
}

/// What the window after the warm-up saw.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RoundTrips {
    /// On their way at once.
    pub window: usize,
    /// Length of the window, seconds.
    pub duration_s: f64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that came back.
    pub received: u64,
    /// Packets that did not come back in time.
    pub lost: u64,
    /// Packets that came back late or twice, or were not ours.
    pub strange: u64,
    /// From sending (closed loop) or being due (open loop) to being back.
    pub round_trip_us: Latency,
    /// With a rate only.
    pub open_loop: Option<OpenLoop>,
    /// CPU time of this process, seconds.
    pub client_cpu_s: f64,
    /// CPU time of the watched process.
    pub watched_cpu_s: Option<f64>,
    /// CPU time by processor.
    pub cpus: Vec<CpuTimes>,
}

impl RoundTrips {
    /// Packets that came back, per second.
    pub fn per_s(&self) -> f64 {
        if self.duration_s > 0.0 { self.received as f64 / self.duration_s } else { 0.0 }
    }
}

impl fmt::Display for RoundTrips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  round trip  {}", self.round_trip_us)?;
        write!(f, "  lost        {} of {}", self.lost, self.sent)?;
        if self.strange > 0 {
            write!(f, ", {} late or not ours", self.strange)?;
        }
        if let Some(open) = &self.open_loop {
            write!(f, "\n  open loop   {} due, {} late, {} never sent", open.scheduled, open.late, open.dropped)?;
        }
        Ok(())
    }
}
