//! Which process or thread gets a socket's signals, as the kernel keeps it.

use crate::sockets::socket::Owner;
use crate::sys::libc_next;
use libc::{c_int, c_ulong};

/// Linux' numbers that the `libc` crate lacks.
const F_GETOWN_EX: c_int = 16;
const F_OWNER_TID: c_int = 0;
const F_OWNER_PID: c_int = 1;

/// The process or thread that the kernel's socket has its signals sent to.
pub(super) fn owner(fd: c_int) -> Owner {
    let mut owner = [F_OWNER_PID, 0];
    // SAFETY: the call writes two numbers, for which the array has room.
    let status = unsafe { libc_next::fcntl64(fd, F_GETOWN_EX, owner.as_mut_ptr().expose_provenance() as c_ulong) };
    match owner {
        _ if status != 0 => Owner::Nobody,
        [_, 0] => Owner::Nobody,
        [F_OWNER_TID, thread] => Owner::Thread(thread),
        [F_OWNER_PID, process] => Owner::Process(process),
        [_, group] => Owner::Process(-group),
    }
}
