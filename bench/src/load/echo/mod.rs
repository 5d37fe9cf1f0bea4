//! `qanat load udp` and `qanat load tcp`: what is sent comes back, and every round trip is timed.
//!
//! * [`window`]: what is on its way: sent when, lost when; closed loop and open loop
//! * [`packet`]: datagrams as whole frames, their checksum kept by increments
//! * [`udp`]: over a virtual card directly, no stack: the sender must not be what is measured
//! * [`kernel`]: over a kernel socket
//! * [`tcp`]: over our TCP
//! * [`link`]: veth, memif, or a pair with an echo of its own at the other end

pub mod kernel;
pub mod link;
pub mod packet;
pub mod tcp;
pub mod udp;
pub mod window;

use super::figures::{Latency, OpenLoop};
use super::http::LoadError;
use crate::machine::CpuTimes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Smallest frame: addresses, headers, our mark. (64 bytes on a wire are 60 and the check sequence.)
pub const FRAME_LENGTH_MIN: usize = 60;
/// Largest frame at an MTU of 1500.
pub const FRAME_LENGTH_MAX: usize = 1_514;
/// Most packets on their way at once.
pub const WINDOW_MAX: usize = 1 << 16;

/// What to do.
#[derive(Clone, Debug)]
pub struct EchoLoadOptions {
    /// Who echoes.
    pub target: SocketAddr,
    /// Bytes of each frame, Ethernet header included (UDP), or of each message (TCP).
    pub length: usize,
    /// Packets on their way at once (UDP), or connections (TCP); in an open loop the most there may be.
    pub window: usize,
    /// Open loop: packets a second, due at even intervals.
    pub rate_per_s: Option<f64>,
    /// How long to count.
    pub duration: Duration,
    /// How long to load before counting.
    pub warm_up: Duration,
    /// A packet not back by then is lost.
    pub timeout: Duration,
    /// A process whose CPU time to report.
    pub watch_process: Option<u32>,
    /// Sleep while nothing has come, instead of polling (UDP in a closed loop).
    pub sleeps: bool,
}

impl EchoLoadOptions {
    /// One 64-byte packet after the other to `target`, for three seconds.
    pub fn new(target: SocketAddr) -> EchoLoadOptions {
        EchoLoadOptions {
            target,
            length: 64,
            window: 1,
            rate_per_s: None,
            duration: Duration::from_secs(3),
            warm_up: Duration::from_millis(300),
            timeout: Duration::from_millis(200),
            watch_process: None,
            sleeps: false,
        }
    }

    /// Refuses what can't be done.
    ///
    /// # Errors
    /// [`LoadError::Option`], with what may be.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |message: String| Err(LoadError::Option(message));
        if !(FRAME_LENGTH_MIN..=FRAME_LENGTH_MAX).contains(&self.length) {
            return wrong(format!("--size {}: from {FRAME_LENGTH_MIN} to {FRAME_LENGTH_MAX} bytes", self.length));
        }
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return wrong(format!("--window {}: from 1 to {WINDOW_MAX}", self.window));
        }
        if self.rate_per_s.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            return wrong("--rate: a positive number of packets per second".to_owned());
        }
        if self.sleeps && self.rate_per_s.is_some() {
            return wrong("--sleep: an open loop has no time to sleep; leave out --rate".to_owned());
        }
        if self.target.is_ipv6() {
            return wrong(format!("{}: this load generator speaks IPv4", self.target));
        }
        Ok(())
    }
}

/// Live figures.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct EchoFigures {
    /// Packets back in the last second.
    pub packets_per_s: f64,
    /// Lost since the window began.
    pub lost: u64,
    /// Median round trip since the window began, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
}

/// The result. Counts are those of the window after the warm-up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EchoReport {
    /// How it was sent: `veth`, `memif`, `pair`, `kernel`, `tcp`.
    pub client: String,
    /// Who echoed.
    pub target: String,
    /// Bytes of a frame, or of a message.
    pub length: usize,
    /// Packets on their way at once.
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
    /// Back per second.
    pub packets_per_s: f64,
    /// Bytes back per second, Gbit/s.
    pub gbit_per_s: f64,
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

impl fmt::Display for EchoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} → {}: {} bytes, {} at once, {:.2} s",
            self.client, self.target, self.length, self.window, self.duration_s
        )?;
        writeln!(f, "  packets     {:.0}/s  {:.3} Gbit/s", self.packets_per_s, self.gbit_per_s)?;
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
