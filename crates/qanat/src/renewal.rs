//! [`Renewal`]: where the next queue pair of an area comes from when one is lost.

use qanat_disk::Vsic;
use qanat_nic::Pool;
use std::os::fd::BorrowedFd;

/// A queue pair, and the buffers that it transfers to and from.
pub type QueuePair = (Box<dyn Vsic>, Pool);

/// Has the next queue pair when one is lost, as by the death of a disk core. It is used on the thread that runs the service.
pub trait Renewal {
    /// The queue pair is lost: sees to the next. Never blocks. It is called once for each that is lost.
    fn begin(&mut self);

    /// The next queue pair, once there is one. Blocks no longer than bringing it up takes.
    fn next(&mut self) -> Option<QueuePair>;

    /// Polls readable when [`next`](Renewal::next) may have one.
    fn doorbell(&self) -> BorrowedFd<'_>;
}
