//! [`Io`]: the commands of one area, counted, so that none is refused for want of room.

use crate::error::StoreError;
use qanat_api::{AreaId, Block, CommandError, Durability, Event, Geometry, StorageCommands, StorageError};

/// What a request was for. It is in the uppermost byte of its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A superblock is read.
    Look = 1,
    /// The log is read from its start on.
    Recover,
    /// What was recovered is made durable.
    Settle,
    /// A superblock is written.
    Head,
    /// A frame of the log is written.
    Frame,
    /// The log is flushed.
    Flush,
    /// One record is read.
    Fetch,
    /// A piece of an object is written.
    ObjectWrite,
    /// Objects are flushed.
    ObjectFlush,
    /// A piece of an object is read.
    ObjectRead,
    /// An object's checksums are read.
    ObjectSums,
}

const ROLES: [Role; 11] = [
    Role::Look,
    Role::Recover,
    Role::Settle,
    Role::Head,
    Role::Frame,
    Role::Flush,
    Role::Fetch,
    Role::ObjectWrite,
    Role::ObjectFlush,
    Role::ObjectRead,
    Role::ObjectSums,
];

/// A token's number has so many bits; the role is above.
const NUMBER_BITS: u32 = 56;

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Read(Result<Block, StorageError>),
    /// A write or a flush.
    Done(Result<(), StorageError>),
}

/// The end of a request of a store.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) role: Role,
    pub(crate) number: u64,
    pub(crate) outcome: Outcome,
}

/// What a token says: the role, and the number given with it.
fn role_of(token: u64) -> Option<(Role, u64)> {
    let role = ROLES.into_iter().find(|role| *role as u64 == token >> NUMBER_BITS)?;
    Some((role, token & ((1 << NUMBER_BITS) - 1)))
}

fn token(role: Role, number: u64) -> u64 {
    (role as u64) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
}

/// The area, and what is under way there.
#[derive(Debug)]
pub(crate) struct Io {
    area: AreaId,
    geometry: Geometry,
    in_flight: u32,
}

impl Io {
    /// The area as it is now.
    pub(crate) fn new(area: AreaId, storage: &dyn StorageCommands) -> Result<Io, StoreError> {
        let geometry = storage.geometry(area).map_err(|error| StoreError::Refused { place: 0, error })?;
        Ok(Io { area, geometry, in_flight: 0 })
    }

    pub(crate) fn area(&self) -> AreaId {
        self.area
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Whether the next request will be taken, as far as the depth of the queue goes.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < self.geometry.depth
    }

    /// What an event says of a request; gives back an event that is not of this area, or of a request that no store makes.
    pub(crate) fn ended(&mut self, event: Event) -> Result<Ended, Event> {
        let (area, token) = match &event {
            Event::Read { area, token, .. }
            | Event::Written { area, token, .. }
            | Event::Flushed { area, token, .. } => (*area, *token),
            _ => return Err(event),
        };
        let Some((role, number)) = role_of(token).filter(|_| area == self.area) else { return Err(event) };
        self.in_flight = self.in_flight.saturating_sub(1);
        let outcome = match event {
            Event::Read { result, .. } => Outcome::Read(result),
            // The buffer is free before the next one is needed.
            Event::Written { result, .. } | Event::Flushed { result, .. } => Outcome::Done(result),
            _ => Outcome::Done(Ok(())),
        };
        Ok(Ended { role, number, outcome })
    }

    /// What a command that may be given again later came to: whether it was taken.
    fn taken(&mut self, place: u64, result: Result<(), CommandError>) -> Result<bool, StoreError> {
        match result {
            Ok(()) => {
                self.in_flight += 1;
                Ok(true)
            }
            Err(CommandError::Full) => Ok(false),
            Err(error) => Err(StoreError::Refused { place, error }),
        }
    }

    /// Reads; whether it was taken. If not, it is to be asked again after an event of the area.
    pub(crate) fn read(
        &mut self,
        storage: &mut dyn StorageCommands,
        (place, length): (u64, usize),
        (role, number): (Role, u64),
    ) -> Result<bool, StoreError> {
        if !self.has_room() {
            return Ok(false);
        }
        let result = storage.read(self.area, place, length, token(role, number));
        self.taken(place, result)
    }

    /// Flushes; whether it was taken.
    pub(crate) fn flush(
        &mut self,
        storage: &mut dyn StorageCommands,
        (role, number): (Role, u64),
    ) -> Result<bool, StoreError> {
        if !self.has_room() {
            return Ok(false);
        }
        let result = storage.flush(self.area, token(role, number));
        self.taken(0, result)
    }

    /// Writes a block of the area's memory. Only if there is [room](Self::has_room): a block that is refused is gone.
    pub(crate) fn write(
        &mut self,
        storage: &mut dyn StorageCommands,
        (place, block): (u64, Block),
        durability: Durability,
        (role, number): (Role, u64),
    ) -> Result<(), StoreError> {
        let result = storage.write(self.area, place, block, durability, token(role, number));
        match self.taken(place, result)? {
            true => Ok(()),
            false => Err(StoreError::Refused { place, error: CommandError::Full }),
        }
    }

    /// Memory of the area's to fill; `None` if all of it is in use now.
    pub(crate) fn block(&self, storage: &mut dyn StorageCommands) -> Option<Block> {
        storage.area_block(self.area).ok()
    }

    /// A block in the area's memory: as it is, or a copy of it if it is of the process's own. Gives it back if there is no memory now.
    pub(crate) fn of_area(&self, block: Block, storage: &mut dyn StorageCommands) -> Result<Block, Block> {
        let own = match block.into_frame() {
            Ok(frame) => return Ok(Block::transmit(frame)),
            Err(own) => own,
        };
        match self.block(storage) {
            Some(mut target) => {
                target.append(own.bytes());
                Ok(target)
            }
            None => Err(own),
        }
    }
}
