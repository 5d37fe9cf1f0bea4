//! What this process has of the kernel's and the C library's: the functions behind ours, raw system calls, descriptors, the arena.

pub(crate) mod address;
pub(crate) mod arena;
pub(crate) mod bells;
pub(crate) mod class;
pub(crate) mod descriptor;
pub(crate) mod explain;
pub(crate) mod identity;
pub(crate) mod libc_next;
pub(crate) mod local;
pub(crate) mod lock_word;
pub(crate) mod memory_limits;
pub(crate) mod numbers;
pub(crate) mod page;
pub(crate) mod raised_limits;
pub(crate) mod raw;
pub(crate) mod target;
pub(crate) mod watchdog;
