//! This process's standing in its world, as it notes it for itself.

use rustix::io::Errno;
use std::sync::atomic::{AtomicU8, Ordering};

static STANDING: AtomicU8 = AtomicU8::new(MEMBER);
/// It has no world, or is a member of one.
const MEMBER: u8 = 0;
/// It is about to leave.
const LEAVING: u8 = 1;
/// It has left, and has a deputy there when it needs one.
const DETACHED: u8 = 2;
/// It has left for good.
const LEFT: u8 = 3;
/// The world has fallen to this process's class.
const SETTLED: u8 = 4;

fn standing() -> u8 {
    STANDING.load(Ordering::Acquire)
}

/// Whether it has left, with a deputy or for good.
pub(crate) fn is_out() -> bool {
    matches!(standing(), LEAVING | DETACHED | LEFT)
}

/// Whether the world is of this process's class, and falls no further.
pub(crate) fn is_settled() -> bool {
    standing() == SETTLED
}

/// It has fallen to this process's class: called with the lock held by the process that took it down, or by one that returns or joins.
pub(crate) fn settle() {
    STANDING.store(SETTLED, Ordering::Release);
}

/// What a call says that finds no world.
pub(crate) fn error() -> Errno {
    if matches!(standing(), MEMBER | SETTLED) { Errno::NETDOWN } else { Errno::INTR }
}

/// Whether this process is a member of its world, or has none.
pub(crate) fn is_member() -> bool {
    standing() == MEMBER
}

/// Whether it is about to leave.
pub(crate) fn is_leaving() -> bool {
    standing() == LEAVING
}

/// Whether it has left, and has a deputy there when it needs one.
#[inline]
pub(crate) fn has_left() -> bool {
    standing() == DETACHED
}

/// A member is about to leave from now on; `false`: it is none, or another thread was first.
pub(crate) fn begin_to_leave() -> bool {
    STANDING.compare_exchange(MEMBER, LEAVING, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// It has left.
pub(crate) fn set_left() {
    STANDING.store(DETACHED, Ordering::Release);
}

/// It has left for good.
pub(crate) fn set_left_for_good() {
    STANDING.store(LEFT, Ordering::Release);
}
