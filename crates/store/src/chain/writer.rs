//! [`Writer`]: collects records in frames, and writes and flushes them in batches.
//!
//! ```text
//!  append ─► open frame ─► closed frames ─► written ─► flushed ─► durable
//!             (filling)      (full)          └── one batch ──┘
//! ```
//! Group commit: while a batch is on its way, what is appended collects and is the next one. If none is, it goes at once. A batch of one
//! frame is one durable write; a larger one is written and then flushed.

use crate::chain::frame::{Frame, HEADER_BYTES, Part, RECORD_HEADER_BYTES, RecordKind};
use crate::error::StoreError;
use crate::head::Extent;
use crate::io::{Io, Role};
use crate::layout::{IN_FLIGHT_BYTES_MAX, Ring, UNIT_BYTES};
use crate::position::Position;
use qanat_api::{Durability, StorageCommands};
use std::collections::VecDeque;

/// A frame that is being written, or was and is not flushed.
#[derive(Debug)]
struct Flying {
    number: u64,
    place: u64,
    is_written: bool,
}

/// What the writer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStatistics {
    /// Records appended, parts of checkpoints included.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Batches made durable.
    pub batches: u64,
    /// Frames written.
    pub frames: u64,
    /// Bytes written, with headers and what fills units.
    pub written_bytes: u64,
    /// Appends that were refused because too much waited for the disk.
    pub busy: u64,
    /// Appends that were refused because the log was full.
    pub full: u64,
}

/// Where a writer begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) ring: Ring,
    pub(crate) identity: [u8; 16],
    pub(crate) epoch: u64,
    pub(crate) frame_bytes: u32,
    /// The first position that counts.
    pub(crate) start: u64,
    /// Where the next frame goes.
    pub(crate) end: u64,
    /// The checksum of the frame before.
    pub(crate) previous: u32,
    /// Bytes that may wait for the disk.
    pub(crate) pending_bytes_max: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Writer {
    origin: Origin,
    /// The frame that is filled.
    open: Option<Frame>,
    closed: VecDeque<Frame>,
    /// Frames in the process's own memory.
    own: usize,
    /// Of the batch on its way, in the order of positions.
    flying: Vec<Flying>,
    is_flushing: bool,
    /// What was appended is to go.
    is_wanted: bool,
    /// What is durable once the batch is: the position behind it, and that before which all records are whole.
    batch_end: (u64, Position),
    /// All frames before this are durable, and the last one's checksum.
    durable: u64,
    durable_previous: u32,
    /// All records before this are.
    whole: Position,
    /// Where the frame after the last closed one begins.
    next: u64,
    /// Bytes in frames that are closed and not durable.
    pending: u64,
    numbers: u64,
    statistics: LogStatistics,
}

impl Writer {
    /// A log that ends at the origin's end.
    pub(crate) fn new(origin: Origin) -> Writer {
        Writer {
            origin,
            open: None,
            closed: VecDeque::new(),
            own: 0,
            flying: Vec::new(),
            is_flushing: false,
            is_wanted: false,
            batch_end: (origin.end, Position::new(origin.end, 0)),
            durable: origin.end,
            durable_previous: origin.previous,
            whole: Position::new(origin.end, 0),
            next: origin.end,
            pending: 0,
            numbers: 0,
            statistics: LogStatistics::default(),
        }
    }

    pub(crate) fn statistics(&self) -> LogStatistics {
        self.statistics
    }

    /// All records before it are durable.
    pub(crate) fn whole(&self) -> Position {
        self.whole
    }

    /// The log as it is durable, if it begins at `start`.
    pub(crate) fn extent(&self, start: u64) -> Extent {
        Extent { start, durable: self.durable, previous: self.durable_previous }
    }

    /// The first position that counts.
    pub(crate) fn start(&self) -> u64 {
        self.origin.start
    }

    /// Where the frame lies that is written with this number.
    pub(crate) fn place_of(&self, number: u64) -> u64 {
        self.flying.iter().find(|flying| flying.number == number).map_or(0, |flying| flying.place)
    }

    /// The position behind all that was appended.
    pub(crate) fn end(&self) -> u64 {
        self.open.as_ref().map_or(self.next, Frame::end)
    }

    /// Whether everything appended is durable.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_none() && self.closed.is_empty() && self.flying.is_empty()
    }

    /// Bytes of the log in use.
    pub(crate) fn used(&self) -> u64 {
        self.end() - self.origin.start
    }

    /// Bytes that are free.
    pub(crate) fn free(&self) -> u64 {
        self.origin.ring.bytes.saturating_sub(self.used())
    }

    /// What is before `start` is given up.
    pub(crate) fn set_start(&mut self, start: u64) {
        self.origin.start = self.origin.start.max(start);
    }

    /// Bytes that a record takes at most, with all that belongs to it.
    pub(crate) fn cost(&self, bytes: u64) -> u64 {
        let a_frame = u64::from(self.origin.frame_bytes) - (HEADER_BYTES + RECORD_HEADER_BYTES) as u64;
        // The frame that is open may have no room, and the ring may begin again in the middle: two more than it would take.
        let frames = bytes / a_frame + 3;
        bytes + frames * (HEADER_BYTES + RECORD_HEADER_BYTES) as u64 + 2 * UNIT_BYTES
    }

    /// Appends a record. `reserve`: bytes of the log that it must leave free.
    pub(crate) fn append(
        &mut self,
        kind: RecordKind,
        pieces: &[&[u8]],
        reserve: u64,
        (io, storage): (&Io, &mut dyn StorageCommands),
    ) -> Result<Position, StoreError> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let (wanted, free) = (self.cost(total as u64), self.free().saturating_sub(reserve));
        if wanted > free {
            self.statistics.full += 1;
            return Err(StoreError::Full { wanted, free });
        }
        // One record is always taken if nothing waits: else one that is longer than may wait never could be.
        if self.pending > 0 && self.pending + wanted > self.origin.pending_bytes_max {
            self.statistics.busy += 1;
            return Err(StoreError::Busy { pending: self.pending });
        }
        let mut source = Pieces { pieces, at: 0 };
        let (mut left, mut began) = (total, None);
        loop {
            let frame = self.frame_for(left, (io, storage));
            let taken = frame.room().unwrap_or_default().min(left);
            let part = match (began, taken == left) {
                (None, true) => Part::Whole,
                (None, false) => Part::First,
                (Some(_), false) => Part::Middle,
                (Some(_), true) => Part::Last,
            };
            let position = *began.get_or_insert(frame.next());
            frame.push(kind, part, taken, |target| source.fill(target));
            left -= taken;
            frame.whole = if part.ends() { Position::new(frame.end(), 0) } else { position };
            if part.ends() {
                self.statistics.records += 1;
                self.statistics.record_bytes += total as u64;
                return Ok(position);
            }
        }
    }

    /// The open frame, with room for a part of a record of which so much is left.
    fn frame_for(&mut self, left: usize, (io, storage): (&Io, &mut dyn StorageCommands)) -> &mut Frame {
        // A part of a few bytes is not worth a record of its own.
        let least = left.min(RECORD_HEADER_BYTES);
        if self.open.as_ref().is_some_and(|frame| frame.room().is_none_or(|room| room < least)) {
            self.close();
        }
        let (position, origin) = (self.next, self.origin);
        let own = &mut self.own;
        self.open.get_or_insert_with(|| {
            let capacity = u64::from(origin.frame_bytes).min(origin.ring.until_wrap(position)) as usize;
            // The records are put where the disk takes them from. If all of that memory is in use, they are in the process's own and
            // copied once more. The frames behind them are as well, or they could take the memory that those before them need.
            let block = if *own == 0 { io.block(storage) } else { None };
            let frame = Frame::new(position, block, capacity);
            *own += usize::from(frame.is_own);
            frame
        })
    }

    /// Ends the open frame: what follows begins another.
    pub(crate) fn close(&mut self) {
        let Some(frame) = self.open.take_if(|frame| !frame.is_empty()) else { return };
        self.next = frame.end();
        self.pending += frame.bytes();
        self.closed.push_back(frame);
    }

    /// What was appended is to be made durable.
    pub(crate) fn commit(&mut self) {
        self.is_wanted = true;
    }

    /// Flushes the batch on its way if it is written, or starts one if none is and something was committed.
    pub(crate) fn pump(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        if !self.flying.is_empty() {
            return self.flush_if_written(io, storage);
        }
        if !self.is_wanted {
            return Ok(());
        }
        self.close();
        let durability = if self.closed.len() == 1 { Durability::Durable } else { Durability::Cached };
        let mut bytes = 0;
        while bytes < IN_FLIGHT_BYTES_MAX / 2 && io.has_room() {
            let Some(frame) = self.closed.pop_front() else { break };
            let (block, rest) = frame.into_parts();
            let frame = match io.of_area(block, storage) {
                Ok(block) => rest.with_block(block),
                Err(block) => {
                    self.closed.push_front(rest.with_block(block));
                    break;
                }
            };
            self.own -= usize::from(frame.is_own);
            let (position, length, whole, end) = (frame.position, frame.bytes(), frame.whole, frame.end());
            let (block, checksum) =
                frame.seal(&self.origin.identity, (self.origin.epoch, self.durable, self.origin.previous));
            self.origin.previous = checksum;
            let place = self.origin.ring.place(position);
            io.write(storage, (place, block), durability, (Role::Frame, self.numbers))?;
            self.flying.push(Flying { number: self.numbers, place, is_written: false });
            // One that is alone and durable is flushed by that.
            self.is_flushing = durability == Durability::Durable;
            self.batch_end = (end, whole);
            self.numbers += 1;
            bytes += length;
            self.statistics.frames += 1;
            self.statistics.written_bytes += length;
        }
        self.is_wanted = !self.closed.is_empty();
        Ok(())
    }

    /// A frame was written; whether more is durable than before.
    pub(crate) fn written(&mut self, number: u64) -> bool {
        for flying in self.flying.iter_mut().filter(|flying| flying.number == number) {
            flying.is_written = true;
        }
        self.is_flushing && self.flying.len() == 1 && self.finish()
    }

    /// Flushes the batch once all of it is written.
    fn flush_if_written(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        if !self.is_flushing && self.flying.iter().all(|flying| flying.is_written) {
            self.is_flushing = io.flush(storage, (Role::Flush, 0))?;
        }
        Ok(())
    }

    /// The batch was flushed.
    pub(crate) fn flushed(&mut self) -> bool {
        self.finish()
    }

    fn finish(&mut self) -> bool {
        if !self.flying.iter().all(|flying| flying.is_written) {
            return false;
        }
        let (end, whole) = self.batch_end;
        self.pending = self.pending.saturating_sub(end.saturating_sub(self.durable));
        (self.durable, self.whole) = (end, whole);
        // No frame of the next batch was sealed yet.
        self.durable_previous = self.origin.previous;
        self.flying.clear();
        self.is_flushing = false;
        self.statistics.batches += 1;
        true
    }
}

/// Bytes of several pieces, one after the other.
struct Pieces<'a> {
    pieces: &'a [&'a [u8]],
    /// Of the first piece, what was taken.
    at: usize,
}

impl Pieces<'_> {
    fn fill(&mut self, target: &mut [u8]) {
        let mut filled = 0;
        while let Some((first, rest)) = self.pieces.split_first()
            && filled < target.len()
        {
            let count = (first.len() - self.at).min(target.len() - filled);
            let (source, target) = (first.get(self.at..self.at + count), target.get_mut(filled..filled + count));
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
            }
            (filled, self.at) = (filled + count, self.at + count);
            if self.at == first.len() {
                (self.pieces, self.at) = (rest, 0);
            }
        }
    }
}
