//! [`Descriptors`]: a ring of descriptors in memory that the device reads and writes at any time. Words are loaded and stored one by
//! one, and what was loaded is a copy.

use super::registers::DESCRIPTOR_BYTES;
use crate::memory::{Frame, Region};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors of two words each.
pub(super) struct Descriptors {
    /// What keeps the memory; its bytes are not touched through it.
    _frame: Frame,
    base: NonNull<u8>,
    /// The device's address of the first.
    address: u64,
    count: u32,
}

impl Descriptors {
    /// `count` in a frame of `region`, which lies at `region_address` for the device. `None`: there is no free frame, or it is too short.
    pub(super) fn new(region: &Rc<Region>, region_address: u64, count: u32) -> Option<Descriptors> {
        let mut frame = region.pool(1)?.allocate(0)?;
        let bytes = frame.append(count as usize * DESCRIPTOR_BYTES)?;
        bytes.fill(0);
        let base = NonNull::from(bytes).cast::<u8>();
        let address = region_address + frame.offset_in_region() as u64;
        Some(Descriptors { _frame: frame, base, address, count })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of all.
    pub(super) fn length(&self) -> u32 {
        self.count * DESCRIPTOR_BYTES as u32
    }

    #[inline]
    fn word(&self, index: u32, word: usize) -> &AtomicU64 {
        let place = (index % self.count) as usize * DESCRIPTOR_BYTES + 8 * word;
        // SAFETY: the frame holds `count` descriptors of two words, so the word lies in it (`word` is 0 or 1, both callers below); it
        // begins with a page, so words are aligned; it is kept as long as `self`, and is reached by nothing but atomics.
        unsafe { AtomicU64::from_ptr(self.base.add(place).cast::<u64>().as_ptr()) }
    }

    /// The second word: what the device says. What is loaded after it was stored before it.
    #[inline]
    pub(super) fn told(&self, index: u32) -> u64 {
        u64::from_le(self.word(index, 1).load(Ordering::Acquire))
    }

    /// Stores both words.
    #[inline]
    pub(super) fn store(&self, index: u32, first: u64, second: u64) {
        self.word(index, 0).store(first.to_le(), Ordering::Relaxed);
        self.word(index, 1).store(second.to_le(), Ordering::Release);
    }

    /// Zeroes all.
    pub(super) fn clear(&self) {
        (0..self.count).for_each(|index| self.store(index, 0, 0));
    }
}
