//! Tells of a split service's net cores as they go and come back.

use crate::host::addresses::names;
use crate::log;
use qanat::split::{PATIENCE, SplitRuntime};
use std::time::Instant;

/// Tells of a split service's net cores that are gone, and are there again.
pub struct NetCoreWatch {
    lost: u64,
    /// Since when some are missing.
    missing_since: Option<Instant>,
}

impl NetCoreWatch {
    pub fn new() -> NetCoreWatch {
        NetCoreWatch { lost: 0, missing_since: None }
    }

    /// Tells what is new since the last call.
    pub fn show(&mut self, runtime: &SplitRuntime) {
        let lost = runtime.figures().net_cores_lost;
        let (there, all) = (runtime.net_cores(), runtime.net_cores_wanted());
        if lost > self.lost && self.missing_since.is_none() {
            self.missing_since = Some(Instant::now());
            log::warning!(
                "net-core-lost",
                "a net core of {} is gone, with the connections there; waiting for the next, at most {} s",
                names(&runtime.addresses()),
                PATIENCE.as_secs()
            );
        }
        self.lost = lost;
        if let Some(since) = self.missing_since.filter(|_| there == all) {
            log::info!(
                "net-core-back",
                "{} has a net core again, after {:.1} s",
                names(&runtime.addresses()),
                since.elapsed().as_secs_f64()
            );
            self.missing_since = None;
        }
    }
}
