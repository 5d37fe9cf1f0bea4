//! For ARM64 (AAPCS64, and Linux' system calls).

use std::arch::asm;

/// What the kernel answers; an error is negative.
///
/// # Safety
/// As that system call demands.
pub(crate) unsafe fn system_call(number: i64, [a, b, c, d, e]: [usize; 5]) -> isize {
    let answer: isize;
    // SAFETY: the arguments are what the system call demands: this function's condition. The kernel changes this register and no others.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a as isize => answer, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            options(nostack));
    }
    answer
}

/// Where the dynamic linker begins when it runs this library: the stack holds how many arguments there are, and behind that these.
macro_rules! enter {
    ($begin:ident) => {
        core::arch::naked_asm!(
            "ldr x0, [sp]",
            "add x1, sp, #8",
            "mov x29, xzr",
            "mov x30, xzr",
            "bl {begin}",
            "brk #1",
            begin = sym $begin,
        )
    };
}

/// Arguments behind the first one, all pointers: those in registers are put before those on the stack, and make an array with them.
macro_rules! as_array {
    ($function:ident) => {
        core::arch::naked_asm!(
            // Seven arguments end where the stack's begin, and the stack stays aligned.
            "sub sp, sp, #80",
            "stp x29, x30, [sp]",
            "mov x29, sp",
            "str x1, [sp, #24]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "add x1, sp, #24",
            "bl {function}",
            "ldp x29, x30, [sp]",
            "add sp, sp, #80",
            "ret",
            function = sym $function,
        )
    };
}

/// Puts the arguments where `va_arg` finds them (AAPCS64, appendix B), of a function with so many fixed ones, of which the last one is a
/// format. A list is given to functions by its address.
macro_rules! with_list {
    ($print:ident, 2) => {
        $crate::arch::with_list!($print, "48", "x1")
    };
    ($print:ident, 3) => {
        $crate::arch::with_list!($print, "40", "x2")
    };
    // Bytes of the general registers that are left, and the register of the format.
    ($print:ident, $left:literal, $format:literal) => {
        core::arch::naked_asm!(
            "sub sp, sp, #240",
            "stp x29, x30, [sp]",
            "mov x29, sp",
            // The list is at 16, the general registers' area is from 48 to 112, the others' from there on.
            "stp x2, x3, [sp, #64]",
            "stp x4, x5, [sp, #80]",
            "stp x6, x7, [sp, #96]",
            "stp q0, q1, [sp, #112]",
            "stp q2, q3, [sp, #144]",
            "stp q4, q5, [sp, #176]",
            "stp q6, q7, [sp, #208]",
            "add x8, sp, #240",
            "str x8, [sp, #16]",
            "add x9, sp, #112",
            "str x9, [sp, #24]",
            "str x8, [sp, #32]",
            concat!("mov w9, #-", $left),
            "str w9, [sp, #40]",
            "mov w9, #-128",
            "str w9, [sp, #44]",
            concat!("mov x1, ", $format),
            "add x2, sp, #16",
            "bl {print}",
            "ldp x29, x30, [sp]",
            "add sp, sp, #240",
            "ret",
            print = sym $print,
        )
    };
}

/// `syscall`, with the numbers and the functions that are ours. All else is the kernel's, with the registers and the stack as the C
/// library's function leaves them.
macro_rules! by_number {
    ($($operands:tt)*) => {
        core::arch::naked_asm!(
            "cmp x0, {number_of_close}",
            "b.eq 7f",
            "cmp x0, {number_of_sendmmsg}",
            "b.eq 2f",
            "cmp x0, {number_of_recvmmsg}",
            "b.eq 3f",
            "cmp x0, {number_of_io_uring_setup}",
            "b.eq 4f",
            // Those that give up rights, one by one: a table would be data among the code.
            "cmp x0, {n0}", "b.eq 8f",
            "cmp x0, {n1}", "b.eq 8f",
            "cmp x0, {n2}", "b.eq 8f",
            "cmp x0, {n3}", "b.eq 8f",
            "cmp x0, {n4}", "b.eq 8f",
            "cmp x0, {n5}", "b.eq 8f",
            "cmp x0, {n6}", "b.eq 8f",
            "cmp x0, {n7}", "b.eq 8f",
            "cmp x0, {n8}", "b.eq 8f",
            "cmp x0, {n9}", "b.eq 8f",
            "cmp x0, {n10}", "b.eq 8f",
            "cmp x0, {n11}", "b.eq 8f",
            "cmp x0, {n12}", "b.eq 8f",
            "cmp x0, {n13}", "b.eq 8f",
            // The kernel has its arguments in other registers than functions.
            "mov x8, x0",
            "mov x0, x1",
            "mov x1, x2",
            "mov x2, x3",
            "mov x3, x4",
            "mov x4, x5",
            "mov x5, x6",
            "svc #0",
            "cmn x0, #4095",
            "b.hs 5f",
            "ret",
            // Its arguments are where a function has them.
            "8:",
            "b {by_number}",
            "2:",
            "mov x0, x1",
            "mov x1, x2",
            "mov x2, x3",
            "mov x3, x4",
            "stp x29, x30, [sp, #-16]!",
            "bl {sendmmsg}",
            "b 6f",
            "3:",
            "mov x0, x1",
            "mov x1, x2",
            "mov x2, x3",
            "mov x3, x4",
            "mov x4, x5",
            "stp x29, x30, [sp, #-16]!",
            "bl {recvmmsg}",
            "b 6f",
            "7:",
            "mov x0, x1",
            "stp x29, x30, [sp, #-16]!",
            "bl {close}",
            "b 6f",
            "4:",
            "stp x29, x30, [sp, #-16]!",
            "bl {refuse_io_uring}",
            // They give an `int`, and it is asked for a `long`.
            "6:",
            "sxtw x0, w0",
            "ldp x29, x30, [sp], #16",
            "ret",
            "5:",
            "neg x0, x0",
            "stp x29, x30, [sp, #-32]!",
            "str x0, [sp, #16]",
            "bl __errno_location",
            "ldr x1, [sp, #16]",
            "str w1, [x0]",
            "mov x0, #-1",
            "ldp x29, x30, [sp], #32",
            "ret",
            $($operands)*
        )
    };
}

pub(crate) use {as_array, by_number, enter, with_list};
