//! [`Objects`]: immutable objects, each in one run of the area, with a checksum for each piece.
//!
//! ```text
//!  superblocks │ log: the table of objects │ object: bytes, checksums │ object │ free │ …
//! ```

use crate::chain::frame::RecordKind;
use crate::error::StoreError;
use crate::io::{Ended, Outcome, Role};
use crate::layout::{UNIT_BYTES, whole_units};
use crate::log::{Log, Recovered, Told};
use crate::objects::reading::{Opened, Reading};
use crate::objects::space::Space;
use crate::objects::sums::{self, PIECE_BYTES, SUMS_A_UNIT};
use crate::objects::table::{Extent, NAME_BYTES_MAX, OBJECT_BYTES_MAX, Record, Table};
use crate::objects::writing::{Stage, Writing};
use crate::options::Options;
use crate::position::Position;
use crate::superblock::Kind;
use qanat_api::{AreaId, Block, Durability, Event, StorageCommands};
use std::collections::{BTreeMap, VecDeque};

/// Objects of the table that a checkpoint writes at once.
const CHECKPOINT_STEP: usize = 16;
/// Reads that may be asked for at once.
const READS_MAX: usize = 4_096;
/// What a record of the table takes in the log besides the name, at most.
const RECORD_BYTES: u64 = 40;

/// An object: its generation, which no other object of the store ever has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(u64);

/// What is known of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectInfo {
    /// Which.
    pub id: ObjectId,
    /// Its length.
    pub bytes: u64,
}

/// What a store of objects tells.
#[derive(Debug)]
pub enum ObjectEvent {
    /// The objects are there.
    Recovered {
        /// How many.
        objects: usize,
        /// What the log of their table was found to be.
        log: Recovered,
    },
    /// A piece was written: there may be room for the next.
    Written {
        /// Of which object.
        object: ObjectId,
    },
    /// An object is durable and can be held.
    Stored {
        /// Which.
        object: ObjectId,
    },
    /// An object could not be written, and was given up.
    NotStored {
        /// Which.
        object: ObjectId,
        /// Why.
        error: StoreError,
    },
    /// An object is gone for good. Its room is free once nobody holds it.
    Removed {
        /// Which.
        object: ObjectId,
    },
    /// What [`Objects::read`] asked for.
    Read {
        /// The token that was given.
        token: u64,
        /// The piece, in the memory that the disk put it to; its checksum was right. Of the last piece the bytes of the object only.
        result: Result<Block, StoreError>,
    },
    /// The store can't go on. Nothing more is acknowledged; it is to be opened again. This comes once.
    Failed(StoreError),
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
enum Request {
    Piece(u64),
    Sums(u64),
    /// Of a reading, by its number.
    ReadPiece(u64),
    ReadSums(u64),
}

/// Immutable objects on a storage area, which is theirs alone.
///
/// An object is [created](Objects::create) with its length, so it lies in one piece. Its bytes are [written](Objects::write) in pieces of
/// [`PIECE_BYTES`], each from the block that has them. When the last one is written, the object becomes durable as a whole, and
/// [`ObjectEvent::Stored`] follows; before that, it is not there after a crash. It never changes. While it is [held](Objects::hold), its
/// room is not given to another, even if it is removed: what is read again is the same, bit by bit, or an error.
#[derive(Debug)]
pub struct Objects {
    log: Log,
    table: Table,
    space: Space,
    /// Bytes that the table takes in the log, about.
    table_bytes: u64,
    writings: BTreeMap<u64, Writing>,
    opened: BTreeMap<u64, Opened>,
    readings: BTreeMap<u64, Reading>,
    /// Readings that wait for a request of theirs to be taken.
    waiting: VecDeque<u64>,
    /// Removed, and not durably yet: the record, and what it was.
    removing: VecDeque<(Position, Extent)>,
    requests: BTreeMap<u64, Request>,
    is_flushing: bool,
    numbers: u64,
    /// The name that a checkpoint has come to.
    cursor: Option<Vec<u8>>,
    /// Bytes of the log in use after the last checkpoint.
    floor: u64,
    told: VecDeque<ObjectEvent>,
}

impl Objects {
    /// Opens the objects in an area, of which nothing may be under way.
    ///
    /// # Errors
    /// As [`Log::open`]; [`StoreError::Geometry`] if a transfer can't have a whole piece.
    pub fn open(area: AreaId, options: Options, storage: &mut dyn StorageCommands) -> Result<Objects, StoreError> {
        let mut log = Log::open_kind(Kind::Objects, area, options, storage)?;
        let geometry = log.io().geometry();
        let (block_bytes, transfer_bytes) = (geometry.block_bytes, geometry.transfer_bytes_max);
        if u64::from(transfer_bytes) < PIECE_BYTES {
            return Err(StoreError::Geometry { block_bytes, transfer_bytes, needed: PIECE_BYTES as u32 });
        }
        Ok(Objects {
            log,
            table: Table::default(),
            space: Space::default(),
            table_bytes: 0,
            writings: BTreeMap::new(),
            opened: BTreeMap::new(),
            readings: BTreeMap::new(),
            waiting: VecDeque::new(),
            removing: VecDeque::new(),
            requests: BTreeMap::new(),
            is_flushing: false,
            numbers: 0,
            cursor: None,
            floor: 0,
            told: VecDeque::new(),
        })
    }

    /// The log of its table, for figures.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Bytes that are free, and the longest object that there is room for, about.
    pub fn free(&self) -> (u64, u64) {
        self.space.free()
    }

    /// All objects, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], ObjectInfo)> {
        self.table.objects.iter().map(|(name, extent)| (name.as_slice(), info(extent)))
    }

    /// An object, by name.
    pub fn find(&self, name: &[u8]) -> Option<ObjectInfo> {
        self.table.objects.get(name).map(info)
    }

    fn identity(&self) -> [u8; 16] {
        self.log.superblock().map_or([0; 16], |superblock| superblock.identity)
    }

    /// Takes an event of the area. Gives back one that is not this store's.
    pub fn handle(&mut self, event: Event, storage: &mut dyn StorageCommands) -> Option<Event> {
        let ended = match self.log.io().ended(event) {
            Ok(ended) => ended,
            Err(event) => return Some(event),
        };
        match ended.role {
            Role::ObjectWrite | Role::ObjectFlush | Role::ObjectRead => {
                if let Err(error) = self.ended(ended) {
                    self.log.fail(error);
                }
            }
            _ => self.log.ended(ended, storage),
        }
        self.drive(storage);
        None
    }

    /// What the store has to say next; `None`: nothing before the next event of the area.
    // As the other structures have it.
    #[allow(clippy::should_implement_trait, reason = "see above")]
    pub fn next(&mut self, storage: &mut dyn StorageCommands) -> Option<ObjectEvent> {
        if self.told.is_empty() {
            while let Some(told) = self.log.tell(storage) {
                self.hear(told);
            }
            self.drive(storage);
        }
        self.told.pop_front()
    }

    /// Takes what the log says.
    fn hear(&mut self, told: Told) {
        match told {
            Told::Record(position, RecordKind::Data | RecordKind::Checkpoint) => {
                match Record::read(self.log.bytes_told()) {
                    Some(record) => self.table.apply(record),
                    None => {
                        let place = self.log.place(position);
                        self.log.fail(StoreError::Contradiction { place, what: "a record of the table can't be read" });
                    }
                }
            }
            Told::Recovered(log) => match self.divide() {
                Ok(()) => self.told.push_back(ObjectEvent::Recovered { objects: self.table.objects.len(), log }),
                Err(error) => self.log.fail(error),
            },
            Told::Durable => self.durable(),
            Told::Checkpointed(_) => self.floor = self.log.bytes().0,
            Told::Failed(error) => self.told.push_back(ObjectEvent::Failed(error)),
            Told::Record(..) | Told::Truncated(_) | Told::Fetched(..) => {}
        }
    }

    /// Finds out what is free. No two objects may have the same room.
    fn divide(&mut self) -> Result<(), StoreError> {
        let bytes = self.log.io().geometry().bytes();
        let ring = self.log.superblock().map_or(0, |superblock| superblock.ring.start + superblock.ring.bytes);
        self.space = Space::new(ring, whole_units(bytes));
        for (name, extent) in &self.table.objects {
            if extent.bytes > 0 && !self.space.take_at(extent.place, extent.taken()) {
                let what = "an object lies where another does, or outside of the area";
                return Err(StoreError::Contradiction { place: extent.place, what });
            }
            self.table_bytes += RECORD_BYTES + name.len() as u64;
        }
        self.reserve();
        Ok(())
    }

    /// Leaves room for a checkpoint of the table.
    fn reserve(&mut self) {
        self.log.set_reserve(self.table_bytes + self.table_bytes / 8 + 8 * UNIT_BYTES);
    }

    /// More of the log is durable.
    fn durable(&mut self) {
        let before = self.log.durable();
        let is_stored = |writing: &Writing| matches!(writing.stage, Stage::Recorded(position) if position < before);
        let stored: Vec<u64> = self.writings.iter().filter(|(_, it)| is_stored(it)).map(|(it, _)| *it).collect();
        for generation in stored {
            let Some(writing) = self.writings.remove(&generation) else { continue };
            self.table.objects.insert(writing.name, writing.extent);
            self.told.push_back(ObjectEvent::Stored { object: ObjectId(generation) });
        }
        while let Some((position, extent)) = self.removing.front().copied()
            && position < before
        {
            self.removing.pop_front();
            match self.opened.get_mut(&extent.generation) {
                Some(opened) => opened.is_removed = true,
                None => self.free_extent(extent),
            }
            self.told.push_back(ObjectEvent::Removed { object: ObjectId(extent.generation) });
        }
    }

    fn free_extent(&mut self, extent: Extent) {
        if extent.bytes > 0 {
            self.space.give(extent.place, extent.taken());
        }
    }

    /// Makes an object of so many bytes, to be written. There may be none of that name.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::NoRoom`], [`StoreError::TooLong`] (the name, or the object), [`StoreError::Full`] (the
    /// table), [`StoreError::NotReady`], [`StoreError::Stopped`].
    pub fn create(&mut self, name: &[u8], bytes: u64) -> Result<ObjectId, StoreError> {
        self.log.check()?;
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(StoreError::TooLong { bytes: name.len() as u64, most: NAME_BYTES_MAX as u64 });
        }
        if bytes > OBJECT_BYTES_MAX {
            return Err(StoreError::TooLong { bytes, most: OBJECT_BYTES_MAX });
        }
        if self.table.objects.contains_key(name) || self.writings.values().any(|writing| writing.name == name) {
            return Err(StoreError::Exists);
        }
        // Half of the log is for the table, the other half for what changes while it is written anew.
        let (wanted, free) =
            (RECORD_BYTES + name.len() as u64, (self.log.bytes().1 / 2).saturating_sub(self.table_bytes));
        if wanted + 16 * UNIT_BYTES > free {
            return Err(StoreError::Full { wanted, free });
        }
        let mut extent = Extent { generation: self.table.next_generation, place: 0, bytes };
        if bytes > 0 {
            let wanted = extent.taken();
            extent.place = self.space.take(wanted).ok_or(StoreError::NoRoom { wanted, free: self.space.free().1 })?;
        }
        self.table.next_generation += 1;
        self.table_bytes += wanted;
        self.reserve();
        let mut writing = Writing { name: name.to_vec(), extent, stage: Stage::Pieces, sums: Vec::new(), under_way: 0 };
        writing.go_on();
        self.writings.insert(extent.generation, writing);
        Ok(ObjectId(extent.generation))
    }

    /// Writes the next piece of an object from the block that has it: [`PIECE_BYTES`] of it, or what is left of the object.
    /// [`ObjectEvent::Written`] follows.
    ///
    /// # Errors
    /// [`StoreError::Busy`]: again after an event; [`StoreError::TooLong`] if the block has another length; [`StoreError::None`] if no
    /// more of the object is to be written; [`StoreError::Stopped`]. The block comes back.
    pub fn write(
        &mut self,
        object: ObjectId,
        block: Block,
        storage: &mut dyn StorageCommands,
    ) -> Result<(), (StoreError, Block)> {
        if let Err(error) = self.log.check() {
            return Err((error, block));
        }
        let identity = self.identity();
        let Some(writing) = self.writings.get_mut(&object.0).filter(|writing| writing.stage == Stage::Pieces) else {
            return Err((StoreError::None, block));
        };
        let extent = writing.extent;
        let index = writing.sums.len() as u64;
        let Some((place, length)) = extent.piece(index) else { return Err((StoreError::None, block)) };
        let most = (extent.bytes - index * PIECE_BYTES).min(PIECE_BYTES);
        if block.len() as u64 != most {
            return Err((StoreError::TooLong { bytes: block.len() as u64, most }, block));
        }
        let block = match self.log.io().has_room() {
            true => self.log.io().of_area(block, storage),
            false => Err(block),
        };
        let mut block = block.map_err(|block| (StoreError::Busy { pending: most }, block))?;
        let fill = length as usize - block.len();
        if block.room() < fill {
            // The last piece, in a block without room for the zeroes behind it: the one case that costs a copy.
            match self.log.io().block(storage) {
                Some(mut copy) => {
                    copy.append(block.bytes());
                    block = copy;
                }
                None => return Err((StoreError::Busy { pending: most }, block)),
            }
        }
        block.append_with(fill, |rest| rest.fill(0));
        writing.sums.push(sums::piece(&identity, place, extent.generation, block.bytes()));
        writing.under_way += 1;
        self.request((place, block), Request::Piece(object.0), storage);
        Ok(())
    }

    /// Writes; what becomes of it is the request's.
    fn request(&mut self, (place, block): (u64, Block), request: Request, storage: &mut dyn StorageCommands) {
        let number = self.number(request);
        if let Err(error) =
            self.log.io().write(storage, (place, block), Durability::Cached, (Role::ObjectWrite, number))
        {
            self.log.fail(error);
        }
    }

    fn number(&mut self, request: Request) -> u64 {
        self.numbers += 1;
        self.requests.insert(self.numbers, request);
        self.numbers
    }

    /// Gives up an object that is being written.
    ///
    /// # Errors
    /// [`StoreError::None`] if it is not being written, or its record is on its way already.
    pub fn give_up(&mut self, object: ObjectId, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let writing = self.writings.get_mut(&object.0).filter(|writing| !matches!(writing.stage, Stage::Recorded(_)));
        writing.ok_or(StoreError::None)?.stage = Stage::GivenUp;
        self.drive(storage);
        Ok(())
    }

    /// Removes an object. [`ObjectEvent::Removed`] follows. It can't be found from now on; who holds it may read it.
    ///
    /// # Errors
    /// [`StoreError::None`]; else as [`Log::append`].
    pub fn remove(&mut self, name: &[u8], storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        self.log.check()?;
        let extent = *self.table.objects.get(name).ok_or(StoreError::None)?;
        let head = Record::Removed(extent.generation, name).head();
        let position = self.log.append_leaving(0, &[&head, name], storage)?;
        self.table.objects.remove(name);
        self.table_bytes = self.table_bytes.saturating_sub(RECORD_BYTES + name.len() as u64);
        self.removing.push_back((position, extent));
        self.reserve();
        self.log.commit(storage);
        Ok(())
    }

    /// Holds an object, to read it. It is to be [released](Objects::release) as often as it was held.
    ///
    /// # Errors
    /// [`StoreError::None`].
    pub fn hold(&mut self, name: &[u8]) -> Result<ObjectInfo, StoreError> {
        let extent = *self.table.objects.get(name).ok_or(StoreError::None)?;
        self.opened.entry(extent.generation).or_insert_with(|| Opened::new(extent)).opens += 1;
        Ok(info(&extent))
    }

    /// Releases an object. What was asked for and has not come yet ends with [`StoreError::None`] if nobody else holds it.
    pub fn release(&mut self, object: ObjectId) {
        let Some(opened) = self.opened.get_mut(&object.0) else { return };
        opened.opens = opened.opens.saturating_sub(1);
        // What is being read is read to its end: then the room may be another's.
        if opened.opens == 0
            && !self.readings.values().any(|reading| reading.generation == object.0 && reading.is_under_way)
        {
            self.forget(object.0);
        }
    }

    fn forget(&mut self, generation: u64) {
        if let Some(opened) = self.opened.remove(&generation)
            && opened.is_removed
        {
            self.free_extent(opened.extent);
        }
    }

    /// Reads a piece of an object that is held: the one that begins at byte `piece` times [`PIECE_BYTES`]. [`ObjectEvent::Read`] follows.
    ///
    /// # Errors
    /// [`StoreError::None`] if it is not held, or has no such piece; [`StoreError::Busy`]; [`StoreError::Stopped`].
    pub fn read(
        &mut self,
        object: ObjectId,
        piece: u64,
        token: u64,
        storage: &mut dyn StorageCommands,
    ) -> Result<(), StoreError> {
        self.log.check()?;
        let opened = self.opened.get_mut(&object.0).filter(|opened| opened.opens > 0).ok_or(StoreError::None)?;
        opened.extent.piece(piece).ok_or(StoreError::None)?;
        if self.readings.len() >= READS_MAX {
            return Err(StoreError::Busy { pending: READS_MAX as u64 * PIECE_BYTES });
        }
        self.numbers += 1;
        let reading = Reading { generation: object.0, piece, token, sum: None, is_under_way: false, is_doubted: false };
        self.readings.insert(self.numbers, reading);
        self.waiting.push_back(self.numbers);
        self.drive(storage);
        Ok(())
    }

    /// A request of an object has ended.
    fn ended(&mut self, ended: Ended) -> Result<(), StoreError> {
        if ended.role == Role::ObjectFlush {
            return self.flushed(ended.outcome);
        }
        match (self.requests.remove(&ended.number), ended.outcome) {
            (Some(Request::Piece(generation) | Request::Sums(generation)), Outcome::Done(result)) => {
                let Some(writing) = self.writings.get_mut(&generation) else { return Ok(()) };
                let object = ObjectId(generation);
                writing.under_way = writing.under_way.saturating_sub(1);
                writing.go_on();
                let event = match result {
                    Ok(()) => ObjectEvent::Written { object },
                    Err(error) if writing.stage != Stage::GivenUp => {
                        writing.stage = Stage::GivenUp;
                        let error = StoreError::Disk { place: writing.extent.place, error };
                        ObjectEvent::NotStored { object, error }
                    }
                    Err(_) => return Ok(()),
                };
                self.told.push_back(event);
            }
            (Some(Request::ReadSums(number)), Outcome::Read(result)) => self.sums_read(number, result),
            (Some(Request::ReadPiece(number)), Outcome::Read(result)) => self.piece_read(number, result),
            _ => {}
        }
        Ok(())
    }

    /// A flush that began after all of the objects' pieces were written has ended.
    fn flushed(&mut self, outcome: Outcome) -> Result<(), StoreError> {
        self.is_flushing = false;
        if let Outcome::Done(Err(error)) = outcome {
            return Err(StoreError::Disk { place: 0, error });
        }
        for writing in self.writings.values_mut().filter(|writing| writing.stage == Stage::Flushing) {
            writing.stage = Stage::Flushed;
        }
        Ok(())
    }

    /// What a reading came to.
    fn read_ended(&mut self, number: u64, result: Result<Block, StoreError>) {
        let Some(reading) = self.readings.remove(&number) else { return };
        self.told.push_back(ObjectEvent::Read { token: reading.token, result });
        let is_last = !self.readings.values().any(|it| it.generation == reading.generation && it.is_under_way);
        if is_last && self.opened.get(&reading.generation).is_some_and(|opened| opened.opens == 0) {
            self.forget(reading.generation);
        }
    }

    /// What came was not right: once more, or it is an error.
    fn doubt(&mut self, number: u64, place: u64) {
        match self.readings.get_mut(&number) {
            Some(reading) if !reading.is_doubted => {
                reading.is_doubted = true;
                self.waiting.push_back(number);
            }
            _ => self.read_ended(number, Err(StoreError::Rotten { place })),
        }
    }

    fn sums_read(&mut self, number: u64, result: Result<Block, qanat_api::StorageError>) {
        let identity = self.identity();
        let Some(reading) = self.readings.get_mut(&number) else { return };
        reading.is_under_way = false;
        let Some(opened) = self.opened.get_mut(&reading.generation) else { return };
        let unit = reading.piece / SUMS_A_UNIT;
        let place = opened.extent.sums_place(unit);
        match result {
            Err(error) => self.read_ended(number, Err(StoreError::Disk { place, error })),
            Ok(block) => match sums::read(&identity, place, (reading.generation, unit as u32), block.bytes()) {
                None => self.doubt(number, place),
                Some(sums) => {
                    opened.keep(unit, sums);
                    (reading.sum, reading.is_doubted) = (opened.sum(reading.piece), false);
                    self.waiting.push_front(number);
                }
            },
        }
    }

    fn piece_read(&mut self, number: u64, result: Result<Block, qanat_api::StorageError>) {
        let identity = self.identity();
        let Some(reading) = self.readings.get_mut(&number) else { return };
        reading.is_under_way = false;
        let Some(opened) = self.opened.get(&reading.generation) else { return };
        let Some((place, _)) = opened.extent.piece(reading.piece) else { return };
        let left = opened.extent.bytes - reading.piece * PIECE_BYTES;
        match result {
            Err(error) => self.read_ended(number, Err(StoreError::Disk { place, error })),
            Ok(mut block) => {
                if reading.sum == Some(sums::piece(&identity, place, reading.generation, block.bytes())) {
                    block.truncate(left.min(PIECE_BYTES) as usize);
                    self.read_ended(number, Ok(block));
                } else {
                    self.doubt(number, place);
                }
            }
        }
    }

    /// Gives the commands that can be given now.
    fn drive(&mut self, storage: &mut dyn StorageCommands) {
        if self.log.is_ready()
            && let Err(error) = self.try_to_drive(storage)
        {
            self.log.fail(error);
        }
    }

    fn try_to_drive(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        self.drive_readings(storage)?;
        self.drive_writings(storage)?;
        self.drive_checkpoint(storage)
    }

    fn drive_readings(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        while let Some(number) = self.waiting.pop_front() {
            let Some(reading) = self.readings.get_mut(&number) else { continue };
            let Some(opened) = self.opened.get_mut(&reading.generation).filter(|opened| opened.opens > 0) else {
                self.read_ended(number, Err(StoreError::None));
                continue;
            };
            reading.sum = reading.sum.or_else(|| opened.sum(reading.piece));
            let Some((place, length)) = opened.extent.piece(reading.piece) else { continue };
            let (request, range) = match reading.sum {
                Some(_) => (Request::ReadPiece(number), (place, length as usize)),
                None => {
                    let place = opened.extent.sums_place(reading.piece / SUMS_A_UNIT);
                    (Request::ReadSums(number), (place, UNIT_BYTES as usize))
                }
            };
            if !self.log.io().read(storage, range, (Role::ObjectRead, self.numbers + 1))? {
                self.waiting.push_front(number);
                break;
            }
            self.number(request);
            self.readings.get_mut(&number).into_iter().for_each(|reading| reading.is_under_way = true);
        }
        Ok(())
    }

    fn drive_writings(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        // As many as are written at the same time: few.
        for generation in self.writings.keys().copied().collect::<Vec<u64>>() {
            let identity = self.identity();
            let Some(writing) = self.writings.get_mut(&generation) else { continue };
            match writing.stage {
                Stage::GivenUp if writing.under_way == 0 => {
                    let Some(writing) = self.writings.remove(&generation) else { continue };
                    self.table_bytes = self.table_bytes.saturating_sub(RECORD_BYTES + writing.name.len() as u64);
                    self.free_extent(writing.extent);
                }
                Stage::Sums(unit) if unit < writing.extent.sums_units() && self.log.io().has_room() => {
                    let Some(mut block) = self.log.io().block(storage) else { continue };
                    let place = writing.extent.sums_place(unit);
                    let sums = writing.sums.get((unit * SUMS_A_UNIT) as usize..).unwrap_or_default();
                    block.append_with(UNIT_BYTES as usize, |bytes| {
                        sums::write(&identity, place, (generation, unit as u32), sums, bytes);
                    });
                    writing.stage = Stage::Sums(unit + 1);
                    writing.under_way += 1;
                    self.request((place, block), Request::Sums(generation), storage);
                }
                Stage::Flushed => {
                    let head = Record::Object(writing.extent, &writing.name).head();
                    match self.log.append_pieces(&[&head, &writing.name], storage) {
                        Ok(position) => writing.stage = Stage::Recorded(position),
                        // After a checkpoint there is room.
                        Err(StoreError::Full { .. } | StoreError::Busy { .. }) => {}
                        Err(error) => return Err(error),
                    }
                    self.log.commit(storage);
                }
                _ => {}
            }
        }
        if !self.is_flushing && self.writings.values().any(|writing| writing.stage == Stage::Written) {
            self.is_flushing = self.log.io().flush(storage, (Role::ObjectFlush, 0))?;
            if self.is_flushing {
                for writing in self.writings.values_mut().filter(|writing| writing.stage == Stage::Written) {
                    writing.stage = Stage::Flushing;
                }
            }
        }
        Ok(())
    }

    /// Writes the table anew, some objects at a time, when half of the room beside it is used.
    fn drive_checkpoint(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let (used, all) = self.log.bytes();
        if let Some(cursor) = self.cursor.take() {
            // The step before is on its way: one at a time.
            if !self.log.is_idle() {
                self.cursor = Some(cursor);
                return Ok(());
            }
            let from = (std::ops::Bound::Excluded(cursor.clone()), std::ops::Bound::Unbounded);
            let mut last = cursor;
            let mut rest = self.table.objects.range::<Vec<u8>, _>(from);
            let mut is_at_end = false;
            for _ in 0..CHECKPOINT_STEP {
                let Some((name, extent)) = rest.next() else {
                    is_at_end = true;
                    break;
                };
                let head = Record::Object(*extent, name).head();
                match self.log.checkpoint_append(&[&head, name], storage) {
                    Ok(_) => last.clone_from(name),
                    // Once what was appended is written.
                    Err(StoreError::Busy { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
            if is_at_end {
                self.log.checkpoint_end(storage)?;
            } else {
                self.cursor = Some(last);
            }
            self.log.commit(storage);
        } else if !self.log.is_checkpointing()
            // An object whose record is before the checkpoint has to be in the table when the checkpoint comes to it.
            && !self.writings.values().any(|writing| matches!(writing.stage, Stage::Recorded(_)))
            && used.saturating_sub(self.floor) > all.saturating_sub(self.floor) / 2
            && self.log.is_idle()
        {
            self.log.checkpoint_begin(storage)?;
            let head = Record::Generations(self.table.next_generation).head();
            self.log.checkpoint_append(&[&head], storage)?;
            // No name is empty: all of them are behind this.
            self.cursor = Some(Vec::new());
            self.log.commit(storage);
        }
        Ok(())
    }
}

fn info(extent: &Extent) -> ObjectInfo {
    ObjectInfo { id: ObjectId(extent.generation), bytes: extent.bytes }
}
