//! [`Objects`]: immutable objects, each in one run of the area, with a checksum for each piece.
//!
//! ```text
//!  superblocks │ log: the table of objects │ object: bytes, checksums │ object │ free │ …
//! ```

mod checkpointing;
mod storing;

use crate::chain::frame::RecordKind;
use crate::error::StoreError;
use crate::io::{Ended, Outcome, Role};
use crate::kind::Kind;
use crate::layout::whole_units;
use crate::log::Log;
use crate::objects::event::{ObjectEvent, ObjectId, ObjectInfo};
use crate::objects::reading::Reads;
use crate::objects::space::Space;
use crate::objects::sums::PIECE_BYTES;
use crate::objects::table::{Extent, Record, Table};
use crate::objects::writing::{Stage, Writing};
use crate::options::Options;
use crate::position::Position;
use crate::told::Told;
use qanat_api::{AreaId, Event, StorageCommands};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Objects of the table that a checkpoint writes at once.
const CHECKPOINT_STEP: usize = 16;
/// What a record of the table takes in the log besides the name, at most.
const RECORD_BYTES: u64 = 40;

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
    reads: Reads,
    /// Removed, and not durably yet: the record, and what it was.
    removing: VecDeque<(Position, Extent)>,
    is_flushing: bool,
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
            reads: Reads::default(),
            removing: VecDeque::new(),
            is_flushing: false,
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

    /// The random bytes that tell this store from any other.
    pub fn identity(&self) -> [u8; 16] {
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
            Told::Whole => {
                if let Err(error) = self.divide() {
                    self.log.fail(error);
                }
            }
            Told::Recovered(log) => {
                self.reserve();
                self.told.push_back(ObjectEvent::Recovered { objects: self.table.objects.len(), log });
            }
            Told::Durable => self.durable(),
            Told::Checkpointed(_) => self.floor = self.log.bytes().0,
            Told::Failed(error) => self.told.push_back(ObjectEvent::Failed(error)),
            Told::Record(..) | Told::Truncated(_) | Told::Fetched(..) => {}
        }
    }

    /// Finds out what is free. No two objects may have the same room, or the same generation, which readings go by.
    fn divide(&mut self) -> Result<(), StoreError> {
        let bytes = self.log.io().geometry().bytes();
        let ring = self.log.superblock().map_or(0, |superblock| superblock.ring.start + superblock.ring.bytes);
        self.reads = Reads::new(self.identity());
        self.space = Space::new(ring, whole_units(bytes));
        let mut generations = BTreeSet::new();
        for (name, extent) in &self.table.objects {
            if !generations.insert(extent.generation) {
                let what = "two objects have the same generation";
                return Err(StoreError::Contradiction { place: extent.place, what });
            }
            if extent.bytes > 0 && !self.space.take_at(extent.place, extent.taken()) {
                let what = "an object lies where another does, or outside of the area";
                return Err(StoreError::Contradiction { place: extent.place, what });
            }
            self.table_bytes += RECORD_BYTES + name.len() as u64;
        }
        Ok(())
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
            let free = self.reads.removed(extent);
            self.free_extent(free);
            self.told.push_back(ObjectEvent::Removed { object: ObjectId(extent.generation) });
        }
    }

    fn free_extent(&mut self, extent: Option<Extent>) {
        if let Some(extent) = extent.filter(|extent| extent.bytes > 0) {
            self.space.give(extent.place, extent.taken());
        }
    }

    /// Holds an object, to read it. It is to be [released](Objects::release) as often as it was held.
    ///
    /// # Errors
    /// [`StoreError::None`].
    pub fn hold(&mut self, name: &[u8]) -> Result<ObjectInfo, StoreError> {
        let extent = *self.table.objects.get(name).ok_or(StoreError::None)?;
        self.reads.hold(extent);
        Ok(info(&extent))
    }

    /// Releases an object. What was asked for and has not come yet ends with [`StoreError::None`] if nobody else holds it.
    pub fn release(&mut self, object: ObjectId) {
        let free = self.reads.release(object.0);
        self.free_extent(free);
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
        self.log.check_read()?;
        self.reads.want(object.0, piece, token)?;
        self.drive(storage);
        Ok(())
    }

    /// A request of an object has ended.
    fn ended(&mut self, ended: Ended) -> Result<(), StoreError> {
        match (ended.role, ended.outcome) {
            (Role::ObjectFlush, outcome) => return self.flushed(outcome),
            (Role::ObjectWrite, Outcome::Done(result)) => self.written(ended.number, result),
            (Role::ObjectRead, Outcome::Read(result)) => {
                let (ended, free) = self.reads.arrived(ended.number, result);
                self.free_extent(free);
                self.told.extend(ended.map(|(token, result)| ObjectEvent::Read { token, result }));
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives the commands that can be given now.
    fn drive(&mut self, storage: &mut dyn StorageCommands) {
        if (self.log.is_ready() || self.log.is_read_only())
            && let Err(error) = self.try_to_drive(storage)
        {
            self.log.fail(error);
        }
    }

    fn try_to_drive(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        while let Some((token, result)) = self.reads.drive(self.log.io(), storage)? {
            self.told.push_back(ObjectEvent::Read { token, result });
        }
        if self.log.is_read_only() {
            return Ok(());
        }
        self.drive_writings(storage)?;
        self.drive_checkpoint(storage)
    }
}

fn info(extent: &Extent) -> ObjectInfo {
    ObjectInfo { id: ObjectId(extent.generation), bytes: extent.bytes }
}
