//! Shared memory: regions, and the rings in them. Whatever is read here was written by a peer who may lie, at any time:
//! it is copied first and checked then, never read twice.

use super::error::MemifError;
use crate::base::memory_file;
use rustix::fs::SealFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// Marks a ring.
const COOKIE: u32 = 0x3E3_1F20;
/// Bytes of a ring before its descriptors.
const RING_HEADER_LENGTH: usize = 128;
const DESCRIPTOR_LENGTH: usize = 16;
/// Offsets within a ring's header.
const FLAGS_OFFSET: usize = 4;
const HEAD_OFFSET: usize = 6;
const TAIL_OFFSET: usize = 64;
/// The consumer polls: no interrupt, please.
const RING_FLAG_MASK_INTERRUPT: u16 = 1;
/// The packet goes on in the next descriptor.
const DESCRIPTOR_FLAG_NEXT: u16 = 1;
/// Largest ring: DPDK's limit.
pub(super) const LOG2_RING_SIZE_MAX: u8 = 14;

/// A mapped region of shared memory.
pub(super) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to no thread, and is only accessed through raw pointers by those who have checked that a
// range of it is theirs.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; no method gives out a reference to the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn map(file: BorrowedFd<'_>, length: usize) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
        // SAFETY: the mapping just made. It is advice only, so an error doesn't matter.
        let _ = unsafe { rustix::mm::madvise(address, length, Advice::LinuxDontDump) };
        let base = NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Mapping { base, length })
    }

    /// A region of our own, zeroed, its size sealed.
    pub(super) fn create(length: usize) -> io::Result<(Mapping, OwnedFd)> {
        let file = memory_file::create(c"qanat-memif")?;
        memory_file::set_length(file.as_fd(), length)?;
        memory_file::seal(file.as_fd(), memory_file::SIZE | SealFlags::SEAL)?;
        Ok((Mapping::map(file.as_fd(), length)?, file))
    }

    /// A peer's region, said to be of `length` bytes. Only a memory file that can't shrink is taken: what is cut off a
    /// mapped file raises SIGBUS when it is touched, and that must not be the peer's choice. Nor are huge pages taken:
    /// a hole punched in them may find none left to fill it.
    pub(super) fn of_peer(file: &OwnedFd, length: u64, length_max: u64) -> Result<Mapping, MemifError> {
        if length == 0 || length > length_max {
            return Err(MemifError::refused(format!("a region of {length} bytes (at most {length_max} in all)")));
        }
        if !memory_file::is_of_lasting_size(file.as_fd()) {
            return Err(MemifError::refused("a region that is no memory file sealed against shrinking"));
        }
        let size = memory_file::length(file.as_fd()).unwrap_or(0);
        if size < length {
            return Err(MemifError::refused(format!("a region of {length} bytes in a file of {size}")));
        }
        if !rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type == libc::TMPFS_MAGIC) {
            return Err(MemifError::refused("a region that is not of ordinary pages"));
        }
        let length = usize::try_from(length).map_err(|_| MemifError::refused("a region beyond the address space"))?;
        Mapping::map(file.as_fd(), length).map_err(|error| MemifError::system("map the peer's region", error))
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The `length` bytes at `offset`, if they are all within.
    #[inline]
    pub(super) fn range(&self, offset: u32, length: u32) -> Option<NonNull<u8>> {
        let end = u64::from(offset) + u64::from(length);
        // SAFETY: offset ≤ end ≤ length of the mapping.
        (end <= self.length as u64).then(|| unsafe { self.base.add(offset as usize) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `map` with this length; every holder of pointers into it, a `SharedRing` or a queue, has an Arc of it.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Copies `length` bytes. Most packets are small: up to 128 bytes by moves of a fixed size, the last of which may overlap the one
/// before it, which costs less than calling `memcpy` for them.
///
/// # Safety
/// `length` bytes at `from` are readable, as many at `to` are writable, and the two don't overlap, as for
/// [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    type Block = [u8; 32];
    const BLOCK: usize = size_of::<Block>();
    if !(BLOCK..=4 * BLOCK).contains(&length) {
        // SAFETY: `length` bytes at `from` are readable and at `to` writable, and the two don't overlap: the function's contract.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, length) };
    }
    let last = length - BLOCK;
    // SAFETY: each block is within the `length` bytes, all of which are readable and writable by the function's contract; the accesses
    // need no alignment.
    let block = |at: usize| unsafe {
        to.add(at).cast::<Block>().write_unaligned(from.add(at).cast::<Block>().read_unaligned())
    };
    block(0);
    if length > 2 * BLOCK {
        block(BLOCK);
        block(last.saturating_sub(BLOCK));
    }
    block(last);
}

/// A descriptor, copied out of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Descriptor {
    pub(super) continues: bool,
    pub(super) region: u16,
    pub(super) length: u32,
    pub(super) offset: u32,
}

/// Bytes of a ring of 2^`log2_size` descriptors, a multiple of 128.
pub(super) fn ring_length(log2_size: u8) -> usize {
    RING_HEADER_LENGTH + (DESCRIPTOR_LENGTH << log2_size).next_multiple_of(128)
}

/// A ring in shared memory. Both ends hold one. The queue decides which end produces and which consumes.
pub(super) struct SharedRing {
    mapping: Arc<Mapping>,
    header: NonNull<u8>,
    mask: u16,
}

// SAFETY: all access is by atomics and volatile copies.
unsafe impl Send for SharedRing {}

impl SharedRing {
    /// The ring of 2^`log2_size` descriptors at `offset` of a region.
    pub(super) fn new(mapping: Arc<Mapping>, offset: u32, log2_size: u8) -> Result<SharedRing, MemifError> {
        if log2_size > LOG2_RING_SIZE_MAX {
            return Err(MemifError::refused(format!("a ring of 2^{log2_size} descriptors")));
        }
        let length = (RING_HEADER_LENGTH + (DESCRIPTOR_LENGTH << log2_size)) as u32;
        let header = mapping.range(offset, length).filter(|header| header.addr().get().is_multiple_of(16));
        let header = header.ok_or_else(|| MemifError::refused(format!("a ring at {offset} of its region")))?;
        Ok(SharedRing { mapping, header, mask: ((1u32 << log2_size) - 1) as u16 })
    }

    /// Marks it as a ring, empty. Only the slave, whose memory it is, and only before it is announced.
    pub(super) fn initialise(&self) {
        self.cookie().store(COOKIE, Ordering::Relaxed);
        self.flags().store(RING_FLAG_MASK_INTERRUPT, Ordering::Relaxed);
        self.head().store(0, Ordering::Relaxed);
        self.tail().store(0, Ordering::Release);
    }

    pub(super) fn has_cookie(&self) -> bool {
        self.cookie().load(Ordering::Relaxed) == COOKIE
    }

    /// Descriptors.
    #[inline]
    pub(super) fn size(&self) -> u16 {
        self.mask + 1
    }

    #[inline]
    pub(super) fn slot(&self, position: u16) -> usize {
        usize::from(position & self.mask)
    }

    #[inline]
    fn field(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: within the header, which lies within the mapping and is aligned to 16; atomics may be shared with
        // the peer, which writes there too. The mapping lives as long as self.
        unsafe { self.header.add(offset).cast::<AtomicU16>().as_ref() }
    }

    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: as in `field`.
        unsafe { self.header.cast::<AtomicU32>().as_ref() }
    }

    fn flags(&self) -> &AtomicU16 {
        self.field(FLAGS_OFFSET)
    }

    /// Next descriptor the slave will hand over (packets to the master, or empty buffers from the slave).
    #[inline]
    pub(super) fn head(&self) -> &AtomicU16 {
        self.field(HEAD_OFFSET)
    }

    /// Next descriptor the master will hand back.
    #[inline]
    pub(super) fn tail(&self) -> &AtomicU16 {
        self.field(TAIL_OFFSET)
    }

    /// Whether the consumer wants no interrupts.
    #[inline]
    pub(super) fn is_masked(&self) -> bool {
        self.flags().load(Ordering::Relaxed) & RING_FLAG_MASK_INTERRUPT != 0
    }

    /// The consumer says whether it wants interrupts.
    pub(super) fn set_masked(&self, masked: bool) {
        self.flags().store(if masked { RING_FLAG_MASK_INTERRUPT } else { 0 }, Ordering::Relaxed);
    }

    #[inline]
    fn descriptor(&self, position: u16) -> NonNull<[u32; 4]> {
        // SAFETY: the slot is masked, so the descriptor lies within the ring, whose extent was checked.
        unsafe { self.header.add(RING_HEADER_LENGTH + self.slot(position) * DESCRIPTOR_LENGTH).cast() }
    }

    /// A copy of the descriptor at `position`, made once: whatever the peer writes later changes nothing.
    #[inline]
    pub(super) fn read(&self, position: u16) -> Descriptor {
        // SAFETY: within the ring and aligned to 16. Volatile: one read, never repeated by the compiler. That the peer may
        // write meanwhile can only tear the value, and any value is checked before it is used.
        let [flags_region, length, offset, _] = unsafe { self.descriptor(position).read_volatile() };
        Descriptor {
            continues: flags_region as u16 & DESCRIPTOR_FLAG_NEXT != 0,
            region: (flags_region >> 16) as u16,
            length,
            offset,
        }
    }

    /// Writes the descriptor at `position`, which must be this end's at the moment.
    #[inline]
    pub(super) fn write(&self, position: u16, descriptor: Descriptor) {
        let flags = if descriptor.continues { DESCRIPTOR_FLAG_NEXT } else { 0 };
        let words = [u32::from(flags) | u32::from(descriptor.region) << 16, descriptor.length, descriptor.offset, 0];
        // SAFETY: as in `read`.
        unsafe { self.descriptor(position).write_volatile(words) };
    }

    /// Keeps the region alive.
    #[allow(dead_code, reason = "for tests that lie about regions")]
    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}
