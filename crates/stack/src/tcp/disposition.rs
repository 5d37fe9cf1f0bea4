//! What a call of a connection asks of the stack.

use crate::tcp::time_wait::TimeWait;

/// What becomes of the connection after a call. Whenever it is not to be kept, `Event::Closed` has been pushed.
#[derive(Debug)]
#[must_use]
pub enum Disposition {
    /// It lives on.
    Keep,
    /// It is over: free its slot.
    Remove,
    /// It is over for the service; keep this for the old duplicates.
    TimeWait(TimeWait),
    /// It lives on; answer this segment with [`reset_for`](crate::tcp::reset_for).
    Reset,
    /// It is over; answer this segment with [`reset_for`](crate::tcp::reset_for).
    ResetAndRemove,
}
