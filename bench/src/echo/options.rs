//! What the echo's tables measure, and how long.

use crate::harness::options::BenchOptions;
use std::time::Duration;

/// The links there is a table for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BenchLink {
    /// Two kernels' ends, AF_XDP at ours.
    Veth,
    /// Shared memory between two processes.
    Memif,
    /// Memory between two threads.
    Pair,
}

impl BenchLink {
    pub(super) fn name(self) -> &'static str {
        match self {
            BenchLink::Veth => "veth",
            BenchLink::Memif => "memif",
            BenchLink::Pair => "pair",
        }
    }
}

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct EchoBenchOptions {
    /// What every table understands; the program runs the children.
    pub common: BenchOptions,
    /// The link.
    pub link: BenchLink,
    /// Processor of the echo.
    pub server_cpu: usize,
    /// Processor of the load.
    pub client_cpu: usize,
}

impl EchoBenchOptions {
    /// The full table over `link`, the echo on processor 0, the load on 1.
    pub fn new(common: BenchOptions, link: BenchLink) -> EchoBenchOptions {
        EchoBenchOptions { common, link, server_cpu: 0, client_cpu: 1 }
    }

    pub(super) fn duration(&self) -> Duration {
        self.common.duration(Duration::from_secs(1), Duration::from_millis(400))
    }
}
