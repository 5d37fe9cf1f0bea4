//! Memory files: made by the net core with their size sealed, so that nobody can pull mapped memory away; mapped by either
//! side with the access it is to have.

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// How a mapping may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Nothing here writes.
    Read,
    /// Both sides write.
    ReadWrite,
}

/// A mapped memory file.
pub struct SharedMemory {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to no thread; what is in it is reached by atomics, or as bytes of which nothing is assumed.
unsafe impl Send for SharedMemory {}
// SAFETY: as for `Send`: threads that share it reach what is in it by atomics, or as bytes of which nothing is assumed.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// A new memory file of `length` zero bytes, allocated and of sealed size.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create(length: usize) -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::NOEXEC_SEAL;
        let file = rustix::fs::memfd_create(c"qanat-split", flags)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        // Allocated now: a page that could not be had later would be a signal for the thread that touches it.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    }

    /// Maps the first `length` bytes of a memory file.
    ///
    /// # Errors
    /// `InvalidData` if it is shorter, or can be made so; else what the kernel says.
    pub fn map(file: BorrowedFd<'_>, length: usize, access: Access) -> io::Result<SharedMemory> {
        check_sealed(file, length)?;
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping at an address of the kernel's choice; the file cannot shrink under it.
        let address = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
        // SAFETY: the mapping just made. It is advice only, so an error doesn't matter.
        let _ = unsafe { rustix::mm::madvise(address, length, Advice::LinuxDontDump) };
        let base = NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(SharedMemory { base, length })
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length; what refers into it holds this object.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// The bytes as they are when they are read. The other process may be writing them: **what is read is not to be believed
/// and not to be read twice for one decision**. The stack only copies payload from here into frames of its own and sums what
/// it copies; bytes that change meanwhile make a wrong checksum for their own sender's peer, and nothing else. (Rust gives no
/// meaning to bytes that change behind a shared slice. Nothing branches on their values, so there is nothing a compiler could
/// derive from reading them twice; as with memory a device writes.)
impl AsRef<[u8]> for SharedMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the mapping is readable in its whole length as long as `self` lives; the comment above says what else writes to it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.length) }
    }
}

/// A handle that keeps the mapping.
pub(crate) type Shared = Arc<SharedMemory>;

fn check_sealed(file: BorrowedFd<'_>, length: usize) -> io::Result<()> {
    let refused = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidData, text.to_owned()));
    if !rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return refused("shared memory that is no memory file sealed against shrinking");
    }
    let size = rustix::fs::fstat(file)?.st_size;
    if length == 0 || u64::try_from(size).unwrap_or(0) < length as u64 {
        return refused("shared memory shorter than said");
    }
    Ok(())
}
