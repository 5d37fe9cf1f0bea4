//! [`Reads`]: the objects that somebody holds, and what is read of them.

use crate::error::StoreError;
use crate::io::{Io, Role};
use crate::layout::UNIT_BYTES;
use crate::objects::sums::{self, PIECE_BYTES, SUMS_A_UNIT};
use crate::objects::table::Extent;
use qanat_api::{Block, StorageCommands, StorageError};
use std::collections::{BTreeMap, VecDeque};

/// Units of checksums of an object that is held that are kept in memory: for 64 MiB of it. Those used last stay.
const UNITS_MAX: usize = 4;
/// Checksums of objects that nobody holds now that are kept: for 4 GiB of them.
const IDLE_SUMS_MAX: usize = 1 << 18;
/// What an object counts besides its checksums.
const IDLE_COST: usize = 32;
/// Reads that may be asked for at once.
const READS_MAX: usize = 4_096;

/// An object that somebody holds, or held lately. Its room is not given up while somebody does.
#[derive(Debug)]
struct Held {
    extent: Extent,
    holds: u32,
    /// It was removed meanwhile: its room is free when the last one releases it.
    is_removed: bool,
    /// Requests under way.
    under_way: u32,
    /// Checksums that were read, by unit, and when each was used last.
    units: BTreeMap<u64, (u64, Vec<u32>)>,
    uses: u64,
    /// Units of checksums that are being read, and the readings that wait for each.
    fetching: BTreeMap<u64, Vec<u64>>,
    /// Nobody holds it, and it is in the list of those.
    is_idle: bool,
}

impl Held {
    /// Checksums that are in memory.
    fn sums(&self) -> usize {
        self.units.values().map(|(_, sums)| sums.len()).sum()
    }

    /// A piece's checksum, if it is in memory.
    fn sum(&mut self, piece: u64) -> Option<u32> {
        self.uses += 1;
        let (used, sums) = self.units.get_mut(&(piece / SUMS_A_UNIT))?;
        *used = self.uses;
        sums.get((piece % SUMS_A_UNIT) as usize).copied()
    }

    /// Keeps a unit of checksums.
    fn keep(&mut self, unit: u64, sums: Vec<u32>) {
        let oldest = self.units.iter().min_by_key(|(_, (used, _))| *used).map(|(unit, _)| *unit);
        if let Some(oldest) = oldest.filter(|_| self.units.len() >= UNITS_MAX) {
            self.units.remove(&oldest);
        }
        self.uses += 1;
        self.units.insert(unit, (self.uses, sums));
    }
}

/// A piece that was asked for.
#[derive(Clone, Copy, Debug)]
struct Reading {
    generation: u64,
    piece: u64,
    token: u64,
    /// The piece's checksum, once it is known: it is read before the piece.
    sum: Option<u32>,
    /// What came was not right: it is read once more.
    is_doubted: bool,
}

/// The end of a reading: its token, and what was read.
pub(crate) type Read = (u64, Result<Block, StoreError>);

/// See the module.
// The maps take memory for their nodes now and then; there are at most as many as reads may be asked for.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    held: BTreeMap<u64, Held>,
    readings: BTreeMap<u64, Reading>,
    /// Readings that wait for a request of theirs to be taken.
    waiting: VecDeque<u64>,
    /// Readings so far.
    numbers: u64,
    /// Objects that nobody holds, those longest so first, each with what it counts; and what all of them count.
    idle: VecDeque<(u64, usize)>,
    idle_sums: usize,
    identity: [u8; 16],
}

impl Reads {
    /// Of a store of this identity.
    pub(crate) fn new(identity: [u8; 16]) -> Reads {
        Reads { identity, ..Reads::default() }
    }

    /// Somebody holds an object.
    pub(crate) fn hold(&mut self, extent: Extent) {
        let held = self.held.entry(extent.generation).or_insert(Held {
            extent,
            holds: 0,
            is_removed: false,
            under_way: 0,
            units: BTreeMap::new(),
            uses: 0,
            fetching: BTreeMap::new(),
            is_idle: false,
        });
        held.holds += 1;
    }

    /// Somebody holds it no more. Returns room that is free by that.
    pub(crate) fn release(&mut self, generation: u64) -> Option<Extent> {
        let held = self.held.get_mut(&generation)?;
        held.holds = held.holds.saturating_sub(1);
        self.forget(generation)
    }

    /// An object was removed. Returns its room if nobody holds it.
    pub(crate) fn removed(&mut self, extent: Extent) -> Option<Extent> {
        let Some(held) = self.held.get_mut(&extent.generation) else { return Some(extent) };
        held.is_removed = true;
        self.forget(extent.generation)
    }

    /// Gives up the room of an object that was removed and that nobody holds, once nothing of it is being read. The checksums of another
    /// are kept for who holds it next.
    fn forget(&mut self, generation: u64) -> Option<Extent> {
        let held = self.held.get_mut(&generation).filter(|held| held.holds == 0 && held.under_way == 0)?;
        if held.is_removed {
            let held = self.held.remove(&generation)?;
            return Some(held.extent);
        }
        if !std::mem::replace(&mut held.is_idle, true) {
            let counts = IDLE_COST + held.sums();
            self.idle_sums += counts;
            self.idle.push_back((generation, counts));
        }
        while self.idle_sums > IDLE_SUMS_MAX
            && let Some((oldest, counts)) = self.idle.pop_front()
        {
            self.idle_sums -= counts;
            self.drop_idle(oldest);
        }
        None
    }

    /// An object leaves the list of those that nobody holds, and is forgotten if nobody does.
    fn drop_idle(&mut self, generation: u64) {
        let Some(held) = self.held.get_mut(&generation) else { return };
        held.is_idle = false;
        if held.holds == 0 && held.under_way == 0 {
            self.held.remove(&generation);
        }
    }

    /// Asks for a piece.
    pub(crate) fn want(&mut self, generation: u64, piece: u64, token: u64) -> Result<(), StoreError> {
        let held = self.held.get_mut(&generation).filter(|held| held.holds > 0).ok_or(StoreError::None)?;
        held.extent.piece(piece).ok_or(StoreError::None)?;
        if self.readings.len() >= READS_MAX {
            return Err(StoreError::Busy { pending: READS_MAX as u64 * PIECE_BYTES });
        }
        self.numbers += 1;
        self.readings.insert(self.numbers, Reading { generation, piece, token, sum: None, is_doubted: false });
        self.waiting.push_back(self.numbers);
        Ok(())
    }

    /// Gives the commands that can be given now. Returns a reading that has ended without one.
    pub(crate) fn drive(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<Option<Read>, StoreError> {
        while let Some(number) = self.waiting.front().copied() {
            let Some(reading) = self.readings.get_mut(&number) else {
                self.waiting.pop_front();
                continue;
            };
            let Some(held) = self.held.get_mut(&reading.generation).filter(|held| held.holds > 0) else {
                self.waiting.pop_front();
                return Ok(self.end(number, Err(StoreError::None)));
            };
            reading.sum = reading.sum.or_else(|| held.sum(reading.piece));
            let unit = reading.piece / SUMS_A_UNIT;
            if reading.sum.is_none()
                && let Some(waiters) = held.fetching.get_mut(&unit)
            {
                waiters.push(number);
                self.waiting.pop_front();
                continue;
            }
            let (place, length) = match (reading.sum, held.extent.piece(reading.piece)) {
                (Some(_), Some(piece)) => piece,
                _ => (held.extent.sums_place(unit), UNIT_BYTES),
            };
            // Whether the checksums or the piece come is in the number, too.
            let what = number << 1 | u64::from(reading.sum.is_some());
            if !io.read(storage, (place, length as usize), (Role::ObjectRead, what))? {
                break;
            }
            held.under_way += 1;
            if reading.sum.is_none() {
                held.fetching.insert(unit, Vec::new());
            }
            self.waiting.pop_front();
        }
        Ok(None)
    }

    fn end(&mut self, number: u64, result: Result<Block, StoreError>) -> Option<Read> {
        self.readings.remove(&number).map(|reading| (reading.token, result))
    }

    /// A request has ended. Returns the end of a reading, and room that is free by that.
    pub(crate) fn arrived(&mut self, what: u64, result: Result<Block, StorageError>) -> (Option<Read>, Option<Extent>) {
        let (number, is_piece) = (what >> 1, what & 1 == 1);
        let Some(reading) = self.readings.get(&number).copied() else { return (None, None) };
        let Some(held) = self.held.get_mut(&reading.generation) else { return (None, None) };
        held.under_way = held.under_way.saturating_sub(1);
        let ended = if is_piece { self.piece(number, reading, result) } else { self.sums(number, reading, result) };
        (ended, self.forget(reading.generation))
    }

    /// What came was not right: once more, or it is an error.
    fn doubt(&mut self, number: u64, place: u64) -> Option<Read> {
        match self.readings.get_mut(&number) {
            Some(reading) if !reading.is_doubted => {
                reading.is_doubted = true;
                self.waiting.push_front(number);
                None
            }
            _ => self.end(number, Err(StoreError::Rotten { place })),
        }
    }

    /// Checksums came.
    fn sums(&mut self, number: u64, reading: Reading, result: Result<Block, StorageError>) -> Option<Read> {
        let held = self.held.get_mut(&reading.generation)?;
        let unit = reading.piece / SUMS_A_UNIT;
        let place = held.extent.sums_place(unit);
        // They find the checksums, or read them again.
        for waiter in held.fetching.remove(&unit).into_iter().flatten().rev() {
            self.waiting.push_front(waiter);
        }
        let block = match result {
            Ok(block) => block,
            Err(error) => return self.end(number, Err(StoreError::Disk { place, error })),
        };
        let count = (held.extent.pieces() - unit * SUMS_A_UNIT).min(SUMS_A_UNIT) as usize;
        let number_of = (reading.generation, unit as u32);
        let Some(sums) = sums::read(&self.identity, place, number_of, (block.bytes(), count)) else {
            return self.doubt(number, place);
        };
        held.keep(unit, sums);
        let sum = held.sum(reading.piece);
        self.readings.insert(number, Reading { sum, is_doubted: false, ..reading });
        self.waiting.push_front(number);
        None
    }

    /// A piece came.
    fn piece(&mut self, number: u64, reading: Reading, result: Result<Block, StorageError>) -> Option<Read> {
        let extent = self.held.get(&reading.generation)?.extent;
        let (place, _) = extent.piece(reading.piece)?;
        let mut block = match result {
            Ok(block) => block,
            Err(error) => return self.end(number, Err(StoreError::Disk { place, error })),
        };
        if reading.sum != Some(sums::piece(&self.identity, place, reading.generation, block.bytes())) {
            return self.doubt(number, place);
        }
        block.truncate((extent.bytes - reading.piece * PIECE_BYTES).min(PIECE_BYTES) as usize);
        self.end(number, Ok(block))
    }
}
