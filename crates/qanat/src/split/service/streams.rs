//! What a service's connections have been given to send: pieces not yet in transmit memory, and blocks in it that wait for
//! their acknowledgement.
//!
//! A piece is lent by the service as in the linked placement, but its bytes are in the service's own memory, which the net
//! core cannot see: they are copied into a block of transmit memory (several short ones into one block), and the block is
//! lent to the net core until the peer has acknowledged it. The net core copies nothing aside. What the service filled in
//! transmit memory itself ([`Block`](crate::Block)) is lent as it is, on as many connections as it likes.

use bytes::{Buf, Bytes};
use qanat_nic::{Frame, Pool};
use qanat_stack::Source;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of one connection in transmit memory at most: what a fast connection may have in flight, and no more, so that one
/// slow reader does not take all.
pub(crate) const LENT_BYTES_MAX: usize = 1 << 20;
/// Blocks of one connection at most; the stack takes 1,024 pieces.
pub(crate) const LENT_BLOCKS_MAX: usize = 512;
/// Pieces of one connection that wait at most, as in the stack.
pub(crate) const PIECES_MAX: usize = 1_024;

/// Bytes to send.
pub(crate) enum Piece {
    Bytes(Bytes),
    Prepared {
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    },
    /// In transmit memory already.
    Block(Rc<Frame>),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Prepared { length, .. } => *length,
            Piece::Block(frame) => frame.len() as u64,
        }
    }

    /// Copies its first bytes into all of `target`, and forgets them.
    fn move_into(&mut self, target: &mut [u8]) {
        match self {
            Piece::Bytes(bytes) => bytes.copy_to_slice(target),
            Piece::Prepared { source, stamp, offset, length } => {
                source.fill(*stamp, *offset, target);
                *offset += target.len() as u64;
                *length -= target.len() as u64;
            }
            // Taken as it is.
            Piece::Block(_) => {}
        }
    }
}

/// Memory lent to the net core until the peer has acknowledged what is in it.
pub(crate) enum Lent {
    Block(Frame),
    /// The service holds it, too, or did.
    Shared(Rc<Frame>),
}

impl Lent {
    fn frame(&self) -> &Frame {
        match self {
            Lent::Block(frame) => frame,
            Lent::Shared(frame) => frame,
        }
    }
}

/// How a stream ends once its pieces are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finish {
    Shutdown,
    Close,
}

/// A connection's sending side.
#[derive(Default)]
pub(crate) struct Stream {
    pub generation: u32,
    pub open: bool,
    pub connected: bool,
    /// Nothing more is taken from the service.
    pub ended: bool,
    /// Received bytes are not passed on any more.
    pub deaf: bool,
    pub finish: Option<Finish>,
    /// It has its turn at the end of this one: it waits for transmit memory, or has consumed something.
    pub queued: bool,
    /// The last frame consumed, of which the net core is yet to be told: what is sent next may tell it, too.
    pub consumed: Option<u32>,
    /// Received pieces the service has.
    pub held: u32,
    /// It is given up to another service: what still comes of it is not looked at.
    pub yielded: bool,
    /// Bytes to be acknowledged that another service sent before it gave the connection up.
    pub foreign: usize,
    pieces: VecDeque<Piece>,
    waiting_bytes: u64,
    lent: VecDeque<Lent>,
    lent_bytes: usize,
    /// Acknowledged bytes of the first block.
    acknowledged: usize,
}

impl Stream {
    /// A new connection in this slot; buffers are kept.
    pub(crate) fn begin(&mut self, generation: u32, connected: bool) {
        self.end();
        self.yielded = false;
        (self.generation, self.open, self.connected) = (generation, true, connected);
    }

    /// It is another's. The net core still sends from the memory lent to it, which is kept until all ends.
    pub(crate) fn give_up(&mut self, kept: &mut Vec<Lent>) {
        kept.extend(self.lent.drain(..));
        self.end();
        self.yielded = true;
    }

    /// The connection is gone.
    pub(crate) fn end(&mut self) {
        (self.held, self.foreign) = (0, 0);
        self.pieces.clear();
        self.lent.clear();
        (self.waiting_bytes, self.lent_bytes, self.acknowledged, self.consumed) = (0, 0, 0, None);
        (self.open, self.connected, self.ended, self.deaf, self.finish) = (false, false, false, false, None);
    }

    #[inline]
    pub(crate) fn put(&mut self, piece: Piece) {
        let length = piece.length();
        if length > 0 {
            self.waiting_bytes += length;
            self.pieces.push_back(piece);
        }
    }

    pub(crate) fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Whether acknowledgements are what it waits for, not memory.
    pub(crate) fn is_in_flight_enough(&self) -> bool {
        self.lent_bytes >= LENT_BYTES_MAX || self.lent.len() >= LENT_BLOCKS_MAX
    }

    /// Copies what waits into a block, as much as fits. `None`: nothing waits, enough is in flight, or no block is free. Its
    /// place in its region, and its length.
    pub(crate) fn fill_block(&mut self, small: &Pool, large: &Pool) -> Option<(bool, usize, usize)> {
        if self.pieces.is_empty() || self.is_in_flight_enough() {
            return None;
        }
        if let Some(Piece::Block(frame)) = self.pieces.front() {
            let lent = Lent::Shared(Rc::clone(frame));
            self.pieces.pop_front();
            self.waiting_bytes -= lent.frame().len() as u64;
            return Some(self.lend(lent, large));
        }
        let fits_small = self.waiting_bytes <= u64::from(small.region().frame_size());
        let (first, second) = if fits_small { (small, large) } else { (large, small) };
        let mut block = first.allocate(0).or_else(|| second.allocate(0))?;
        while let Some(piece) = self.pieces.front_mut().filter(|piece| !matches!(piece, Piece::Block(_))) {
            let length = piece.length().min(block.tailroom() as u64) as usize;
            let Some(target) = block.append(length).filter(|_| length > 0) else { break };
            piece.move_into(target);
            self.waiting_bytes -= length as u64;
            if piece.length() == 0 {
                self.pieces.pop_front();
            }
        }
        Some(self.lend(Lent::Block(block), large))
    }

    fn lend(&mut self, lent: Lent, large: &Pool) -> (bool, usize, usize) {
        let block = lent.frame();
        let place = (block.is_of(large), block.offset_in_region(), block.len());
        self.lent_bytes += place.2;
        self.lent.push_back(lent);
        place
    }

    /// The peer has acknowledged so many more bytes: whole blocks are free again. How many were this service's.
    #[inline]
    pub(crate) fn acknowledged(&mut self, bytes: usize) -> usize {
        let foreign = bytes.min(self.foreign);
        self.foreign -= foreign;
        let bytes = bytes - foreign;
        self.acknowledged += bytes;
        while let Some(first) = self.lent.front().map(Lent::frame)
            && self.acknowledged >= first.len()
        {
            let length = first.len();
            self.acknowledged -= length;
            self.lent_bytes -= length;
            self.lent.pop_front();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_nic::Region;

    #[test]
    fn a_filled_block_is_lent_as_it_is_and_stays_with_who_holds_it() {
        let (small, large) = (Region::new(4, 2_048).unwrap(), Region::new(2, 65_536).unwrap());
        let (small, large) = (small.pool(4).unwrap(), large.pool(2).unwrap());
        let mut block = large.allocate(0).unwrap();
        block.append(3_000).unwrap();
        let block = Rc::new(block);
        let mut stream = Stream::default();
        stream.begin(1, true);
        // Between others, twice: it is neither copied nor waits for a free block.
        stream.put(Piece::Bytes(Bytes::from_static(b"before")));
        stream.put(Piece::Block(Rc::clone(&block)));
        stream.put(Piece::Block(Rc::clone(&block)));
        stream.put(Piece::Bytes(Bytes::from_static(b"after")));
        let lent: Vec<_> = std::iter::from_fn(|| stream.fill_block(&small, &large)).collect();
        assert_eq!(lent[1], (true, block.offset_in_region(), 3_000));
        assert_eq!((lent[1], lent.iter().map(|lent| lent.2).collect::<Vec<_>>()), (lent[2], vec![6, 3_000, 3_000, 5]));
        stream.acknowledged(6_011);
        assert_eq!((small.in_use_count(), large.in_use_count(), Rc::strong_count(&block)), (0, 1, 1));
    }

    #[test]
    fn pieces_share_blocks_and_blocks_come_home() {
        let (small, large) = (Region::new(4, 2_048).unwrap(), Region::new(2, 65_536).unwrap());
        let (small, large) = (small.pool(4).unwrap(), large.pool(2).unwrap());
        let mut stream = Stream::default();
        stream.begin(1, true);
        stream.put(Piece::Bytes(Bytes::from_static(b"head ")));
        stream.put(Piece::Bytes(Bytes::from_static(b"body")));
        assert_eq!(stream.fill_block(&small, &large), Some((false, 0, 9)));
        assert_eq!(stream.lent.front().unwrap().frame().bytes(), b"head body");
        stream.put(Piece::Bytes(vec![7; 140_000].into()));
        let lengths: Vec<_> =
            std::iter::from_fn(|| stream.fill_block(&small, &large)).map(|(l, _, n)| (l, n)).collect();
        assert_eq!(lengths, [(true, 65_536), (true, 65_536), (false, 2_048), (false, 2_048), (false, 2_048)]);
        assert!(stream.has_waiting() && !stream.is_in_flight_enough());
        stream.acknowledged(9 + 65_535);
        assert_eq!((small.free_count(), large.free_count()), (1, 0));
        stream.acknowledged(1);
        assert_eq!(large.free_count(), 1);
        assert_eq!(stream.fill_block(&small, &large).map(|(_, _, length)| length), Some(140_000 - 131_072 - 3 * 2_048));
        stream.end();
        assert_eq!((small.in_use_count(), large.in_use_count()), (0, 0));
    }
}
