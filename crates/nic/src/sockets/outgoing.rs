//! [`Outgoing`]: what one send takes along, until its completion.

use crate::memory::Frame;
use bytes::Bytes;
use std::rc::Rc;

/// Bytes that are copied into one send at most.
pub const OUTGOING_COPIED_MAX: usize = 64 * 1_024;
/// Lent pieces that one send takes along at most.
pub const OUTGOING_PIECES_MAX: usize = 16;

/// Memory that is lent for a send. Its bytes stay where they are, and as they are, as long as this is held.
#[derive(Debug)]
pub enum Lent {
    /// The process's own.
    Bytes(Bytes),
    /// A frame, from a byte on.
    Shared(Rc<Frame>, usize),
    /// A frame of nobody else's.
    Frame(Frame),
}

impl Lent {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Lent::Bytes(bytes) => bytes,
            Lent::Shared(frame, from) => frame.bytes().get(*from..).unwrap_or_default(),
            Lent::Frame(frame) => frame.bytes(),
        }
    }
}

/// What one send takes along: copied bytes, and lent pieces after them. It is used again and again, so that nothing is allocated.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The copied ones are the first `copied_bytes` of these.
    copied: Vec<u8>,
    copied_bytes: usize,
    lent: Vec<Lent>,
}

impl Outgoing {
    /// Room for `count` bytes to be copied, after those before; `None`: there is not so much, or something lent comes before.
    #[inline]
    pub fn copy(&mut self, count: usize) -> Option<&mut [u8]> {
        let end = self.copied_bytes + count;
        if !self.lent.is_empty() || end > OUTGOING_COPIED_MAX {
            return None;
        }
        if self.copied.len() < end {
            self.copied.resize(end.next_power_of_two().max(2_048), 0);
        }
        let target = self.copied.get_mut(self.copied_bytes..end);
        self.copied_bytes = end;
        target
    }

    /// Bytes that may still be copied.
    pub fn copy_room(&self) -> usize {
        if self.lent.is_empty() { OUTGOING_COPIED_MAX - self.copied_bytes } else { 0 }
    }

    /// Lends a piece; whether there was room.
    #[inline]
    pub fn lend(&mut self, lent: Lent) -> bool {
        let has_room = self.lent.len() < OUTGOING_PIECES_MAX;
        if has_room {
            self.lent.push(lent);
        }
        has_room
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.copied_bytes + self.lent.iter().map(|lent| lent.bytes().len()).sum::<usize>()
    }

    /// The pieces in order, none of which is empty.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let copied = self.copied.get(..self.copied_bytes).unwrap_or_default();
        std::iter::once(copied).chain(self.lent.iter().map(Lent::bytes)).filter(|piece| !piece.is_empty())
    }

    /// Gives back what was lent. Memory for what is copied stays, unless it is much.
    pub(super) fn clear(&mut self) {
        self.lent.clear();
        self.copied_bytes = 0;
        if self.copied.len() > 16 * 1_024 {
            self.copied = Vec::new();
        }
    }
}
