//! For x86-64 (System V ABI, and Linux' system calls).

use std::arch::asm;

/// What the kernel answers; an error is negative.
///
/// # Safety
/// As that system call demands.
pub(crate) unsafe fn system_call(number: i64, [a, b, c, d, e]: [usize; 5]) -> isize {
    let answer: isize;
    // SAFETY: the arguments are what the system call demands: this function's condition. The kernel changes these registers and no others.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => answer, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, out("rcx") _, out("r11") _, options(nostack));
    }
    answer
}

/// Where the dynamic linker begins when it runs this library: the stack holds how many arguments there are, and behind that these.
macro_rules! enter {
    ($begin:ident) => {
        core::arch::naked_asm!(
            "mov rdi, [rsp]",
            "lea rsi, [rsp + 8]",
            "xor ebp, ebp",
            "and rsp, -16",
            "call {begin}",
            "ud2",
            begin = sym $begin,
        )
    };
}

/// Arguments behind the first one, all pointers: those in registers are put before those on the stack, and make an array with them.
macro_rules! as_array {
    ($function:ident) => {
        core::arch::naked_asm!(
            "pop rax",
            "push r9",
            "push r8",
            "push rcx",
            "push rdx",
            "push rsi",
            "mov rsi, rsp",
            "push rax",
            // The stack was aligned before the return address, and is now: that, and five arguments.
            "call {function}",
            "pop rcx",
            "add rsp, 40",
            "push rcx",
            "ret",
            function = sym $function,
        )
    };
}

/// Puts the arguments where `va_arg` finds them (System V ABI for x86-64, section 3.5.7), of a function with so many fixed ones, of which
/// the last one is a format.
macro_rules! with_list {
    ($print:ident, 2) => {
        $crate::arch::with_list!($print, "16", "rsi")
    };
    ($print:ident, 3) => {
        $crate::arch::with_list!($print, "24", "rdx")
    };
    // Bytes of the register save area that the fixed ones take, and the register of the format.
    ($print:ident, $fixed:literal, $format:literal) => {
        core::arch::naked_asm!(
            "sub rsp, 0xd8",
            "mov [rsp + 0x30], rdx",
            "mov [rsp + 0x38], rcx",
            "mov [rsp + 0x40], r8",
            "mov [rsp + 0x48], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 0x50], xmm0",
            "movaps [rsp + 0x60], xmm1",
            "movaps [rsp + 0x70], xmm2",
            "movaps [rsp + 0x80], xmm3",
            "movaps [rsp + 0x90], xmm4",
            "movaps [rsp + 0xa0], xmm5",
            "movaps [rsp + 0xb0], xmm6",
            "movaps [rsp + 0xc0], xmm7",
            "2:",
            concat!("mov rsi, ", $format),
            concat!("mov dword ptr [rsp + 0x8], ", $fixed),
            "mov dword ptr [rsp + 0xc], 48",
            "lea rax, [rsp + 0xe0]",
            "mov [rsp + 0x10], rax",
            "lea rax, [rsp + 0x20]",
            "mov [rsp + 0x18], rax",
            "lea rdx, [rsp + 0x8]",
            "call {print}",
            "add rsp, 0xd8",
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
            "cmp rdi, {number_of_close}",
            "je 7f",
            "cmp rdi, {number_of_sendmmsg}",
            "je 2f",
            "cmp rdi, {number_of_recvmmsg}",
            "je 3f",
            "cmp rdi, {number_of_io_uring_setup}",
            "je 4f",
            // Those that give up rights, one by one: a table would be data among the code.
            "cmp rdi, {n0}; je 8f; cmp rdi, {n1}; je 8f",
            "cmp rdi, {n2}; je 8f; cmp rdi, {n3}; je 8f",
            "cmp rdi, {n4}; je 8f; cmp rdi, {n5}; je 8f",
            "cmp rdi, {n6}; je 8f; cmp rdi, {n7}; je 8f",
            "cmp rdi, {n8}; je 8f; cmp rdi, {n9}; je 8f",
            "cmp rdi, {n10}; je 8f; cmp rdi, {n11}; je 8f",
            "cmp rdi, {n12}; je 8f; cmp rdi, {n13}; je 8f",
            // The kernel has its arguments in other registers than functions.
            "mov rax, rdi",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "mov rdx, rcx",
            "mov r10, r8",
            "mov r8, r9",
            "mov r9, [rsp + 8]",
            "syscall",
            "cmp rax, -4095",
            "jae 5f",
            "ret",
            // Its arguments are where a function has them.
            "8:",
            "jmp {by_number}@PLT",
            "2:",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "mov rdx, rcx",
            "mov rcx, r8",
            "sub rsp, 8",
            "call {sendmmsg}@PLT",
            "jmp 6f",
            "3:",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "mov rdx, rcx",
            "mov rcx, r8",
            "mov r8, r9",
            "sub rsp, 8",
            "call {recvmmsg}@PLT",
            "jmp 6f",
            "7:",
            "mov rdi, rsi",
            "sub rsp, 8",
            "call {close}@PLT",
            "jmp 6f",
            "4:",
            "sub rsp, 8",
            "call {refuse_io_uring}@PLT",
            // They give an `int`, and it is asked for a `long`.
            "6:",
            "cdqe",
            "add rsp, 8",
            "ret",
            "5:",
            "neg rax",
            "push rax",
            "call __errno_location@PLT",
            "pop rcx",
            "mov [rax], ecx",
            "mov rax, -1",
            "ret",
            $($operands)*
        )
    };
}

pub(crate) use {as_array, by_number, enter, with_list};
