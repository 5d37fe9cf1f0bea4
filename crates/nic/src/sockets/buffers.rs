//! [`Buffers`]: the ring of frames that the kernel may receive into (`io_uring_register_buf_ring(3)`).

use crate::memory::{Frame, Pool};
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

const PAGE_BYTES: usize = 4_096;
/// A frame's number is a buffer's, which has 16 bits.
pub(super) const FRAMES_MAX: u32 = 1 << 15;
/// Buffers that the kernel has at most. More would only be colder.
const ENTRIES_MAX: u16 = 1_024;

/// The ring, and the pool that its frames are from.
pub(super) struct Buffers {
    entries: NonNull<BufRingEntry>,
    layout: Layout,
    /// A power of two.
    count: u16,
    pool: Pool,
    /// Entries given so far, which wraps.
    tail: u16,
    /// Frames that the kernel has.
    lent: u16,
}

impl Buffers {
    /// Of `pool`, all of whose region's frames are its own. The kernel has none of them yet.
    ///
    /// # Errors
    /// The pool has more frames than buffers have numbers.
    pub(super) fn new(pool: Pool) -> io::Result<Buffers> {
        if pool.frame_count() > FRAMES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many frames for a ring of buffers"));
        }
        // A power of two, as the pool's frames are at least.
        let count = ENTRIES_MAX.min(1 << pool.frame_count().max(1).ilog2());
        let bytes = (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(PAGE_BYTES);
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(entries) = NonNull::new(memory.cast()) else { handle_alloc_error(layout) };
        Ok(Buffers { entries, layout, count, pool, tail: 0, lent: 0 })
    }

    pub(super) fn address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Frames that the kernel has.
    pub(super) fn lent(&self) -> u16 {
        self.lent
    }

    /// Gives the kernel as many free frames as there is room for.
    #[inline]
    pub(super) fn refill(&mut self) {
        let before = self.tail;
        while self.lent < self.count {
            let Some(frame) = self.pool.allocate(0) else { break };
            let (address, number) = (frame.bytes().as_ptr() as u64, frame.into_index());
            let slot = usize::from(self.tail & (self.count - 1));
            // SAFETY: an entry of the ring that the kernel doesn't look at before the tail has passed it. Entry 0 holds the tail in its
            // last field, which none of these setters writes.
            unsafe {
                let entry = &mut *self.entries.add(slot).as_ptr();
                entry.set_addr(address);
                entry.set_len(self.pool.region().frame_size());
                entry.set_bid(number as u16);
            }
            self.tail = self.tail.wrapping_add(1);
            self.lent += 1;
        }
        if self.tail != before {
            // SAFETY: the address of the first entry; its tail is aligned, and only this thread writes it.
            unsafe {
                let tail = BufRingEntry::tail(self.entries.as_ptr());
                // Release: the entries before the tail that shows them.
                (*tail.cast::<AtomicU16>()).store(self.tail, Ordering::Release);
            }
        }
    }

    /// The kernel gives a buffer back with so many bytes in it.
    ///
    /// # Safety
    /// A completion has named this buffer, just now and once.
    #[inline]
    pub(super) unsafe fn take(&mut self, number: u16, length: usize) -> Frame {
        self.lent = self.lent.saturating_sub(1);
        let length = (length as u32).min(self.pool.region().frame_size());
        // SAFETY: its number is of a frame that was given to the kernel, which names each it has once.
        unsafe { self.pool.redeem(number.into(), 0, length, false) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout. No receive is under way that could look at it (see `SocketRing`).
        unsafe { dealloc(self.entries.as_ptr().cast(), self.layout) };
    }
}
