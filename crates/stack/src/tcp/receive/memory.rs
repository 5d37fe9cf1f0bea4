//! The memory for received bytes nobody has taken yet: one budget for all connections of a stack, counted in frames,
//! because that is what a device runs out of: a frame with one byte is as much lost to it as a full one.
//!
//! ```text
//!   device's receive frames | for the ring: a quarter | budget: three quarters
//!                                                     | held (unread, out of order) | free
//! ```
//!
//! * A connection may hold as many frames as are still *free* of three quarters of it (dynamic thresholds, Choudhury and
//!   Hahne 1998): one hog gets half, N get 1/(N+1) each. The last quarter is for connections that hold next to nothing: a
//!   service that takes what it gets is served, slowly, however many others take nothing (an eighth of the budget's frames).
//! * A window grows beyond its first size only by frames *reserved* here, at most half of the budget altogether, so that
//!   what was promised by tuning can be kept even if every sender uses it at once.

/// Frames a connection may hold out of the last quarter.
const FRAMES_ALWAYS: u32 = 2;

/// The budget and what is used of it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ReceiveMemory {
    frames_max: u32,
    /// Frames that may still be held.
    free: u32,
    /// Of these, kept for connections that hold next to nothing.
    kept: u32,
    /// Smallest `free` so far.
    free_least: u32,
    frames_reserved: u32,
}

impl ReceiveMemory {
    /// A budget of `frames_max` frames.
    pub fn new(frames_max: u32) -> ReceiveMemory {
        ReceiveMemory { frames_max, free: frames_max, kept: frames_max / 4, free_least: frames_max, frames_reserved: 0 }
    }

    /// The budget, frames.
    pub fn frames_max(&self) -> u32 {
        self.frames_max
    }

    /// Frames lent to services and not consumed, or out of order.
    pub fn frames_held(&self) -> u32 {
        self.frames_max - self.free
    }

    /// The most frames that were ever held at once.
    pub fn frames_held_peak(&self) -> u32 {
        self.frames_max - self.free_least
    }

    /// Frames promised to windows beyond their first size.
    pub fn frames_reserved(&self) -> u32 {
        self.frames_reserved
    }

    /// Further frames that a connection with `held` may hold, so that it has no more than is left then.
    #[inline]
    pub(in crate::tcp) fn room(&self, held: u32) -> u32 {
        let common = self.free.saturating_sub(self.kept + held) / 2;
        if common >= FRAMES_ALWAYS { common } else { self.room_when_scarce(held).max(common) }
    }

    #[cold]
    fn room_when_scarce(&self, held: u32) -> u32 {
        FRAMES_ALWAYS.saturating_sub(held).min(self.free)
    }

    /// As [`room`](ReceiveMemory::room), for what is out of order: gaps that nobody fills must not block anyone.
    pub(in crate::tcp) fn room_out_of_order(&self, held: u32) -> u32 {
        self.free.saturating_sub(self.frames_max / 2).saturating_sub(held) / 2
    }

    #[inline]
    pub(in crate::tcp) fn hold(&mut self, frames: u32) {
        // Never more than there is room for, but for frames that change from out of order to in order.
        self.free = self.free.saturating_sub(frames);
        self.free_least = self.free_least.min(self.free);
    }

    #[inline]
    pub(in crate::tcp) fn release(&mut self, frames: u32) {
        self.free = (self.free + frames).min(self.frames_max);
    }

    /// Promises up to `frames`; returns how many.
    pub(in crate::tcp) fn reserve(&mut self, frames: u32) -> u32 {
        let granted = frames.min((self.frames_max / 2).saturating_sub(self.frames_reserved));
        self.frames_reserved += granted;
        granted
    }

    pub(in crate::tcp) fn unreserve(&mut self, frames: u32) {
        self.frames_reserved = self.frames_reserved.saturating_sub(frames);
    }

    /// Little is left to promise: those who don't use what they have should give it back.
    pub(in crate::tcp) fn is_scarce(&self) -> bool {
        self.frames_reserved > self.frames_max / 2 / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_half_at_most() {
        let mut memory = ReceiveMemory::new(100);
        assert_eq!((memory.reserve(30), memory.reserve(30), memory.reserve(1)), (30, 20, 0));
        assert!(memory.is_scarce());
        memory.unreserve(20);
        assert_eq!((memory.frames_reserved(), memory.is_scarce()), (30, false));
    }
}
