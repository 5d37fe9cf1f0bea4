//! How long tests wait.

use std::time::{Duration, Instant};

/// How long whatever must happen may take, at least: the machine may have much else to do. A test that fails does so later because of
/// it; a test that passes does not take longer.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `ready` says so.
///
/// # Panics
/// After `patience`, and [`PATIENCE`], naming `what`.
pub fn eventually(what: &str, patience: Duration, mut ready: impl FnMut() -> bool) {
    let (start, patience) = (Instant::now(), patience.max(PATIENCE));
    while !ready() {
        assert!(start.elapsed() < patience, "{what}: not within {patience:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
