//! [`TenantMemory`]: the memory of an application that the commands in its queues may name.

use super::layout::SharedLayout;
use crate::controller::{GuestMemory, RegionMemory};
use qanat_nic::{Claims, Frame, Region};
use std::cell::RefCell;
use std::rc::Rc;

/// An application's queues and frames. The page of registers is not of it. Frames can be lent to a backend that knows their memory.
///
/// The application may write what is lent while the device reads it, or read what the device writes: it spoils its own data. Nothing here
/// looks at the bytes of a lent frame.
#[derive(Debug)]
pub(crate) struct TenantMemory {
    memory: RegionMemory,
    frames: Rc<Region>,
    frames_at: u64,
    claims: RefCell<Claims>,
    is_lendable: bool,
}

impl TenantMemory {
    /// `None`: the frames have been given to others.
    pub(super) fn new(layout: &SharedLayout, queues: Rc<Region>, frames: Rc<Region>) -> Option<TenantMemory> {
        let claims = RefCell::new(Claims::new(&frames)?);
        let frames_at = layout.frames_at();
        let memory = RegionMemory::new(vec![(layout.queues_at(), queues), (frames_at, Rc::clone(&frames))]);
        Some(TenantMemory { memory, frames, frames_at, claims, is_lendable: false })
    }

    /// The frames' memory, for a backend.
    pub(crate) fn frames(&self) -> &Rc<Region> {
        &self.frames
    }

    /// A backend knows the frames' memory: from now on it is lent.
    pub(crate) fn lend_from_now_on(&mut self) {
        self.is_lendable = true;
    }
}

impl GuestMemory for TenantMemory {
    #[inline]
    fn contains(&self, address: u64, bytes: u64) -> bool {
        self.memory.contains(address, bytes)
    }

    #[inline]
    fn read(&self, address: u64, target: &mut [u8]) -> bool {
        self.memory.read(address, target)
    }

    #[inline]
    fn write(&self, address: u64, source: &[u8]) -> bool {
        self.memory.write(address, source)
    }

    #[inline]
    fn load(&self, address: u64, words: &mut [u64]) -> bool {
        self.memory.load(address, words)
    }

    #[inline]
    fn store(&self, address: u64, word: u64) -> bool {
        self.memory.store(address, word)
    }

    #[inline]
    fn load_half(&self, address: u64) -> Option<u32> {
        self.memory.load_half(address)
    }

    #[inline]
    fn store_half(&self, address: u64, value: u32) -> bool {
        self.memory.store_half(address, value)
    }

    #[inline]
    fn lend(&self, address: u64, bytes: usize) -> Option<Frame> {
        if !self.is_lendable {
            return None;
        }
        let place = address.checked_sub(self.frames_at)?;
        let frame_bytes = u64::from(self.frames.frame_size());
        let (index, start) = (u32::try_from(place / frame_bytes).ok()?, (place % frame_bytes) as u32);
        self.claims.borrow_mut().take(index, start, u32::try_from(bytes).ok()?)
    }
}
