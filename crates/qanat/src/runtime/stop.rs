//! A request to stop.

use crate::wait_set::Doorbell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    requested: Arc<AtomicBool>,
    doorbell: Doorbell,
}

impl StopHandle {
    /// A handle on which nobody has asked for a stop yet.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new() -> io::Result<StopHandle> {
        Ok(StopHandle { requested: Arc::new(AtomicBool::new(false)), doorbell: Doorbell::new()? })
    }

    /// Asks the runtime to stop gracefully.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        self.doorbell.ring();
    }

    /// Whether stopping was asked for.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// Readable when stopping was asked for, until [`silence`](StopHandle::silence).
    pub(crate) fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    pub(crate) fn silence(&self) {
        self.doorbell.take();
    }
}
