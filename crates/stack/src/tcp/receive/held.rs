//! What has been received and nobody has taken yet: lent to the service, or waiting beyond a gap.
//!
//! All that changes these numbers is here, and each change is told to the stack's budget ([`ReceiveMemory`]): what a
//! connection holds is what the budget counts for it.

use crate::tcp::receive::memory::ReceiveMemory;
use crate::tcp::receive::reassembly::{Block, Insertion, Reassembly};
use crate::tcp::sequence::SequenceNumber;
use qanat_api::Chunk;

/// Received bytes and frames that a connection holds.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct HeldData {
    /// Bytes given to the service and not consumed.
    unconsumed: u32,
    /// Frames given to the service and not consumed.
    frames_lent: u32,
    /// Frames beyond a gap; `None`: nothing is missing.
    out_of_order: Option<Box<Reassembly>>,
}

impl HeldData {
    /// Nothing is held.
    pub fn new() -> HeldData {
        HeldData { unconsumed: 0, frames_lent: 0, out_of_order: None }
    }

    /// Bytes given to the service and not consumed.
    #[inline]
    pub(in crate::tcp) fn unconsumed(&self) -> u32 {
        self.unconsumed
    }

    /// Frames given to the service and not consumed.
    #[inline]
    pub(in crate::tcp) fn frames_lent(&self) -> u32 {
        self.frames_lent
    }

    /// Whether something is held beyond a gap.
    #[inline]
    pub(in crate::tcp) fn has_gap(&self) -> bool {
        self.out_of_order.is_some()
    }

    /// Frames held beyond a gap.
    #[inline]
    pub(in crate::tcp) fn frames_out_of_order(&self) -> usize {
        self.out_of_order.as_ref().map_or(0, |queue| queue.len())
    }

    /// All frames held.
    #[inline]
    pub(in crate::tcp) fn frames(&self) -> usize {
        self.frames_lent as usize + self.frames_out_of_order()
    }

    /// Heap memory, bytes (frames not counted).
    pub(in crate::tcp) fn heap_bytes(&self) -> usize {
        self.out_of_order.as_ref().map_or(0, |queue| queue.memory())
    }

    /// A frame with `bytes` is given to the service.
    #[inline]
    pub(super) fn lend(&mut self, bytes: u32, memory: &mut ReceiveMemory) {
        self.unconsumed = self.unconsumed.saturating_add(bytes);
        self.frames_lent += 1;
        memory.hold(1);
    }

    /// The service gives `bytes` in `frames` frames back.
    #[inline]
    pub(super) fn take_back(&mut self, bytes: u32, frames: u32, memory: &mut ReceiveMemory) {
        self.unconsumed = self.unconsumed.saturating_sub(bytes);
        let frames = frames.min(self.frames_lent);
        self.frames_lent -= frames;
        memory.release(frames);
    }

    /// Holds `chunk`, which begins at `start` beyond a gap, if at most `frames_max` frames are then held there. Gives what became
    /// of it, and whether it only goes on where the chunk before it ended.
    pub(super) fn insert(
        &mut self,
        start: SequenceNumber,
        chunk: Chunk,
        frames_max: usize,
        memory: &mut ReceiveMemory,
    ) -> (Insertion, bool) {
        let before = self.frames_out_of_order();
        let queue = self.out_of_order.get_or_insert_with(|| Box::new(Reassembly::new()));
        let is_more_of_the_same = queue.is_more_of_the_same(start);
        let insertion = queue.insert(start, chunk, frames_max);
        memory.release(before as u32);
        memory.hold(queue.len() as u32);
        (insertion, is_more_of_the_same)
    }

    /// Forgets the frame that is farthest beyond the gap, if it begins behind `start`; whether it did.
    pub(super) fn drop_farthest(&mut self, start: SequenceNumber, memory: &mut ReceiveMemory) -> bool {
        let is_dropped = self.out_of_order.as_mut().is_some_and(|queue| queue.drop_last(start));
        memory.release(u32::from(is_dropped));
        is_dropped
    }

    /// The first of the bytes from `start` to `end` that are held already.
    pub(super) fn first_held(&self, start: SequenceNumber, end: SequenceNumber) -> Option<Block> {
        self.out_of_order.as_ref().and_then(|queue| queue.first_held(start, end))
    }

    /// What is held beyond a gap, most recent first, for SACK: all after `next`.
    pub(in crate::tcp) fn blocks(&mut self, next: SequenceNumber) -> impl Iterator<Item = Block> + '_ {
        self.out_of_order.as_mut().into_iter().flat_map(move |queue| queue.blocks(next))
    }

    /// A gap is filled: what was held beyond it, which counts as held no longer. What is still out of order is given back
    /// by [`put_back`](HeldData::put_back).
    pub(super) fn take_out_of_order(&mut self, memory: &mut ReceiveMemory) -> Option<Box<Reassembly>> {
        let queue = self.out_of_order.take()?;
        memory.release(queue.len() as u32);
        Some(queue)
    }

    /// What is still out of order is held again.
    pub(super) fn put_back(&mut self, queue: Box<Reassembly>, memory: &mut ReceiveMemory) {
        memory.hold(queue.len() as u32);
        if !queue.is_empty() {
            self.out_of_order = Some(queue);
        }
    }

    /// Forgets what is out of order.
    pub(super) fn drop_out_of_order(&mut self, memory: &mut ReceiveMemory) {
        drop(self.take_out_of_order(memory));
    }

    /// The connection ends: what its service still has counts as held no longer.
    pub(super) fn forget_lent(&mut self, memory: &mut ReceiveMemory) {
        memory.release(self.frames_lent);
        self.frames_lent = 0;
    }
}
