//! System calls without the C library, which has all threads of a process take part in some of them.

use std::arch::asm;

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
    let [a, b, c, d, e] = call.arguments;
    let answer: isize;
    // SAFETY: the arguments are what the system call demands: this function's condition. The kernel changes these registers and no others.
    unsafe {
        asm!("syscall", inlateout("rax") call.number as isize => answer, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, out("rcx") _, out("r11") _, options(nostack));
    }
    answer
}
