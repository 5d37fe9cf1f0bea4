//! [`Recovery`]: walks the log from its start, gives its records in order, and finds its end.
//!
//! A frame counts if its checksum, position and predecessor are right. Where the chain breaks, the log ends, or it is damaged. It is damaged
//! if a later frame says that what is missing was durable when that frame was written, or if the superblock says so. Else nothing
//! that was acknowledged is behind the break: it was torn by a crash, and is cut off.
//!
//! A frame says so with its `durable` position. Frames that earlier openings left behind the end say it as well, but of positions that
//! every later end is beyond. What can be under way at once is bounded, so what is looked at behind the break is bounded, too.

use crate::chain::frame::{HEADER_BYTES, Header, Part, Piece, RecordKind, piece};
use crate::chain::reader::Reader;
use crate::codec::u64_at;
use crate::error::StoreError;
use crate::io::{Io, Role};
use crate::layout::{LOOK_AHEAD_BYTES, UNIT_BYTES};
use crate::position::Position;
use crate::superblock::Superblock;
use qanat_api::{Block, StorageCommands, StorageError};

/// Bytes of one read, if the device takes them.
const CHUNK_BYTES: u32 = 256 << 10;

/// The log as it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Where the next frame goes.
    pub(crate) position: u64,
    /// The checksum of the last frame.
    pub(crate) previous: u32,
    /// Where the last checkpoint that was completed began.
    pub(crate) checkpoint: Option<u64>,
    /// Records given.
    pub(crate) records: u64,
    /// Whether something was cut off.
    pub(crate) was_torn: bool,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Step {
    /// A record: [`Recovery::record_bytes`].
    Record { position: Position, kind: RecordKind },
    /// Nothing before more is read.
    Wait,
    /// The end.
    End(End),
}

/// Where a record's bytes are.
#[derive(Debug)]
enum Place {
    Window(usize, usize),
    Joined,
}

/// The frame whose records are given.
#[derive(Debug)]
struct Open {
    header: Header,
    /// Where the next record's header is, and its number.
    at: usize,
    index: u32,
}

/// A record of which parts were found.
#[derive(Debug)]
struct Partial {
    position: Position,
    kind: RecordKind,
    epoch: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Recovery {
    superblock: Superblock,
    reader: Reader,
    /// The position of the frame that is looked at.
    position: u64,
    open: Option<Open>,
    /// The checksum and epoch of the frame before.
    last: Option<(u32, u64)>,
    partial: Option<Partial>,
    /// The bytes of a record of several parts.
    joined: Vec<u8>,
    place: Place,
    /// Longest record to be joined.
    record_bytes_max: usize,
    /// Where the chain broke, and was read a second time.
    suspect: Option<u64>,
    /// The break is real: what lies behind it is looked at.
    is_looking_ahead: bool,
    begun: Option<u64>,
    checkpoint: Option<u64>,
    records: u64,
}

impl Recovery {
    /// From what the superblock says, on a device of such a largest transfer. No record is longer than `record_bytes_max`.
    pub(crate) fn new(superblock: Superblock, transfer_bytes: u32, record_bytes_max: usize) -> Recovery {
        let chunk = CHUNK_BYTES.min(transfer_bytes) as usize;
        let chunk = (chunk - chunk % UNIT_BYTES as usize).max(superblock.frame_bytes as usize);
        let range = (superblock.start, superblock.start + superblock.ring.bytes);
        Recovery {
            reader: Reader::new(superblock.ring, Role::Recover, chunk, range),
            position: superblock.start,
            // The frame at the start is one that was durable, and needs no predecessor. If there is none yet, what an earlier opening
            // left there is told from what follows by its predecessor.
            last: (superblock.start == superblock.durable).then_some((superblock.previous, 0)),
            superblock,
            open: None,
            partial: None,
            joined: Vec::new(),
            place: Place::Joined,
            record_bytes_max,
            suspect: None,
            is_looking_ahead: false,
            begun: None,
            checkpoint: None,
            records: 0,
        }
    }

    /// Asks for what is needed next.
    pub(crate) fn pump(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let wanted = if self.is_looking_ahead { LOOK_AHEAD_BYTES } else { u64::from(self.superblock.frame_bytes) };
        self.reader.pump(wanted as usize, io, storage)
    }

    /// A read has ended.
    pub(crate) fn arrived(&mut self, number: u64, result: Result<Block, StorageError>) -> Result<(), StoreError> {
        self.reader.arrived(number, result)
    }

    /// How far it has come: bytes of the log that were looked at.
    pub(crate) fn progress(&self) -> u64 {
        self.position - self.superblock.start
    }

    /// The bytes of the record that the last step gave.
    pub(crate) fn record_bytes(&self) -> &[u8] {
        match self.place {
            Place::Window(from, to) => self.reader.bytes().get(from..to).unwrap_or_default(),
            Place::Joined => &self.joined,
        }
    }

    /// Goes on to the next record, or as far as can be.
    pub(crate) fn step(&mut self) -> Result<Step, StoreError> {
        loop {
            if let Some(open) = &mut self.open {
                if open.index < open.header.records {
                    if let Some(step) = self.next_piece()? {
                        return Ok(step);
                    }
                    continue;
                }
                let bytes = open.header.bytes;
                if open.at != open.header.used {
                    return Err(self.contradiction("a frame has more bytes than its records"));
                }
                self.open = None;
                self.reader.consume(bytes);
                self.position += bytes as u64;
            }
            if self.is_looking_ahead {
                return self.look_ahead();
            }
            match self.frame() {
                Looked::Short => return Ok(Step::Wait),
                Looked::Good(header) => {
                    self.judge(&header)?;
                    self.last = Some((header.checksum, header.epoch));
                    self.open = Some(Open { header, at: HEADER_BYTES, index: 0 });
                }
                Looked::Broken if self.suspect == Some(self.position) => self.is_looking_ahead = true,
                Looked::Broken => {
                    // A read that went astray is not believed: what is there is read once more.
                    self.suspect = Some(self.position);
                    self.reader.restart(self.position);
                    return Ok(Step::Wait);
                }
            }
        }
    }

    fn contradiction(&self, what: &'static str) -> StoreError {
        StoreError::Contradiction { place: self.superblock.ring.place(self.position), what }
    }

    /// Looks whether a frame that follows the last one is at the position.
    fn frame(&self) -> Looked {
        let (bytes, position) = (self.reader.bytes(), self.position);
        // The beginning of a unit is enough to see that there is no frame.
        if bytes.len() < UNIT_BYTES as usize {
            return if self.reader.is_at_limit() { Looked::Broken } else { Looked::Short };
        }
        let Some(header) = Header::read(bytes, position, self.superblock.frame_bytes) else { return Looked::Broken };
        if bytes.len() < header.bytes {
            return if self.reader.is_at_limit() { Looked::Broken } else { Looked::Short };
        }
        let follows = self.last.is_none_or(|(previous, epoch)| header.previous == previous && header.epoch >= epoch);
        let is_cut = position >= self.superblock.opened && header.epoch < self.superblock.epoch;
        let fits = header.bytes as u64 <= self.superblock.ring.until_wrap(position);
        if follows && fits && !is_cut && header.verifies(bytes, &self.superblock.identity, position) {
            Looked::Good(header)
        } else {
            Looked::Broken
        }
    }

    /// What a frame says that is right by its checksum.
    fn judge(&self, header: &Header) -> Result<(), StoreError> {
        if header.epoch > self.superblock.epoch {
            return Err(self.contradiction("a frame is newer than the superblocks"));
        }
        Ok(())
    }

    /// The next record of the open frame; `None`: it was a part, or is none of the caller's.
    fn next_piece(&mut self) -> Result<Option<Step>, StoreError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let (header, position) = (open.header, Position::new(self.position, open.index));
        let Some(found) = piece(self.reader.bytes(), open.at, header.used) else {
            return Err(self.contradiction("a frame's records can't be read"));
        };
        open.at = found.to;
        open.index += 1;
        let Some((position, kind)) = self.join(position, found, header.epoch)? else { return Ok(None) };
        match kind {
            RecordKind::Data | RecordKind::Checkpoint => {
                self.records += 1;
                return Ok(Some(Step::Record { position, kind }));
            }
            RecordKind::Begin => self.begun = Some(position.frame()),
            RecordKind::End => {
                let began = u64_at(self.record_bytes(), 0);
                // One that began before the start is not complete any more.
                self.checkpoint = self.begun.filter(|begun| began == Some(*begun)).or(self.checkpoint);
            }
        }
        Ok(None)
    }

    /// Puts a record's parts together; the record's position and kind if it is whole now.
    fn join(
        &mut self,
        position: Position,
        found: Piece,
        epoch: u64,
    ) -> Result<Option<(Position, RecordKind)>, StoreError> {
        let partial = self.partial.take();
        if found.part.begins() {
            // Only a crash leaves a record without its end: the frame after it is of a later opening.
            if partial.is_some_and(|partial| partial.epoch >= epoch) {
                return Err(self.contradiction("a record has no end"));
            }
            if found.part == Part::Whole {
                self.place = Place::Window(found.from, found.to);
                return Ok(Some((position, found.kind)));
            }
            self.joined.clear();
            self.partial = Some(Partial { position, kind: found.kind, epoch });
        } else {
            match partial {
                Some(partial) if partial.kind == found.kind && partial.epoch == epoch => self.partial = Some(partial),
                // The record began before the start, and is none any more.
                None if self.records == 0 && self.begun.is_none() && self.position == self.superblock.start => {
                    return Ok(None);
                }
                _ => return Err(self.contradiction("a record has no beginning")),
            }
        }
        let bytes = self.reader.bytes().get(found.from..found.to).unwrap_or_default();
        if self.joined.len() + bytes.len() > self.record_bytes_max {
            return Err(self.contradiction("a record is longer than may be"));
        }
        self.joined.extend_from_slice(bytes);
        self.place = Place::Joined;
        let whole = self.partial.take_if(|_| found.part.ends());
        Ok(whole.map(|partial| (partial.position, partial.kind)))
    }

    /// The chain is broken at the position: says whether that is the end, once enough of what follows is there.
    fn look_ahead(&mut self) -> Result<Step, StoreError> {
        let ring = self.superblock.ring;
        let rotten = StoreError::Rotten { place: ring.place(self.position) };
        if self.position < self.superblock.durable {
            return Err(rotten);
        }
        let limit = (self.superblock.start + ring.bytes).min(self.position + LOOK_AHEAD_BYTES);
        self.reader.set_limit(limit);
        if !self.reader.is_at_limit() {
            return Ok(Step::Wait);
        }
        let (bytes, identity) = (self.reader.bytes(), &self.superblock.identity);
        let mut was_torn = false;
        for (index, _) in bytes.chunks_exact(UNIT_BYTES as usize).enumerate() {
            let from = index * UNIT_BYTES as usize;
            let position = self.position + from as u64;
            let rest = bytes.get(from..).unwrap_or_default();
            let Some(header) = Header::read(rest, position, self.superblock.frame_bytes) else { continue };
            was_torn = true;
            if header.durable > self.position && header.verifies(rest, identity, position) {
                return Err(rotten);
            }
        }
        Ok(Step::End(End {
            position: self.position,
            previous: self.last.map_or(self.superblock.previous, |(previous, _)| previous),
            checkpoint: self.checkpoint,
            records: self.records,
            was_torn: was_torn || self.partial.is_some(),
        }))
    }
}

/// What is at a position.
enum Looked {
    /// More has to be read to tell.
    Short,
    Good(Header),
    Broken,
}
