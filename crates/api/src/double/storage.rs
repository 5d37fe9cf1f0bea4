//! [`StorageDouble`]: one storage area in memory, for tests of services.

use crate::{AreaId, Block, CommandError, Durability, Event, Geometry, StorageCommands, StorageError};
use qanat_nic::{Pool, Region};
use std::collections::VecDeque;
use std::io;

/// Bytes of a block.
const BLOCK_BYTES: u32 = 512;
/// Bytes of a buffer.
const BUFFER_BYTES: u32 = 16 << 10;
/// Buffers there are, and requests that may be under way.
const DEPTH: u32 = 32;

/// A storage area in memory. What is asked of it is done at once. Its events are taken one by one, in the order of the commands, so a
/// test chooses when the service hears of them.
///
/// ```
/// use qanat_api::double::StorageDouble;
/// use qanat_api::{AreaId, CommandError, Event, StorageCommands, StorageError};
///
/// let area = AreaId::new(0, 0);
/// let mut storage = StorageDouble::new(area, 4_096).unwrap();
/// storage.fails_with = Some(StorageError::Medium);
/// storage.read(area, 0, 512, 1)?;
/// assert!(matches!(storage.next_event(), Some(Event::Read { token: 1, result: Err(StorageError::Medium), .. })));
/// assert_eq!(storage.read(AreaId::new(1, 0), 0, 512, 2), Err(CommandError::Stale));
/// # Ok::<(), CommandError>(())
/// ```
#[derive(Debug)]
pub struct StorageDouble {
    /// With what commands end from now on; `None`: they succeed.
    pub fails_with: Option<StorageError>,
    /// How many flushes were asked for.
    pub flushes: usize,
    area: AreaId,
    bytes: Vec<u8>,
    pool: Pool,
    events: VecDeque<Event>,
}

impl StorageDouble {
    /// An area of so many bytes, all zero. Only whole blocks of 512 bytes count.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(area: AreaId, bytes: usize) -> io::Result<StorageDouble> {
        let pool = Region::new(DEPTH, BUFFER_BYTES)?.pool(DEPTH).ok_or(io::ErrorKind::OutOfMemory)?;
        let bytes = vec![0; bytes - bytes % BLOCK_BYTES as usize];
        Ok(StorageDouble { fails_with: None, flushes: 0, area, bytes, pool, events: VecDeque::new() })
    }

    /// What is stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Buffers that somebody has.
    pub fn buffers_in_use(&self) -> usize {
        self.pool.in_use_count() as usize
    }

    /// The end of the first command whose end was not taken.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn takes(&self, area: AreaId) -> Result<(), CommandError> {
        match () {
            () if area != self.area => Err(CommandError::Stale),
            () if self.events.len() >= DEPTH as usize => Err(CommandError::Full),
            () => Ok(()),
        }
    }

    /// Where a transfer lies, if it can be done.
    fn place(&mut self, offset: u64, length: usize) -> Result<&mut [u8], StorageError> {
        if let Some(error) = self.fails_with {
            return Err(error);
        }
        let block_bytes = BLOCK_BYTES as usize;
        if length == 0 || !length.is_multiple_of(block_bytes) {
            return Err(StorageError::Length);
        }
        let start = usize::try_from(offset).map_err(|_| StorageError::OutOfRange)?;
        if !start.is_multiple_of(block_bytes) {
            return Err(StorageError::Offset);
        }
        self.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..length)).ok_or(StorageError::OutOfRange)
    }
}

impl StorageCommands for StorageDouble {
    fn geometry(&self, area: AreaId) -> Result<Geometry, CommandError> {
        if area != self.area {
            return Err(CommandError::Stale);
        }
        Ok(Geometry {
            block_bytes: BLOCK_BYTES,
            blocks: self.bytes.len() as u64 / u64::from(BLOCK_BYTES),
            atomic_bytes: BLOCK_BYTES,
            volatile_cache: true,
            forced_unit_access: true,
            transfer_bytes_max: BUFFER_BYTES,
            depth: DEPTH,
        })
    }

    fn area_block(&mut self, area: AreaId) -> Result<Block, CommandError> {
        match self.pool.allocate(0) {
            _ if area != self.area => Err(CommandError::Stale),
            frame => frame.map(Block::transmit).ok_or(CommandError::Full),
        }
    }

    fn read(&mut self, area: AreaId, offset: u64, length: usize, token: u64) -> Result<(), CommandError> {
        self.takes(area)?;
        if length > BUFFER_BYTES as usize {
            return Err(CommandError::TooLong);
        }
        let mut block = self.area_block(area)?;
        let result = self.place(offset, length).map(|bytes| {
            block.append(bytes);
            block
        });
        self.events.push_back(Event::Read { area, token, result });
        Ok(())
    }

    fn write(
        &mut self,
        area: AreaId,
        offset: u64,
        block: Block,
        _: Durability,
        token: u64,
    ) -> Result<(), CommandError> {
        self.takes(area)?;
        if block.len() > BUFFER_BYTES as usize {
            return Err(CommandError::TooLong);
        }
        let result = self.place(offset, block.len()).map(|bytes| bytes.copy_from_slice(block.bytes()));
        self.events.push_back(Event::Written { area, token, block, result });
        Ok(())
    }

    fn flush(&mut self, area: AreaId, token: u64) -> Result<(), CommandError> {
        self.takes(area)?;
        self.flushes += 1;
        let result = self.fails_with.map_or(Ok(()), Err);
        self.events.push_back(Event::Flushed { area, token, result });
        Ok(())
    }

    fn write_zeroes(&mut self, area: AreaId, offset: u64, bytes: u64, token: u64) -> Result<(), CommandError> {
        self.takes(area)?;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // A length that is not of whole blocks is told before one that is too long.
        let result = self.place(offset, length).map(|bytes| bytes.fill(0));
        self.events.push_back(Event::Zeroed { area, token, result });
        Ok(())
    }
}
