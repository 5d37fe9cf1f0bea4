//! A frame of the log: what one write carries. It has records, or parts of records that are longer than a frame.
//!
//! ```text
//!   0 magic "QLOG"     4 CRC-32C 4   8 position 8   16 epoch 8   24 durable 8   32 CRC-32C of the frame before 4
//!  36 bytes 4, whole units   40 records 4   44 bytes used 4   48 zeroes 16
//!  64 records, each:   bytes 4   kind 1   part 1   zero 2   then its bytes
//!     zeroes up to a whole unit
//! ```
//! The checksum is over the store's identity, the position, and all from byte 8 to the end of the zeroes.

use crate::codec::{put, sum, u32_at, u64_at};
use crate::layout::UNIT_BYTES;
use crate::position::{Position, RECORDS_MAX};
use qanat_api::Block;

const MAGIC: u32 = u32::from_le_bytes(*b"QLOG");
/// Of a frame's header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Where what the checksum covers begins.
const COVERED: usize = 8;
/// Of a record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 8;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Something appended.
    Data,
    /// A part of a checkpoint.
    Checkpoint,
    /// A checkpoint begins.
    Begin,
    /// A checkpoint ends. Its bytes are the position where it began.
    End,
}

impl RecordKind {
    fn number(self) -> u8 {
        match self {
            RecordKind::Data => 1,
            RecordKind::Checkpoint => 2,
            RecordKind::Begin => 3,
            RecordKind::End => 4,
        }
    }

    fn of(number: u8) -> Option<RecordKind> {
        use RecordKind::{Begin, Checkpoint, Data, End};
        [Data, Checkpoint, Begin, End].into_iter().find(|kind| kind.number() == number)
    }
}

/// Which part of a record lies in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Whole,
    First,
    Middle,
    Last,
}

impl Part {
    fn number(self) -> u8 {
        match self {
            Part::Whole => 0,
            Part::First => 1,
            Part::Middle => 2,
            Part::Last => 3,
        }
    }

    fn of(number: u8) -> Option<Part> {
        [Part::Whole, Part::First, Part::Middle, Part::Last].into_iter().find(|part| part.number() == number)
    }

    /// Whether the record begins here.
    pub(crate) fn begins(self) -> bool {
        matches!(self, Part::Whole | Part::First)
    }

    /// Whether the record ends here.
    pub(crate) fn ends(self) -> bool {
        matches!(self, Part::Whole | Part::Last)
    }
}

/// A frame that is being filled, or waits to be written.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) position: u64,
    block: Block,
    /// Bytes it may have, at most.
    capacity: usize,
    records: u32,
    /// All records before this are whole once this frame is there.
    pub(crate) whole: Position,
    /// The block is of the process's own memory.
    pub(crate) is_own: bool,
}

impl Frame {
    /// An empty frame of at most `capacity` bytes: whole units, not zero. It is in `block` if that has the room.
    pub(crate) fn new(position: u64, block: Option<Block>, capacity: usize) -> Frame {
        let block = block.filter(|block| block.len() + block.room() >= capacity);
        let is_own = block.is_none();
        let mut block = block.unwrap_or_else(|| Block::own(capacity));
        block.truncate(0);
        block.append_with(HEADER_BYTES, |header| header.fill(0));
        Frame { position, block, capacity, records: 0, whole: Position::new(position, 0), is_own }
    }

    /// How many bytes of a record it has room for; `None`: not even for an empty one.
    pub(crate) fn room(&self) -> Option<usize> {
        let left = self.capacity.checked_sub(self.block.len())?;
        left.checked_sub(RECORD_HEADER_BYTES).filter(|_| self.records < RECORDS_MAX)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The position that the next record will have.
    pub(crate) fn next(&self) -> Position {
        Position::new(self.position, self.records)
    }

    /// Appends a record's part, of so many bytes, which `fill` writes.
    pub(crate) fn push(&mut self, kind: RecordKind, part: Part, length: usize, fill: impl FnOnce(&mut [u8])) {
        let mut header = [0; RECORD_HEADER_BYTES];
        put(&mut header, 0, &(length as u32).to_le_bytes());
        put(&mut header, 4, &[kind.number(), part.number()]);
        self.block.append(&header);
        self.block.append_with(length, fill);
        self.records += 1;
    }

    /// Its length on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        (self.block.len() as u64).next_multiple_of(UNIT_BYTES)
    }

    /// Where the next one begins.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.bytes()
    }

    /// Its block, taken out to be replaced by [`with_block`](Self::with_block).
    pub(crate) fn into_parts(self) -> (Block, FrameRest) {
        let Frame { position, block, capacity, records, whole, is_own } = self;
        (block, FrameRest { position, capacity, records, whole, is_own })
    }

    /// The block to write, with its header, zeroes and checksum; and that checksum, for the next frame. Nothing may be pushed after.
    pub(crate) fn seal(self, identity: &[u8; 16], (epoch, durable, previous): (u64, u64, u32)) -> (Block, u32) {
        let (used, bytes) = (self.block.len() as u32, self.bytes());
        let mut block = self.block;
        block.append_with(bytes as usize - used as usize, |rest| rest.fill(0));
        let whole = block.bytes_mut();
        put(whole, 0, &MAGIC.to_le_bytes());
        put(whole, 8, &self.position.to_le_bytes());
        put(whole, 16, &epoch.to_le_bytes());
        put(whole, 24, &durable.to_le_bytes());
        put(whole, 32, &previous.to_le_bytes());
        put(whole, 36, &(bytes as u32).to_le_bytes());
        put(whole, 40, &self.records.to_le_bytes());
        put(whole, 44, &used.to_le_bytes());
        let checksum = sum(identity, self.position, whole.get(COVERED..).unwrap_or_default());
        put(whole, 4, &checksum.to_le_bytes());
        (block, checksum)
    }
}

/// A frame without its block.
pub(crate) struct FrameRest {
    position: u64,
    capacity: usize,
    records: u32,
    whole: Position,
    is_own: bool,
}

impl FrameRest {
    pub(crate) fn with_block(self, block: Block) -> Frame {
        let FrameRest { position, capacity, records, whole, is_own } = self;
        Frame { position, block, capacity, records, whole, is_own }
    }
}

/// A frame's header, as read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) epoch: u64,
    pub(crate) durable: u64,
    pub(crate) previous: u32,
    /// Of the whole frame: whole units, at most as many as a frame of this store has.
    pub(crate) bytes: usize,
    pub(crate) records: u32,
    pub(crate) used: usize,
    pub(crate) checksum: u32,
}

impl Header {
    /// The header at the beginning of `bytes`, if it is one that a frame at `position` could have. Its checksum is not looked at.
    pub(crate) fn read(bytes: &[u8], position: u64, frame_bytes: u32) -> Option<Header> {
        if u32_at(bytes, 0)? != MAGIC || u64_at(bytes, 8)? != position {
            return None;
        }
        let header = Header {
            checksum: u32_at(bytes, 4)?,
            epoch: u64_at(bytes, 16)?,
            durable: u64_at(bytes, 24)?,
            previous: u32_at(bytes, 32)?,
            bytes: u32_at(bytes, 36)? as usize,
            records: u32_at(bytes, 40)?,
            used: u32_at(bytes, 44)? as usize,
        };
        let is_whole = header.bytes.is_multiple_of(UNIT_BYTES as usize) && header.bytes > 0;
        let fits = header.bytes <= frame_bytes as usize && (HEADER_BYTES..=header.bytes).contains(&header.used);
        (is_whole && fits && header.records > 0 && header.records <= RECORDS_MAX && header.durable <= position)
            .then_some(header)
    }

    /// Whether all of the frame, which `bytes` begin with, is as it was written.
    pub(crate) fn verifies(&self, bytes: &[u8], identity: &[u8; 16], position: u64) -> bool {
        bytes.get(COVERED..self.bytes).is_some_and(|covered| sum(identity, position, covered) == self.checksum)
    }
}

/// One record of a frame, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) kind: RecordKind,
    pub(crate) part: Part,
    /// Where its bytes are, in the frame.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The piece whose header is at `at` of a frame of which `used` bytes are used.
pub(crate) fn piece(frame: &[u8], at: usize, used: usize) -> Option<Piece> {
    let from = at.checked_add(RECORD_HEADER_BYTES)?;
    let to = from.checked_add(u32_at(frame, at)? as usize)?;
    let [kind, part, 0, 0] = *frame.get(at..)?.get(4..)?.first_chunk::<4>()? else { return None };
    (to <= used && to <= frame.len()).then_some(Piece { kind: RecordKind::of(kind)?, part: Part::of(part)?, from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let mut frame = Frame::new(8_192, None, 8_192);
        frame.push(RecordKind::Data, Part::Whole, 5, |bytes| bytes.copy_from_slice(b"hello"));
        frame.push(RecordKind::End, Part::First, 0, |_| {});
        assert_eq!((frame.bytes(), frame.next()), (4_096, Position::new(8_192, 2)));
        frame.seal(&[1; 16], (3, 4_096, 77)).0.bytes().to_vec()
    }

    #[test]
    fn it_is_read_as_written() {
        let bytes = sealed();
        let header = Header::read(&bytes, 8_192, 65_536).unwrap();
        assert!(header.verifies(&bytes, &[1; 16], 8_192));
        assert_eq!((header.epoch, header.durable, header.previous, header.records), (3, 4_096, 77, 2));
        let first = piece(&bytes, HEADER_BYTES, header.used).unwrap();
        assert_eq!(
            (first.kind, first.part, &bytes[first.from..first.to]),
            (RecordKind::Data, Part::Whole, b"hello".as_slice())
        );
        let second = piece(&bytes, first.to, header.used).unwrap();
        assert_eq!((second.kind, second.part, second.to), (RecordKind::End, Part::First, header.used));
        assert_eq!(piece(&bytes, second.to, header.used), None);
    }

    #[test]
    fn no_changed_byte_other_address_or_store_passes() {
        let mut bytes = sealed();
        let passes = |bytes: &[u8], identity, position| {
            Header::read(bytes, position, 65_536).is_some_and(|header| header.verifies(bytes, identity, position))
        };
        assert!(passes(&bytes, &[1; 16], 8_192));
        assert!(!passes(&bytes, &[2; 16], 8_192) && !passes(&bytes, &[1; 16], 12_288));
        for at in 0..bytes.len() {
            bytes[at] ^= 0x40;
            assert!(!passes(&bytes, &[1; 16], 8_192), "byte {at}");
            bytes[at] ^= 0x40;
        }
    }
}
