//! How objects come and go.

use super::{Objects, RECORD_BYTES};
use crate::error::StoreError;
use crate::io::{Outcome, Role};
use crate::layout::UNIT_BYTES;
use crate::objects::event::{ObjectEvent, ObjectId};
use crate::objects::sums::{self, PIECE_BYTES, SUMS_A_UNIT};
use crate::objects::table::{Extent, NAME_BYTES_MAX, OBJECT_BYTES_MAX, Record};
use crate::objects::writing::{Stage, Writing};
use qanat_api::{Block, Durability, StorageCommands, StorageError};

impl Objects {
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
        let room = (self.log.bytes().1 / 2).saturating_sub(16 * UNIT_BYTES);
        let (wanted, free) = (RECORD_BYTES + name.len() as u64, room.saturating_sub(self.table_bytes));
        if wanted > free {
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
        self.put((place, block), object.0, storage);
        Ok(())
    }

    /// Writes something of an object.
    fn put(&mut self, (place, block): (u64, Block), generation: u64, storage: &mut dyn StorageCommands) {
        let role = (Role::ObjectWrite, generation);
        if let Err(error) = self.log.io().write(storage, (place, block), Durability::Cached, role) {
            self.log.fail(error);
        }
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
    /// [`StoreError::None`]; else as [`Log::append`](crate::Log::append).
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

    /// A piece or checksums of an object were written, or not.
    pub(super) fn written(&mut self, generation: u64, result: Result<(), StorageError>) {
        let Some(writing) = self.writings.get_mut(&generation) else { return };
        let object = ObjectId(generation);
        writing.under_way = writing.under_way.saturating_sub(1);
        match result {
            Ok(()) => {
                writing.go_on();
                self.told.push_back(ObjectEvent::Written { object });
            }
            // It is told once.
            Err(error) if writing.stage != Stage::GivenUp => {
                writing.stage = Stage::GivenUp;
                let error = StoreError::Disk { place: writing.extent.place, error };
                self.told.push_back(ObjectEvent::NotStored { object, error });
            }
            Err(_) => {}
        }
    }

    /// A flush that began after all of the objects' pieces were written has ended.
    pub(super) fn flushed(&mut self, outcome: Outcome) -> Result<(), StoreError> {
        self.is_flushing = false;
        if let Outcome::Done(Err(error)) = outcome {
            return Err(StoreError::Disk { place: 0, error });
        }
        for writing in self.writings.values_mut().filter(|writing| writing.stage == Stage::Flushing) {
            writing.stage = Stage::Flushed;
        }
        Ok(())
    }

    pub(super) fn drive_writings(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        // As many as are written at the same time: few.
        for generation in self.writings.keys().copied().collect::<Vec<u64>>() {
            let identity = self.identity();
            let Some(writing) = self.writings.get_mut(&generation) else { continue };
            match writing.stage {
                Stage::GivenUp if writing.under_way == 0 => {
                    let Some(writing) = self.writings.remove(&generation) else { continue };
                    self.table_bytes = self.table_bytes.saturating_sub(RECORD_BYTES + writing.name.len() as u64);
                    self.free_extent(Some(writing.extent));
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
                    self.put((place, block), generation, storage);
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
}
