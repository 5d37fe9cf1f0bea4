//! A queue that another process goes on with: what it must know of it, and which descriptors it needs.

use crate::memory::{Frame, Pool};
use crate::snapshot::Place;
use crate::statistics::VnicStatistics;
use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;

/// A driver whose queues can go over to another process.
pub trait Migrate {
    /// What the next process must know, within [`snapshot::writing`](crate::snapshot::writing) when all others have written what
    /// they hold. `missing` names the frames of the pool with this number that nobody has; the receive pool must be number 0.
    ///
    /// # Errors
    /// Why the queue can't be handed on now.
    fn export(&self, missing: &dyn Fn(usize) -> Vec<u32>) -> Result<ExportedQueue<'_>, ExportError>;

    /// The pool received frames come from. Those lent to the device count as in use.
    fn receive_pool(&self) -> &Pool;

    /// Its descriptors, in the order in which they travel.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
}

/// What a queue's next process must know of it, as it is written.
#[derive(Serialize)]
pub struct ExportedQueue<'a> {
    pub(crate) in_flight: Vec<&'a Frame>,
    pub(crate) lent: Vec<Place>,
    pub(crate) statistics: VnicStatistics,
}

/// What a queue's next process must know of it, as it is read.
#[derive(Deserialize)]
pub struct ImportedQueue {
    pub(crate) in_flight: Vec<Frame>,
    pub(crate) lent: Vec<Frame>,
    pub(crate) statistics: VnicStatistics,
}

/// Why a queue can't be handed on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// A packet is not wholly queued.
    #[error("a packet is only half queued")]
    HalfQueued,
    /// Frames have been lost.
    #[error("{nobodys} received frames are nobody's, and the device has {lent}")]
    FramesLost {
        /// Received frames that nobody has.
        nobodys: usize,
        /// Frames that the device has.
        lent: u32,
    },
}
