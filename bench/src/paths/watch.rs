//! What has arrived, and whether it is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the first byte may take: handshakes may be lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Counts what arrives, and ends everybody.
#[derive(Default)]
pub(super) struct Watch {
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl Watch {
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the first byte came in time.
    pub(super) fn has_begun(&self) -> bool {
        let start = Instant::now();
        while self.bytes() == 0 {
            if start.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Mbit/s of each watch for some time from now on.
pub(super) fn rates(watches: &[&Watch], duration: Duration) -> Vec<f64> {
    let (start, before) = (Instant::now(), watches.iter().map(|watch| watch.bytes()).collect::<Vec<_>>());
    std::thread::sleep(duration);
    let seconds = start.elapsed().as_secs_f64();
    watches.iter().zip(before).map(|(watch, before)| (watch.bytes() - before) as f64 * 8e-6 / seconds).collect()
}
