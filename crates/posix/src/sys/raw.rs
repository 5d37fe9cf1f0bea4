//! System calls without the C library, which has all threads of a process take part in some of them.

use crate::arch;

/// A system call and its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [usize; 5],
}

impl Call {
    pub(crate) const fn new(number: i64, arguments: [usize; 5]) -> Call {
        Call { number, arguments }
    }
}

/// What the kernel answers; an error is negative.
///
/// # Safety
/// As that system call demands.
pub(crate) unsafe fn call(call: &Call) -> isize {
    // SAFETY: the arguments are what the system call demands: this function's condition.
    unsafe { arch::system_call(call.number, call.arguments) }
}
