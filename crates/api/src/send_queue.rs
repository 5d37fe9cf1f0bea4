//! [`SendQueue`]: what a service gave to send, in order, until a layer between it and the stack sends it.

use crate::block::{Filled, FilledBlock};
use crate::source::Source;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::rc::Rc;

/// Pieces that wait at most; then the service is told that it is full.
const PIECES_MAX: usize = 256;

/// Something to send, by one of the commands for it.
pub enum Piece {
    /// Lent bytes.
    Bytes(Bytes),
    /// A block, from a byte on.
    Block(FilledBlock, usize),
    /// A part of a prepared object.
    Prepared {
        /// The owner of the bytes.
        source: Rc<dyn Source>,
        /// As it was given.
        stamp: u64,
        /// The first byte's place in the source.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
}

impl Piece {
    /// How many bytes it is.
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Block(block, from) => block.bytes().len().saturating_sub(*from) as u64,
            Piece::Prepared { length, .. } => *length,
        }
    }

    /// Its bytes as far as they lie in memory as they are.
    fn lent(&self) -> &[u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Block(block, from) => block.bytes().get(*from..).unwrap_or_default(),
            Piece::Prepared { source, stamp, offset, .. } => source.lend(*stamp, *offset),
        }
    }

    /// Copies its first bytes; there are as many.
    fn copy(&self, target: &mut [u8]) {
        match self {
            Piece::Prepared { source, stamp, offset, .. } => {
                source.fill(*stamp, *offset, target);
            }
            _ => target.copy_from_slice(self.lent().get(..target.len()).unwrap_or_default()),
        }
    }

    fn skip(&mut self, count: usize) {
        match self {
            Piece::Bytes(bytes) => bytes.advance(count),
            Piece::Block(_, from) => *from += count,
            Piece::Prepared { offset, length, .. } => {
                *offset += count as u64;
                *length -= count as u64;
            }
        }
    }
}

/// Pieces in order. Nothing is copied, but for what [`copy`](SendQueue::copy) is asked for.
///
/// ```
/// use bytes::Bytes;
/// use qanat_api::{Piece, SendQueue};
///
/// let mut queue = SendQueue::default();
/// assert!(queue.push(Piece::Bytes(Bytes::from_static(b"head, "))));
/// assert!(queue.push(Piece::Bytes(Bytes::from_static(b"body"))));
/// let mut start = [0; 8];
/// queue.copy(&mut start);
/// assert_eq!((&start, queue.bytes()), (b"head, bo", 10));
/// queue.skip(2);
/// assert_eq!(queue.lent(4), Some(&b"ad, "[..]));
/// assert_eq!(queue.take(100).map(|piece| piece.length()), Some(4));
/// ```
#[derive(Default)]
pub struct SendQueue {
    pieces: VecDeque<Piece>,
    bytes: u64,
}

impl SendQueue {
    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a piece; whether there was room.
    pub fn push(&mut self, piece: Piece) -> bool {
        if self.pieces.len() >= PIECES_MAX {
            return false;
        }
        let length = piece.length();
        if length > 0 {
            self.bytes += length;
            self.pieces.push_back(piece);
        }
        true
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = SendQueue::default();
    }

    /// The first `count` bytes, if they lie in one piece.
    pub fn lent(&self, count: usize) -> Option<&[u8]> {
        let front = self.pieces.front().filter(|piece| piece.length() >= count as u64)?;
        front.lent().get(..count)
    }

    /// Copies as many bytes as `target` has, or as there are.
    pub fn copy(&self, mut target: &mut [u8]) {
        for piece in &self.pieces {
            let count = target.len().min(usize::try_from(piece.length()).unwrap_or(usize::MAX));
            let Some((some, rest)) = std::mem::take(&mut target).split_at_mut_checked(count) else { return };
            piece.copy(some);
            target = rest;
            if target.is_empty() {
                return;
            }
        }
    }

    /// Takes out the first piece, or its first `most` bytes. A block can't be cut: it is taken as bytes, which are copied if it is
    /// transmit memory. `None`: there is nothing.
    pub fn take(&mut self, most: u64) -> Option<Piece> {
        let front = self.pieces.front_mut()?;
        let count = front.length().min(most);
        let taken = match front {
            Piece::Bytes(bytes) => Piece::Bytes(bytes.slice(..count as usize)),
            Piece::Block(block, from) => {
                let mut bytes = block.clone().into_bytes();
                bytes.advance(*from);
                *block = FilledBlock(Filled::Own(bytes.clone()));
                *from = 0;
                Piece::Bytes(bytes.slice(..count as usize))
            }
            Piece::Prepared { source, stamp, offset, .. } => {
                Piece::Prepared { source: Rc::clone(source), stamp: *stamp, offset: *offset, length: count }
            }
        };
        self.skip(count as usize);
        Some(taken)
    }

    /// Takes the first `count` bytes out.
    pub fn skip(&mut self, mut count: usize) {
        self.bytes = self.bytes.saturating_sub(count as u64);
        while let Some(front) = self.pieces.front_mut().filter(|_| count > 0) {
            let length = front.length();
            if length > count as u64 {
                return front.skip(count);
            }
            count -= length as usize;
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each byte is its offset.
    struct Offsets;

    impl Source for Offsets {
        fn fill(&self, _: u64, offset: u64, target: &mut [u8]) -> crate::Fill {
            target.iter_mut().zip(offset..).for_each(|(byte, offset)| *byte = offset as u8);
            crate::Fill::default()
        }
    }

    proptest! {
        #[test]
        fn bytes_come_out_in_order_however_they_are_cut(
            pieces in proptest::collection::vec((0u8..3, proptest::collection::vec(any::<u8>(), 0..40)), 0..12),
            cuts in proptest::collection::vec(1usize..50, 1..40),
        ) {
            let mut queue = SendQueue::default();
            let mut expected = Vec::new();
            for (kind, bytes) in pieces {
                let piece = match kind {
                    0 => Piece::Bytes(Bytes::from(bytes.clone())),
                    1 => {
                        let mut block = crate::Block::own(bytes.len());
                        block.append(&bytes);
                        Piece::Block(block.filled(), 0)
                    }
                    _ => Piece::Prepared { source: Rc::new(Offsets), stamp: 0, offset: 3, length: bytes.len() as u64 },
                };
                if kind == 2 {
                    expected.extend((3..).take(bytes.len()).map(|offset: u64| offset as u8));
                } else {
                    expected.extend(bytes);
                }
                prop_assert!(queue.push(piece));
            }
            let mut seen = Vec::new();
            for cut in cuts.into_iter().cycle() {
                prop_assert_eq!(queue.bytes(), (expected.len() - seen.len()) as u64);
                if queue.bytes() == 0 {
                    break;
                }
                let count = cut.min(queue.bytes() as usize);
                let mut target = vec![0; count];
                queue.copy(&mut target);
                if let Some(lent) = queue.lent(count) {
                    prop_assert_eq!(lent, &target[..]);
                }
                queue.skip(count);
                seen.extend(target);
            }
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn pieces_are_taken_out_no_longer_than_is_asked_for() {
        let mut queue = SendQueue::default();
        let mut block = crate::Block::own(4);
        block.append(b"efgh");
        queue.push(Piece::Bytes(Bytes::from_static(b"abcd")));
        queue.push(Piece::Block(block.filled(), 1));
        queue.push(Piece::Prepared { source: Rc::new(Offsets), stamp: 0, offset: 3, length: 4 });
        let mut taken = Vec::new();
        while let Some(piece) = queue.take(3) {
            let mut bytes = vec![0; piece.length() as usize];
            piece.copy(&mut bytes);
            taken.push(bytes);
        }
        assert_eq!(taken, [&b"abc"[..], b"d", b"fgh", &[3, 4, 5], &[6]]);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn it_is_full_at_some_time() {
        let mut queue = SendQueue::default();
        let pushed = (0..2 * PIECES_MAX).filter(|_| queue.push(Piece::Bytes(Bytes::from_static(b"x")))).count();
        assert_eq!((pushed, queue.bytes()), (PIECES_MAX, PIECES_MAX as u64));
        queue.clear();
        assert!(queue.push(Piece::Bytes(Bytes::from_static(b"x"))));
    }
}
