//! What packetdrill does to its process so that real time is exact. Time is not real here, and nothing needs privileges: a
//! real-time priority would only keep others from their work, and locked memory would be all that the library sets aside.

use libc::{c_int, pid_t, sched_param};

/// # Safety
/// As `sched_setscheduler`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sched_setscheduler(_: pid_t, _: c_int, _: *const sched_param) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn mlockall(_: c_int) -> c_int {
    0
}

/// Takes back what a packetdrill that this library was not loaded before has done.
pub(crate) fn unlock_memory() {
    // SAFETY: the call takes no pointers.
    unsafe { libc::munlockall() };
}
