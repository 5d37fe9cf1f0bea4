//! Doorbells, and their shadows in memory (Doorbell Buffer Config), which spare most rings.

use super::memory::Piece;
use super::spec::{PAGE_BYTES, doorbell_offset};
use super::transport::Transport;
use std::sync::atomic::{Ordering, fence};

/// The shadow pages.
struct Shadow {
    values: Piece,
    /// Where the controller says from which value on it wants to hear the doorbell.
    event_indices: Piece,
}

/// The doorbells of a controller.
pub(super) struct Doorbells {
    stride: u8,
    shadow: Shadow,
    /// The I/O queue that has shadows now.
    shadowed: Option<u16>,
}

/// Whether the way from `old` to `new` passes `event`.
fn passes(event: u32, old: u32, new: u32) -> bool {
    (new.wrapping_sub(event).wrapping_sub(1) as u16) < (new.wrapping_sub(old) as u16)
}

impl Doorbells {
    /// Of this stride; the two pages are for shadows.
    pub(super) fn new(stride: u8, values: Piece, event_indices: Piece) -> Doorbells {
        Doorbells { stride, shadow: Shadow { values, event_indices }, shadowed: None }
    }

    /// The device's addresses of both pages.
    pub(super) fn addresses(&self) -> (u64, u64) {
        (self.shadow.values.address(), self.shadow.event_indices.address())
    }

    /// The controller starts anew: it knows of no shadows.
    pub(super) fn reset(&mut self) {
        self.shadowed = None;
        self.shadow.values.clear();
        self.shadow.event_indices.clear();
    }

    /// From now on the doorbells of I/O queue `queue` have shadows.
    pub(super) fn shadow(&mut self, queue: u16) {
        if self.place(queue, true) + 4 <= PAGE_BYTES as u32 {
            self.shadowed = Some(queue);
        }
    }

    fn place(&self, queue: u16, is_completion: bool) -> u32 {
        doorbell_offset(queue, is_completion, self.stride) - doorbell_offset(0, false, self.stride)
    }

    /// Moves a doorbell from `old` to `new`; whether the controller had to be told.
    #[inline]
    pub(super) fn ring(
        &mut self,
        transport: &mut impl Transport,
        queue: u16,
        is_completion: bool,
        (old, new): (u32, u32),
    ) -> bool {
        if self.shadowed == Some(queue) {
            let place = self.place(queue, is_completion) as usize / 4;
            self.shadow.values.store_half(place, new);
            // The controller says from where on it wants to hear, then looks at the shadow; we write the shadow, then look from where
            // on it wants to hear. With a full fence on both sides one of the two sees the other.
            fence(Ordering::SeqCst);
            if !passes(self.shadow.event_indices.load_half(place), old, new) {
                return false;
            }
        }
        transport.ring(doorbell_offset(queue, is_completion, self.stride), new);
        true
    }

    pub(super) fn give_up(&self) {
        self.shadow.values.give_up();
        self.shadow.event_indices.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::passes;

    #[test]
    fn a_doorbell_is_heard_when_it_passes_the_event() {
        assert!(passes(5, 5, 6) && passes(5, 3, 9));
        assert!(!passes(5, 6, 7) && !passes(5, 3, 5));
        // The same round the end of the queue.
        assert!(passes(7, 7, 0) && passes(6, 5, 1) && passes(0, 7, 1) && !passes(3, 7, 0));
    }
}
