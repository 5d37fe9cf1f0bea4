//! Memory files: memory that another process can be given. Their size is sealed, because what is cut off a mapped file raises SIGBUS when
//! it is touched.

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// An empty memory file, which may be sealed.
pub(crate) fn create(name: &CStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)
}

/// Makes it `length` bytes long, all of them zero. Pages are allocated when they are touched.
pub(crate) fn set_length(file: BorrowedFd<'_>, length: usize) -> io::Result<()> {
    Ok(rustix::fs::ftruncate(file, length as u64)?)
}

/// The same, with all pages allocated. The calling process is charged for them.
pub(crate) fn allocate(file: BorrowedFd<'_>, length: usize) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length as u64)?)
}

/// Forbids something for good.
pub(crate) fn seal(file: BorrowedFd<'_>, seals: SealFlags) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, seals)?)
}

/// What keeps a file's size as it is.
pub(crate) const SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Whether it is a memory file that can't shrink.
pub(crate) fn is_of_lasting_size(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Its length in bytes.
pub(crate) fn length(file: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}
