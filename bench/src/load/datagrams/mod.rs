//! Round trips by datagrams, whatever is in them: what `qanat load udp` and `qanat load dns` have in common.
//!
//! * [`window`]: what is on its way: sent when, lost when; closed loop and open loop
//! * [`frame`]: headers of a datagram, written from a template
//! * [`native`]: over a virtual card directly, no stack: the sender must not be what is measured
//! * [`kernel`]: over a kernel socket
//! * [`link`]: veth, memif, or a pair with the server at its other end

pub mod frame;
pub mod kernel;
pub mod link;
pub mod native;
pub mod window;

use super::figures::{Latency, OpenLoop};
use super::http::LoadError;
use crate::machine::CpuTimes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use window::Mark;

/// Most datagrams on their way at once.
pub const WINDOW_MAX: usize = 1 << 16;

/// What is sent, and what counts as its answer.
pub trait Traffic {
    /// Decides what is sent as `mark`: its payload's length, bytes.
    fn prepare(&mut self, mark: Mark) -> usize;

    /// Writes that payload; returns its checksum's sum.
    fn write(&mut self, mark: Mark, payload: &mut [u8]) -> u16;

    /// Judges a payload that came from the target.
    fn read(&mut self, payload: &[u8]) -> Incoming;

    /// Whether counting may begin when the warm-up is over.
    fn is_ready(&self) -> bool {
        true
    }

    /// The window begins: counts so far were the warm-up's.
    fn begin(&mut self) {}
}

/// What a payload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// The answer to what was sent as this mark, if it still waits.
    Answer(Mark),
    /// Late, or not ours.
    Foreign,
    /// Counted by the traffic itself.
    Wrong,
}

/// How many at once, how fast, how long.
#[derive(Clone, Debug)]
pub struct Pace {
    /// On their way at once; in an open loop the most there may be.
    pub window: usize,
    /// Open loop: so many a second, due at even intervals.
    pub rate_per_s: Option<f64>,
    /// How long to count.
    pub duration: Duration,
    /// How long to load before counting.
    pub warm_up: Duration,
    /// What isn't back by then is lost.
    pub timeout: Duration,
    /// A process whose CPU time to report.
    pub watch_process: Option<u32>,
    /// Sleep while nothing has come, instead of polling (in a closed loop).
    pub sleeps: bool,
}

impl Default for Pace {
    /// One after the other, for three seconds.
    fn default() -> Pace {
        Pace {
            window: 1,
            rate_per_s: None,
            duration: Duration::from_secs(3),
            warm_up: Duration::from_millis(300),
            timeout: Duration::from_millis(200),
            watch_process: None,
            sleeps: false,
        }
    }
}

impl Pace {
    /// Refuses what can't be done.
    ///
    /// # Errors
    /// [`LoadError::Option`], with what may be.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |message: String| Err(LoadError::Option(message));
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return wrong(format!("--window {}: from 1 to {WINDOW_MAX}", self.window));
        }
        if self.rate_per_s.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            return wrong("--rate: a positive number per second, at most a thousand million".to_owned());
        }
        if self.sleeps && self.rate_per_s.is_some() {
            return wrong("--sleep: an open loop has no time to sleep; leave out --rate".to_owned());
        }
        Ok(())
    }
}

/// Live figures.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TripFigures {
    /// Back in the last second.
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
    /// Sent.
    pub sent: u64,
    /// Back.
    pub received: u64,
    /// Not back in time.
    pub lost: u64,
    /// Back late, twice, or not ours.
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
    /// Back per second.
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
