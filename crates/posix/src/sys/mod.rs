//! What this process has of the kernel's and the C library's: the functions behind ours, raw system calls, descriptors, the arena.

pub(crate) mod address;
pub(crate) mod arena;
pub(crate) mod descriptor;
pub(crate) mod explain;
pub(crate) mod kernel_socket;
pub(crate) mod libc_next;
pub(crate) mod local;
pub(crate) mod lock_word;
pub(crate) mod page;
pub(crate) mod program_memory;
pub(crate) mod raised_limits;
pub(crate) mod raw;
pub(crate) mod script_time;
pub(crate) mod shared_place;
pub(crate) mod signals;
pub(crate) mod sleep;
pub(crate) mod target;
pub(crate) mod this_process;
pub(crate) mod unix_pair;
pub(crate) mod wakers;
pub(crate) mod watchdog;
pub(crate) mod wishes;
