//! Memory that a device reaches: where it lies for the device, and the driver's own, in which queues are.

use super::spec::{IDENTIFY_BYTES, IdentifyPage, PAGE_BYTES};
use qanat_nic::{Frame, Region};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Memory that the device was told of, and where it lies for the device.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The memory.
    pub region: Rc<Region>,
    /// The device's address of the first byte: a multiple of 4,096.
    pub address: u64,
}

/// All mappings of a device.
pub(super) struct Mappings {
    mappings: Vec<(std::ops::Range<usize>, Mapping)>,
}

impl Mappings {
    pub(super) fn new(mappings: Vec<Mapping>) -> Mappings {
        Mappings { mappings: mappings.into_iter().map(|mapping| (mapping.region.addresses(), mapping)).collect() }
    }

    /// Buffers may be of this memory, too.
    pub(super) fn add(&mut self, mapping: Mapping) {
        self.mappings.push((mapping.region.addresses(), mapping));
    }

    /// Buffers may not be of this memory any more.
    pub(super) fn remove(&mut self, region: &Rc<Region>) {
        self.mappings.retain(|(_, mapping)| !Rc::ptr_eq(&mapping.region, region));
    }

    /// The device's address of a frame's data; `None`: it is of other memory.
    #[inline]
    pub(super) fn address_of(&self, frame: &Frame) -> Option<u64> {
        let address = frame.bytes().as_ptr().addr();
        let (addresses, mapping) = self.mappings.iter().find(|(addresses, _)| addresses.contains(&address))?;
        Some(mapping.address + (address - addresses.start) as u64)
    }

    /// Keeps the memory mapped for good: a device that can't be stopped may still write there.
    pub(super) fn give_up(&mut self) {
        self.mappings.drain(..).for_each(std::mem::forget);
    }
}

/// A frame that queues lie in. The device writes there at any time, so nothing here is ever borrowed as bytes: words are loaded and
/// stored one by one, and what was loaded is a copy.
struct Memory {
    /// What keeps it; its bytes are not touched through it any more.
    _frame: Frame,
    base: NonNull<u8>,
    address: u64,
    length: usize,
}

/// The driver's own memory, cut into pieces from its beginning.
pub(super) struct Allocator {
    memory: Rc<Memory>,
    used: usize,
}

impl Allocator {
    /// Of all of a frame, which is of `mapping`'s region. `None`: it is not, or does not begin with a page.
    pub(super) fn new(mapping: &Mapping, mut frame: Frame) -> Option<Allocator> {
        frame.reset(0);
        let length = frame.capacity();
        let bytes = frame.append(length)?;
        bytes.fill(0);
        let base = NonNull::from(bytes).cast::<u8>();
        let offset = base.addr().get().checked_sub(mapping.region.addresses().start)?;
        if offset >= mapping.region.length() || !(offset as u64).is_multiple_of(PAGE_BYTES) {
            return None;
        }
        let address = mapping.address.checked_add(offset as u64)?;
        Some(Allocator { memory: Rc::new(Memory { _frame: frame, base, address, length }), used: 0 })
    }

    /// The next `bytes`, from a page's beginning on; `None`: there is no room.
    pub(super) fn pages(&mut self, bytes: usize) -> Option<Piece> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES as usize);
        let start = self.used;
        let end = start.checked_add(bytes).filter(|end| *end <= self.memory.length)?;
        self.used = end;
        Some(Piece { memory: Rc::clone(&self.memory), start, bytes })
    }
}

/// Pages of the driver's memory, shared with the device.
pub(super) struct Piece {
    memory: Rc<Memory>,
    start: usize,
    bytes: usize,
}

impl Piece {
    /// The device's address of it.
    pub(super) fn address(&self) -> u64 {
        self.memory.address + self.start as u64
    }

    #[inline]
    fn word(&self, index: usize) -> Option<&AtomicU64> {
        if index >= self.bytes / 8 {
            return None;
        }
        // SAFETY: the piece lies within the frame (`Allocator::pages`), begins with a page, and the word within the piece; the
        // frame is kept as long as the piece, and is reached by nothing but atomics here.
        Some(unsafe { AtomicU64::from_ptr(self.memory.base.add(self.start + 8 * index).cast::<u64>().as_ptr()) })
    }

    fn half(&self, index: usize) -> Option<&AtomicU32> {
        if index >= self.bytes / 4 {
            return None;
        }
        // SAFETY: as in `word`. What is reached by halves is reached by nothing else while it is shared.
        Some(unsafe { AtomicU32::from_ptr(self.memory.base.add(self.start + 4 * index).cast::<u32>().as_ptr()) })
    }

    /// Word `index` of 64 bits; 0 beyond the end. What is loaded after it was stored before it, if the device says so.
    #[inline]
    pub(super) fn load(&self, index: usize) -> u64 {
        self.word(index).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Stores word `index` of 64 bits; nothing beyond the end.
    #[inline]
    pub(super) fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.word(index) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Word `index` of 32 bits; 0 beyond the end.
    pub(super) fn load_half(&self, index: usize) -> u32 {
        self.half(index).map_or(0, |half| u32::from_le(half.load(Ordering::Acquire)))
    }

    /// Stores word `index` of 32 bits; nothing beyond the end.
    pub(super) fn store_half(&self, index: usize, value: u32) {
        if let Some(half) = self.half(index) {
            half.store(value.to_le(), Ordering::Release);
        }
    }

    /// Zeroes all of it.
    pub(super) fn clear(&self) {
        (0..self.bytes / 8).for_each(|index| self.store(index, 0));
    }

    /// A copy of its first page.
    pub(super) fn copy_page(&self) -> Box<IdentifyPage> {
        let mut page = Box::new([0; IDENTIFY_BYTES]);
        for (index, target) in page.chunks_exact_mut(8).enumerate() {
            target.copy_from_slice(&self.load(index).to_ne_bytes());
        }
        page
    }

    /// Keeps the memory for good.
    pub(super) fn give_up(&self) {
        std::mem::forget(Rc::clone(&self.memory));
    }
}
