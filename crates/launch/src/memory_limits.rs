//! What memory a process may have at least if it has a stack of its own: addresses, and a shared file's length. Memory is used as it is
//! touched; both are set aside before.

/// The shared memory's reservation, that of the device, and what a small program has itself.
pub const ADDRESS_SPACE_MIN: u64 = 5 << 30;

/// How long the file is, of which processes share a part as memory.
pub const FILE_LENGTH: u64 = 4 << 30;

/// What to say if the limit on address space is too low.
pub fn shortage_of(limit: u64) -> String {
    format!(
        "a program under `qanat run` needs {} GiB of address space, of which it uses little as memory, and this one may have {} MiB: \
         lift the limit before the program starts, `ulimit -v unlimited` (LimitAS=infinity in a unit); what bounds memory itself is \
         a control group's limit (MemoryMax= in a unit)",
        ADDRESS_SPACE_MIN >> 30,
        limit >> 20
    )
}

/// What to say if the limit on a file's length, which the program may not raise, is too low.
pub fn file_shortage_of(limit: u64) -> String {
    format!(
        "a program under `qanat run` needs a memory file of {} GiB, of which it uses little, and this one may have files of {} KiB: \
         lift the hard limit before the program starts, `ulimit -H -f unlimited` as root (LimitFSIZE=infinity in a unit)",
        FILE_LENGTH >> 30,
        limit >> 10
    )
}
