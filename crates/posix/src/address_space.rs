//! How much address space a process needs that has a stack of its own. Memory is used as it is touched; addresses are set aside before.
//! The launcher shares this file.

/// The shared memory's reservation, that of the device, and what a small program has itself.
pub(crate) const ADDRESS_SPACE_MIN: u64 = 5 << 30;

/// What to say if the limit on address space is too low.
pub(crate) fn shortage_of(limit: u64) -> String {
    format!(
        "a program under `qanat run` needs {} GiB of address space, of which it uses little as memory, and this one may have {} MiB: \
         lift the limit before the program starts, `ulimit -v unlimited` (LimitAS=infinity in a unit); what bounds memory itself is \
         a control group's limit (MemoryMax= in a unit)",
        ADDRESS_SPACE_MIN >> 30,
        limit >> 20
    )
}
