//! [`FlatRange`]: a range of a library's object on its way to a peer. Pieces are asked for in order, come in any, and leave in order.

use crate::content::{FlatObject, PIECE_BYTES};
use qanat::{Block, FilledBlock};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// An object's room is not given to another while this is there.
#[derive(Debug)]
pub struct Hold {
    pub object: FlatObject,
    /// Where it is told that it ended.
    pub released: Rc<RefCell<Vec<FlatObject>>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.released.borrow_mut().push(self.object);
    }
}

/// A piece that has come.
#[derive(Debug)]
pub enum Come {
    /// It is this range's alone.
    Alone(Block),
    /// A cache has it, too.
    Kept(FilledBlock),
}

impl Come {
    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Come::Alone(block) => block.bytes(),
            Come::Kept(block) => block.bytes(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct FlatRange {
    hold: Hold,
    /// The first byte that was not given to the stack.
    offset: u64,
    /// How many bytes were not.
    length: u64,
    /// The piece that is first in `pieces`.
    first: u64,
    /// Pieces that were asked for, and have come or not.
    pieces: VecDeque<Option<Come>>,
    /// What the stack did not take.
    refused: Option<FilledBlock>,
}

impl FlatRange {
    /// `length` bytes from `offset` on.
    pub fn new(hold: Hold, offset: u64, length: u64) -> FlatRange {
        FlatRange { hold, offset, length, first: offset / PIECE_BYTES, pieces: VecDeque::new(), refused: None }
    }

    /// Of which object.
    pub fn object(&self) -> FlatObject {
        self.hold.object
    }

    /// Bytes that were not given to the stack.
    pub fn length(&self) -> u64 {
        self.length + self.refused.as_ref().map_or(0, |block| block.bytes().len() as u64)
    }

    /// Of these, bytes that were asked for.
    pub fn asked_bytes(&self) -> u64 {
        let end = (self.first + self.pieces.len() as u64).saturating_mul(PIECE_BYTES);
        end.min(self.offset + self.length).saturating_sub(self.offset) + (self.length() - self.length)
    }

    /// The piece to ask for next; `None`: all were.
    pub fn next_piece(&self) -> Option<u64> {
        let next = self.first + self.pieces.len() as u64;
        (next.saturating_mul(PIECE_BYTES) < self.offset + self.length).then_some(next)
    }

    /// [`next_piece`](FlatRange::next_piece) was asked for.
    pub fn asked(&mut self) {
        self.pieces.push_back(None);
    }

    /// A piece has come.
    pub fn arrived(&mut self, piece: u64, come: Come) {
        let index = piece.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(place) = index.and_then(|index| self.pieces.get_mut(index)) {
            *place = Some(come);
        }
    }

    /// What is to be sent next, if it has come.
    pub fn take(&mut self) -> Option<FilledBlock> {
        if self.refused.is_some() {
            return self.refused.take();
        }
        let come = self.pieces.front_mut()?.take()?;
        self.pieces.pop_front();
        let from = (self.offset - self.first * PIECE_BYTES) as usize;
        let count = self.length.min(come.bytes().len().saturating_sub(from) as u64) as usize;
        self.first += 1;
        self.offset += count as u64;
        self.length -= count as u64;
        let come = match come {
            Come::Alone(mut block) if from == 0 => {
                block.truncate(count);
                return Some(block.filled());
            }
            Come::Kept(block) if from == 0 && count == block.bytes().len() => return Some(block),
            other => other,
        };
        // A copy, of less than a piece, once in a range that begins within one; and of a kept one, once in a range that ends within it.
        let mut part = Block::own(count);
        part.append(come.bytes().get(from..from + count).unwrap_or_default());
        Some(part.filled())
    }

    /// The stack did not take it.
    pub fn put_back(&mut self, block: FilledBlock) {
        self.refused = Some(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(piece: u64, object_bytes: u64) -> Block {
        let bytes: Vec<u8> =
            (piece * PIECE_BYTES..object_bytes.min((piece + 1) * PIECE_BYTES)).map(|byte| (byte % 251) as u8).collect();
        let mut block = Block::own(bytes.len());
        block.append(&bytes);
        block
    }

    fn range(offset: u64, length: u64) -> FlatRange {
        FlatRange::new(Hold { object: FlatObject(7), released: Rc::default() }, offset, length)
    }

    #[test]
    fn whatever_the_order_of_the_pieces_the_bytes_are_those_of_the_range() {
        let object_bytes = 5 * PIECE_BYTES + 100;
        let ranges = [(0, object_bytes), (1, 10), (PIECE_BYTES - 1, 2), (40_000, 42_020), (object_bytes - 1, 1)];
        for ((offset, length), kept) in ranges.into_iter().flat_map(|range| [(range, 0), (range, 1)]) {
            let mut range = range(offset, length);
            let mut asked = Vec::new();
            while let Some(piece) = range.next_piece() {
                range.asked();
                asked.push(piece);
            }
            assert_eq!(range.asked_bytes(), length);
            let (mut bytes, mut is_refused) = (Vec::new(), false);
            for piece in asked.into_iter().rev() {
                assert!(range.take().is_none(), "the first piece has not come");
                let block = block(piece, object_bytes);
                let come = if piece % 2 == kept { Come::Kept(block.filled()) } else { Come::Alone(block) };
                range.arrived(piece, come);
            }
            while let Some(block) = range.take() {
                is_refused = !is_refused;
                if is_refused {
                    let before = range.length();
                    range.put_back(block);
                    assert!(range.length() > before && range.asked_bytes() == range.length());
                } else {
                    bytes.extend_from_slice(block.bytes());
                }
            }
            let expected: Vec<u8> = (offset..offset + length).map(|byte| (byte % 251) as u8).collect();
            assert!(bytes == expected && range.length() == 0, "{offset}, {length}");
        }
    }

    #[test]
    fn an_end_of_a_hold_is_told() {
        let released = Rc::new(RefCell::new(Vec::new()));
        let hold = Hold { object: FlatObject(3), released: Rc::clone(&released) };
        drop(FlatRange::new(hold, 0, 10));
        assert_eq!(released.borrow().as_slice(), [FlatObject(3)]);
    }
}
