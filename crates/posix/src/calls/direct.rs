//! `syscall`: system calls that programs make by their number, as libuv does to close descriptors. Calls that take sockets of ours are
//! ours. All others are the kernel's, with the registers and the stack as the C library's function leaves them (a `clone` returns twice
//! from it).

use super::close::close;
use super::give_int;
use crate::arch;
use crate::calls::program::credentials::{NUMBERS, by_number};
use crate::calls::transfer::receive::recvmmsg;
use crate::calls::transfer::send::sendmmsg;
use crate::sys::explain::explain;
use rustix::io::Errno;

/// The kernel would do its operations, also on our sockets. Programs that ask for it without need (libuv, for `epoll`) do without.
extern "C" fn refuse_io_uring() -> i32 {
    explain(format_args!("io_uring_setup: refused (ENOSYS), as it would not know of our sockets"));
    give_int(Err(Errno::NOSYS))
}

/// # Safety
/// As `syscall`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    arch::by_number!(
        n0 = const NUMBERS[0],
        n1 = const NUMBERS[1],
        n2 = const NUMBERS[2],
        n3 = const NUMBERS[3],
        n4 = const NUMBERS[4],
        n5 = const NUMBERS[5],
        n6 = const NUMBERS[6],
        n7 = const NUMBERS[7],
        n8 = const NUMBERS[8],
        n9 = const NUMBERS[9],
        n10 = const NUMBERS[10],
        n11 = const NUMBERS[11],
        n12 = const NUMBERS[12],
        n13 = const NUMBERS[13],
        by_number = sym by_number,
        number_of_close = const libc::SYS_close,
        number_of_sendmmsg = const libc::SYS_sendmmsg,
        number_of_recvmmsg = const libc::SYS_recvmmsg,
        number_of_io_uring_setup = const libc::SYS_io_uring_setup,
        close = sym close,
        sendmmsg = sym sendmmsg,
        recvmmsg = sym recvmmsg,
        refuse_io_uring = sym refuse_io_uring,
    )
}

/// liburing's way to its rings, for which it makes system calls itself: a program that asks is refused here as it is by [`syscall`],
/// rather than by each operation on a socket of ours.
#[unsafe(no_mangle)]
extern "C" fn io_uring_queue_init() -> i32 {
    refuse_io_uring();
    // Its functions give the error itself.
    -libc::ENOSYS
}

#[unsafe(no_mangle)]
extern "C" fn io_uring_queue_init_params() -> i32 {
    io_uring_queue_init()
}
