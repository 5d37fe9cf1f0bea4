//! [`Batch`]: the frames of one call, in memory that a sender shares with the program which injects them.

use super::config::LINK_HEADER_MAX;
use crate::base::place;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// Frames of one call.
pub(super) const BATCH_FRAMES_MAX: usize = 256;
/// Longest frame.
pub(super) const FRAME_BYTES_MAX: usize = 1536;
/// Shortest frame: an Ethernet header.
pub(super) const FRAME_BYTES_MIN: usize = 14;
/// An odd number of cache lines: the first lines of all slots are in different sets of the cache.
const SLOT_BYTES: usize = 1600;

/// Twin of `struct token`: what is before the frame that a run starts with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) row: u32,
    pub(super) reserved: u32,
    pub(super) key: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) bytes: [u8; SLOT_BYTES],
}

/// Twin of `struct batch`.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) key: [u64; 2],
    pub(super) row: u32,
    pub(super) next: u32,
    pub(super) count: u32,
    reserved: [u32; 9],
    pub(super) lengths: [u16; BATCH_FRAMES_MAX],
    pub(super) slots: [Slot; BATCH_FRAMES_MAX],
}

/// Whether all packets of a link with this MTU are short enough, a VLAN's tag included.
pub const fn is_injectable(mtu: u32) -> bool {
    mtu as usize + LINK_HEADER_MAX as usize <= FRAME_BYTES_MAX
}

pub(super) fn map_batch(map: BorrowedFd<'_>) -> io::Result<NonNull<Batch>> {
    // The value of a map of one such value. A descriptor of anything smaller is refused, or faults when used: the control plane
    // is trusted.
    let address = place::map(map, 0, size_of::<Batch>(), 0)?;
    NonNull::new(address.cast::<Batch>()).ok_or_else(|| io::Error::other("mmap returned null"))
}

/// Ends a mapping of [`map_batch`]'s, to which nothing refers any more.
pub(super) fn unmap_batch(batch: NonNull<Batch>) {
    // SAFETY: of this length; the caller has it of `map_batch`.
    unsafe { libc::munmap(batch.as_ptr().cast(), size_of::<Batch>()) };
}
