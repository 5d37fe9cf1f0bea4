//! [`SendQueue`]: what a service gave to send, in order, until it is sealed.

use bytes::{Buf, Bytes};
use qanat_api::{FilledBlock, Source};
use std::collections::VecDeque;
use std::rc::Rc;

/// Pieces that wait at most; then the service is told that it is full.
const PIECES_MAX: usize = 256;

/// Something to send. Empty ones are never kept.
pub(crate) enum Piece {
    Bytes(Bytes),
    /// A block, from a byte on.
    Block(FilledBlock, usize),
    Prepared {
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    },
}

impl Piece {
    fn length(&self) -> u64 {
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

/// See the module.
#[derive(Default)]
pub(crate) struct SendQueue {
    pieces: VecDeque<Piece>,
    bytes: u64,
}

impl SendQueue {
    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a piece; whether there was room.
    pub(crate) fn push(&mut self, piece: Piece) -> bool {
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

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = SendQueue::default();
    }

    /// The first `count` bytes, if they lie in one piece.
    pub(crate) fn lent(&self, count: usize) -> Option<&[u8]> {
        let front = self.pieces.front().filter(|piece| piece.length() >= count as u64)?;
        front.lent().get(..count)
    }

    /// Copies as many bytes as `target` has, or as there are.
    pub(crate) fn copy(&self, mut target: &mut [u8]) {
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

    /// Takes the first `count` bytes out.
    pub(crate) fn skip(&mut self, mut count: usize) {
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
        fn fill(&self, _: u64, offset: u64, target: &mut [u8]) -> qanat_api::Fill {
            target.iter_mut().zip(offset..).for_each(|(byte, offset)| *byte = offset as u8);
            qanat_api::Fill::default()
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
                        let mut block = qanat_api::Block::own(bytes.len());
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
    fn it_is_full_at_some_time() {
        let mut queue = SendQueue::default();
        let pushed = (0..2 * PIECES_MAX).filter(|_| queue.push(Piece::Bytes(Bytes::from_static(b"x")))).count();
        assert_eq!((pushed, queue.bytes()), (PIECES_MAX, PIECES_MAX as u64));
        queue.clear();
        assert!(queue.push(Piece::Bytes(Bytes::from_static(b"x"))));
    }
}
