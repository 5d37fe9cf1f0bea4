//! [`Areas`]: the table of areas, kept on its disk.

use super::error::{AreaError, Copy};
use super::extent::pieces;
use super::foreign;
use super::journal::{self, Record};
use super::layout::{DATA, DISK_BYTES_MIN, RECORD_BYTES, RECORDS, SUPERBLOCK_BYTES, SUPERBLOCKS, UNIT_BYTES, record};
use super::superblock::{self, Found, Superblock};
use super::table::{Area, AreaLimits, AreaName, AreaState, Change, Fence, Owner, Table};
use super::view::{AreaDisk, set_window};
use crate::error::StorageError;
use crate::vsic::{Completion, Operation, Request, Vsic};
use qanat_nic::{Frame, Pool, Region};
use std::rc::Rc;
use std::time::Duration;

/// How long a request of the table's may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Zeroes written by one request.
const ZERO_BYTES: u64 = 1 << 20;

/// A copy that was damaged or old, and has been written again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    /// Which.
    pub copy: Copy,
    /// What it was.
    pub was: &'static str,
}

/// The areas of a disk. Whoever has it is the only one that writes the table: the disk is opened exclusively.
#[derive(Debug)]
pub struct Areas<V> {
    disk: V,
    /// One frame of a superblock's size.
    memory: Pool,
    superblock: Superblock,
    /// The number of the next record of the journal, and the sum of the last.
    next: (u64, u32),
    /// Why nothing more may be changed.
    failed: Option<StorageError>,
    completions: Vec<Completion>,
}

impl<V: Vsic> Areas<V> {
    /// The memory to open the disk with.
    ///
    /// # Errors
    /// [`AreaError::Memory`].
    pub fn memory() -> Result<Rc<Region>, AreaError> {
        Region::new(2, SUPERBLOCK_BYTES as u32).map_err(|error| AreaError::Memory(error.to_string()))
    }

    /// Prepares an empty disk. `identity` is what it will be known by: random.
    ///
    /// # Errors
    /// [`AreaError::Prepared`], [`AreaError::Foreign`] if anything is on it, which is left as it is; [`AreaError::TooSmall`].
    pub fn prepare(disk: V, memory: &Rc<Region>, identity: [u8; 16]) -> Result<Areas<V>, AreaError> {
        let bytes = disk.geometry().bytes();
        let table = Table::new(bytes);
        let mut areas = Areas::over(disk, memory, Superblock { epoch: 1, identity, table })?;
        match areas.find()?.0 {
            Some(found) => {
                let epoch = found.epoch;
                areas.superblock = found;
                areas.replay()?;
                return Err(AreaError::Prepared { epoch, areas: areas.superblock.table.areas.len() });
            }
            None => {
                let head = areas.read(0, SUPERBLOCK_BYTES)?;
                if let Some(what) = foreign::name(head.bytes()) {
                    return Err(AreaError::Foreign { what: what.to_owned() });
                }
            }
        }
        areas.write_superblocks(&Copy::BOTH)?;
        Ok(areas)
    }

    /// Opens a prepared disk: the newest superblock, and what the journal says since. Copies that are damaged or old are written again,
    /// and told of.
    ///
    /// # Errors
    /// [`AreaError`]; then nothing has been written.
    pub fn open(disk: V, memory: &Rc<Region>) -> Result<(Areas<V>, Vec<Repair>), AreaError> {
        let bytes = disk.geometry().bytes();
        let empty = Superblock { epoch: 0, identity: [0; 16], table: Table::new(bytes) };
        let mut areas = Areas::over(disk, memory, empty)?;
        // What a process that was killed has written, and what is read now, stays.
        areas.perform(0, Operation::Flush)?;
        let (newest, repairs) = areas.find()?;
        areas.superblock = newest.ok_or(AreaError::Unprepared)?;
        let recorded = areas.superblock.table.bytes();
        if recorded > bytes {
            return Err(AreaError::Shrunk { found: bytes, recorded });
        }
        areas.replay()?;
        areas.superblock.table.check()?;
        // No record of this epoch is written before both copies have it.
        let copies: Vec<Copy> = repairs.iter().map(|repair| repair.copy).collect();
        if !copies.is_empty() {
            areas.start_epoch(&copies)?;
        }
        areas.finish_deletions()?;
        Ok((areas, repairs))
    }

    fn over(disk: V, memory: &Rc<Region>, superblock: Superblock) -> Result<Areas<V>, AreaError> {
        let geometry = disk.geometry();
        if geometry.bytes() < DISK_BYTES_MIN {
            return Err(AreaError::TooSmall { bytes: geometry.bytes(), needed: DISK_BYTES_MIN });
        }
        if u64::from(geometry.block_bytes) > UNIT_BYTES {
            return Err(AreaError::Blocks { bytes: geometry.block_bytes });
        }
        let memory = memory.pool(memory.unassigned_count()).filter(|pool| pool.frame_count() >= 2);
        let memory = memory.ok_or_else(|| AreaError::Memory("the region has been given away".to_owned()))?;
        Ok(Areas { disk, memory, superblock, next: (0, 0), failed: None, completions: Vec::new() })
    }

    /// What it is known by.
    pub fn identity(&self) -> [u8; 16] {
        self.superblock.identity
    }

    /// How often the superblocks have been written.
    pub fn epoch(&self) -> u64 {
        self.superblock.epoch
    }

    /// All areas, those included that are being deleted.
    pub fn iter(&self) -> impl Iterator<Item = &Area> {
        self.superblock.table.areas.values()
    }

    /// The area of that name.
    ///
    /// # Errors
    /// [`AreaError::NoArea`].
    pub fn get(&self, name: &AreaName) -> Result<&Area, AreaError> {
        self.superblock.table.by_name(name).ok_or_else(|| AreaError::NoArea { name: name.to_string() })
    }

    /// Bytes that no area has.
    pub fn free_bytes(&self) -> u64 {
        self.superblock.table.free_bytes()
    }

    /// Bytes on the disk.
    pub fn disk_bytes(&self) -> u64 {
        self.superblock.table.bytes()
    }

    /// One area as a device of its own. The table stays as it is meanwhile: the disk is still open, exclusively.
    ///
    /// # Errors
    /// [`AreaError::NoArea`].
    pub fn into_area(self, name: &AreaName) -> Result<AreaDisk<V>, AreaError> {
        let area = self.get(name)?;
        let (extents, bytes) = (area.extents().to_vec(), area.bytes());
        Ok(AreaDisk::new(self.disk, &extents, bytes))
    }

    /// Why nothing more can be changed: an earlier change could not be made durable. `None`: it can.
    pub fn failure(&self) -> Option<StorageError> {
        self.failed
    }

    /// The disk below, for whoever serves the areas.
    pub fn disk(&mut self) -> &mut V {
        &mut self.disk
    }

    /// The area of that number.
    pub fn by_id(&self, id: u64) -> Option<&Area> {
        self.superblock.table.areas.get(&id)
    }

    /// Reserves space for a new area, rounded up to units; it is durable when this returns. The space is used from when
    /// [`zero_some`](Areas::zero_some) says so.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn create(&mut self, name: AreaName, owner: Owner, bytes: u64) -> Result<u64, AreaError> {
        self.create_limited(name, owner, (AreaLimits::default(), Fence::Core), bytes)
    }

    /// As [`create`](Areas::create), with what its holder may ask for, and what keeps it from the rest.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn create_limited(
        &mut self,
        name: AreaName,
        owner: Owner,
        (limits, fence): (AreaLimits, Fence),
        bytes: u64,
    ) -> Result<u64, AreaError> {
        let area = Area { limits, ..self.superblock.table.created(name, owner, fence, bytes)? };
        let id = area.id;
        self.commit(Change::Put(area))?;
        Ok(id)
    }

    /// Reserves more space for an area, to `bytes` in all.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn grow(&mut self, name: &AreaName, bytes: u64) -> Result<(), AreaError> {
        let area = self.get(name)?.clone();
        if bytes < area.reserved_bytes() {
            return Err(AreaError::Shrinks { name: name.to_string(), bytes: area.reserved_bytes() });
        }
        let area = self.superblock.table.extended(area, bytes)?;
        self.commit(Change::Put(area))
    }

    /// Changes what an area's holder may ask for.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn set_limits(&mut self, name: &AreaName, limits: AreaLimits) -> Result<(), AreaError> {
        let area = self.get(name)?.clone();
        self.commit(Change::Put(Area { limits, ..area }))
    }

    /// Deletes an area: its name is free, its space is once [`release`](Areas::release) is called, when nobody holds it any more.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn delete(&mut self, name: &AreaName) -> Result<u64, AreaError> {
        let area = self.get(name)?.clone();
        let id = area.id;
        self.commit(Change::Put(Area { state: AreaState::Doomed, ..area }))?;
        Ok(id)
    }

    /// Frees the space of a deleted area. Nothing happens if it is not deleted.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn release(&mut self, id: u64) -> Result<(), AreaError> {
        match self.superblock.table.areas.get(&id) {
            Some(area) if area.state == AreaState::Doomed => self.commit(Change::Remove(id)),
            _ => Ok(()),
        }
    }

    /// Zeroes up to `bytes_max` of what an area has reserved, and lets them be used once the zeroes are durable. Bytes still to be done.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn zero_some(&mut self, id: u64, bytes_max: u64) -> Result<u64, AreaError> {
        let Some(area) = self.superblock.table.areas.get(&id).cloned() else { return Ok(0) };
        let bytes = (area.reserved_bytes() - area.bytes()).min(bytes_max).next_multiple_of(UNIT_BYTES);
        if bytes == 0 || area.state == AreaState::Doomed {
            return Ok(0);
        }
        let block_bytes = u64::from(self.disk.geometry().block_bytes);
        let found: Vec<_> = pieces(&area.extents, area.bytes(), bytes).into_iter().flatten().collect();
        for piece in found {
            for start in (0..piece.bytes).step_by(ZERO_BYTES as usize) {
                let (place, count) = (piece.place + start, ZERO_BYTES.min(piece.bytes - start));
                let operation = Operation::WriteZeroes { block: place / block_bytes, blocks: count / block_bytes };
                self.perform(place, operation)?;
            }
        }
        self.perform(0, Operation::Flush)?;
        self.note_zeroed(id, bytes)
    }

    /// Lets the next `bytes` of what an area has reserved be used: whoever has it zeroed them durably, as for an area that is a file.
    /// Bytes still to be done.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn note_zeroed(&mut self, id: u64, bytes: u64) -> Result<u64, AreaError> {
        let Some(area) = self.superblock.table.areas.get(&id).cloned() else { return Ok(0) };
        let bytes = bytes.min(area.reserved_bytes() - area.bytes());
        let ready_units = area.ready_units + bytes / UNIT_BYTES;
        let left = area.reserved_bytes() - ready_units * UNIT_BYTES;
        self.commit(Change::Put(Area { ready_units, ..area }))?;
        Ok(left)
    }

    /// Frees what was deleted before the disk was opened: nobody can hold it. Of areas that the kernel fences, somebody may have a
    /// descriptor; whoever asks the kernel releases them.
    fn finish_deletions(&mut self) -> Result<(), AreaError> {
        let is_free = |area: &&Area| area.state == AreaState::Doomed && area.fence == Fence::Core;
        let doomed: Vec<u64> = self.iter().filter(is_free).map(Area::id).collect();
        doomed.into_iter().try_for_each(|id| self.release(id))
    }

    /// Writes a change in both journals; once it is durable, it is so.
    fn commit(&mut self, change: Change) -> Result<(), AreaError> {
        if let Some(error) = self.failed {
            return Err(AreaError::Failed { error });
        }
        if let Change::Put(area) = &change
            && !self.superblock.has_room_for(area)
        {
            return Err(AreaError::TableFull { areas: self.superblock.table.areas.len() });
        }
        if self.next.0 == RECORDS {
            self.start_epoch(&Copy::BOTH)?;
        }
        let outcome = self.write_record(&change);
        if let Err(AreaError::Device { error, .. }) = &outcome {
            // The record may be there or not: what is in memory no longer says what is on the disk.
            self.failed = Some(*error);
        }
        self.next = (self.next.0 + 1, outcome?);
        self.superblock.table.apply(change);
        Ok(())
    }

    fn write_record(&mut self, change: &Change) -> Result<u32, AreaError> {
        let (number, previous) = self.next;
        let mut sum = 0;
        for copy in Copy::BOTH {
            let place = record(copy.index(), number);
            let mut frame = self.frame(RECORD_BYTES)?;
            let written = journal::write(frame.bytes_mut(), place, (self.superblock.epoch, number, previous), change);
            sum = written.ok_or_else(|| AreaError::Table { what: "an entry is too large for a record".to_owned() })?;
            self.write(place, frame)?;
        }
        self.perform(0, Operation::Flush)?;
        Ok(sum)
    }

    /// Writes the table into the superblocks, with the next epoch: the journal begins again. `first`: those that are old, before others.
    fn start_epoch(&mut self, first: &[Copy]) -> Result<(), AreaError> {
        self.superblock.epoch += 1;
        let rest = Copy::BOTH.into_iter().filter(|copy| !first.contains(copy));
        let order: Vec<Copy> = first.iter().copied().chain(rest).collect();
        self.write_superblocks(&order)
    }

    /// One after the other, each durable before the next: one is whole at any time.
    fn write_superblocks(&mut self, copies: &[Copy]) -> Result<(), AreaError> {
        for copy in copies {
            let place = SUPERBLOCKS[copy.index()];
            let mut frame = self.frame(SUPERBLOCK_BYTES)?;
            if !self.superblock.write(frame.bytes_mut(), place) {
                return Err(AreaError::TableFull { areas: self.superblock.table.areas.len() });
            }
            let written = self.write(place, frame).and_then(|()| self.perform(0, Operation::Flush).map(drop));
            if let Err(AreaError::Device { error, .. }) = &written {
                self.failed = Some(*error);
            }
            written?;
        }
        self.next = (0, 0);
        Ok(())
    }

    /// The newest superblock that is whole, and the copies to be written again; `None` if there is nothing of ours.
    fn find(&mut self) -> Result<(Option<Superblock>, Vec<Repair>), AreaError> {
        let mut good: Vec<(Copy, Superblock)> = Vec::new();
        let mut repairs = Vec::new();
        let mut contradiction = None;
        let mut damaged = 0;
        for copy in Copy::BOTH {
            let place = SUPERBLOCKS[copy.index()];
            // A copy that can't be read is damaged: the other may be whole.
            let found = match self.read(place, SUPERBLOCK_BYTES) {
                Ok(frame) => superblock::read(frame.bytes(), place),
                Err(AreaError::Device { error: StorageError::Medium, .. }) => Found::Damaged,
                Err(error) => return Err(error),
            };
            match found {
                Found::Good(superblock) => good.push((copy, *superblock)),
                Found::Contradiction(error) => contradiction = Some(error),
                Found::Damaged => {
                    damaged += 1;
                    repairs.push(Repair { copy, was: "damaged" });
                }
                Found::Nothing => repairs.push(Repair { copy, was: "missing" }),
            }
        }
        if let Some(error) = contradiction {
            return Err(error);
        }
        let Some(epoch) = good.iter().map(|(_, superblock)| superblock.epoch).max() else {
            return if damaged > 0 { Err(AreaError::Superblocks) } else { Ok((None, Vec::new())) };
        };
        repairs.extend(
            good.iter()
                .filter(|(_, superblock)| superblock.epoch < epoch)
                .map(|(copy, _)| Repair { copy: *copy, was: "old" }),
        );
        let newest = good.into_iter().map(|(_, superblock)| superblock).find(|superblock| superblock.epoch == epoch);
        Ok((newest, repairs))
    }

    /// Makes the changes that the journal has.
    fn replay(&mut self) -> Result<(), AreaError> {
        let epoch = self.superblock.epoch;
        let mut records: Vec<Option<Record>> = Vec::new();
        records.resize_with(RECORDS as usize, || None);
        for copy in Copy::BOTH {
            for (number, found) in (0..).zip(self.read_journal(copy)?) {
                let is_of_now = |record: &Record| record.epoch == epoch && record.number == number;
                if let (Some(record), Some(found)) = (records.get_mut(number as usize), found.filter(is_of_now)) {
                    record.get_or_insert(found);
                }
            }
        }
        let count = records.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let mut previous = 0;
        for (number, record) in records.into_iter().take(count).enumerate() {
            let damaged = AreaError::Journal { epoch, record: number as u64 };
            let record = record.filter(|record| record.previous == previous).ok_or(damaged)?;
            previous = record.sum;
            self.superblock.table.apply(record.change);
        }
        self.next = (count as u64, previous);
        Ok(())
    }

    /// What can be read of one copy's records: by one request, or one by one if some blocks can't be read.
    fn read_journal(&mut self, copy: Copy) -> Result<Vec<Option<Record>>, AreaError> {
        let places = (0..RECORDS).map(|number| record(copy.index(), number));
        match self.read(record(copy.index(), 0), RECORDS * RECORD_BYTES) {
            Ok(frame) => {
                let units = frame.bytes().chunks(RECORD_BYTES as usize);
                return Ok(places.zip(units).map(|(place, unit)| journal::read(unit, place)).collect());
            }
            Err(AreaError::Device { error: StorageError::Medium, .. }) => {}
            Err(error) => return Err(error),
        }
        places
            .map(|place| match self.read(place, RECORD_BYTES) {
                Ok(frame) => Ok(journal::read(frame.bytes(), place)),
                Err(AreaError::Device { error: StorageError::Medium, .. }) => Ok(None),
                Err(error) => Err(error),
            })
            .collect()
    }

    fn frame(&self, bytes: u64) -> Result<Frame, AreaError> {
        let frame =
            self.memory.allocate(0).and_then(|mut frame| frame.resize(bytes as usize).is_some().then_some(frame));
        frame.ok_or_else(|| AreaError::Memory("no buffer is free".to_owned()))
    }

    fn read(&mut self, place: u64, bytes: u64) -> Result<Frame, AreaError> {
        let frame = self.frame(bytes)?;
        self.transfer(place, frame, |block, frame| Operation::Read { block, frame })
    }

    /// Moves a frame's bytes, in pieces that the device takes.
    fn transfer(
        &mut self,
        place: u64,
        mut frame: Frame,
        operation: impl Fn(u64, Frame) -> Operation,
    ) -> Result<Frame, AreaError> {
        let (headroom, length) = (frame.headroom(), frame.len());
        let geometry = self.disk.geometry();
        let piece = (geometry.transfer_bytes_max as usize).max(1);
        for start in (0..length).step_by(piece) {
            set_window(&mut frame, headroom + start, piece.min(length - start));
            let place = place + start as u64;
            let done = self.perform(place, operation(place / u64::from(geometry.block_bytes), frame))?;
            frame = done.ok_or_else(|| AreaError::Memory("a transfer without a buffer".to_owned()))?;
        }
        set_window(&mut frame, headroom, length);
        Ok(frame)
    }

    fn write(&mut self, place: u64, frame: Frame) -> Result<(), AreaError> {
        self.transfer(place, frame, |block, frame| Operation::Write { block, frame, durable: false }).map(drop)
    }

    /// One request to its end.
    fn perform(&mut self, place: u64, operation: Operation) -> Result<Option<Frame>, AreaError> {
        let at = |error| AreaError::Device { place, error };
        self.disk.submit(Request { token: place, operation }).map_err(|_| at(StorageError::Aborted))?;
        self.disk.ring();
        let clock = qanat_nic::MonotonicClock::new();
        loop {
            if self.disk.complete(&mut self.completions, 1) > 0 {
                let completion = self.completions.pop().ok_or_else(|| at(StorageError::Gone))?;
                return completion.result.map(|()| completion.frame).map_err(at);
            }
            let passed = Duration::from_nanos(qanat_nic::Clock::now(&clock).as_nanos());
            if passed >= PATIENCE {
                return Err(at(StorageError::TimedOut));
            }
            self.disk.wait(PATIENCE - passed);
        }
    }
}

const _: () = assert!(DATA.is_multiple_of(UNIT_BYTES) && SUPERBLOCK_BYTES.is_multiple_of(UNIT_BYTES));
