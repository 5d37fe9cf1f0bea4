//! [`StorageCommands`]: what a service may ask of its storage areas.

use crate::block::Block;
use crate::error::CommandError;
use crate::geometry::Geometry;
use crate::handle::AreaId;

/// When a write has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Durability {
    /// It survives a loss of power (NVMe: FUA, or a flush behind it).
    Durable,
    /// A loss of power may undo it, until a flush that was asked for after its end has ended.
    Cached,
}

/// The storage commands of the native API, on areas that the program's runtime was given. Offsets are in bytes from the area's first
/// byte, lengths in bytes; both are of whole blocks ([`Geometry::block_bytes`]).
///
/// A command never blocks. If it is taken, exactly one event with its area and token follows, in any order with others: a command that
/// needs another one's outcome is given after that one's event. What can't be done (beyond the end, not of whole blocks) is taken and
/// ends with the error, as a controller has it.
///
/// ```
/// use qanat_api::double::StorageDouble;
/// use qanat_api::{AreaId, CommandError, Durability, Event, StorageCommands};
///
/// /// Stores a record in the area's first block.
/// fn store(record: &[u8], area: AreaId, storage: &mut impl StorageCommands) -> Result<(), CommandError> {
///     let block_bytes = storage.geometry(area)?.block_bytes as usize;
///     let mut block = storage.area_block(area)?;
///     block.append(record);
///     // A write is of whole blocks.
///     block.append_with(block_bytes - block.len(), |rest| rest.fill(0));
///     storage.write(area, 0, block, Durability::Durable, 7)
/// }
///
/// let area = AreaId::new(0, 0);
/// let mut storage = StorageDouble::new(area, 1 << 20).unwrap();
/// store(b"hello", area, &mut storage)?;
/// let Some(Event::Written { token: 7, result: Ok(()), .. }) = storage.next_event() else { panic!("no end") };
/// assert!(storage.bytes().starts_with(b"hello\0"));
/// # Ok::<(), CommandError>(())
/// ```
pub trait StorageCommands {
    /// What an area is like. If it grows while it is open and a disk core serves it, `blocks` soon says so; an area that the kernel fences
    /// has its new size when it is opened again.
    ///
    /// # Errors
    /// [`CommandError::Stale`]: the program has no such area.
    fn geometry(&self, area: AreaId) -> Result<Geometry, CommandError>;

    /// Memory to fill and [write](StorageCommands::write) without a copy, of as many bytes as the area's buffers have. It may be sent
    /// to the network, too.
    ///
    /// # Errors
    /// [`CommandError::Stale`]; [`CommandError::Full`] if every buffer of the area is in use.
    fn area_block(&mut self, area: AreaId) -> Result<Block, CommandError>;

    /// Reads `length` bytes. [`Event::Read`](crate::Event::Read) follows.
    ///
    /// # Errors
    /// [`CommandError::Stale`]; [`CommandError::Full`] if as many requests are under way as may be, or every buffer is in use: again
    /// after an event of this area; [`CommandError::TooLong`] beyond the length of a buffer or of the largest transfer.
    fn read(&mut self, area: AreaId, offset: u64, length: usize, token: u64) -> Result<(), CommandError>;

    /// Writes what is in `block`, which [`Event::Written`](crate::Event::Written) gives back. A block that is not of the area's memory
    /// ([`area_block`](StorageCommands::area_block), or a read) is copied into it.
    ///
    /// # Errors
    /// As [`read`](StorageCommands::read). The block is dropped then.
    fn write(
        &mut self,
        area: AreaId,
        offset: u64,
        block: Block,
        durability: Durability,
        token: u64,
    ) -> Result<(), CommandError>;

    /// Makes durable all writes whose events came before. [`Event::Flushed`](crate::Event::Flushed) follows. Writes under way are not
    /// covered.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::Full`].
    fn flush(&mut self, area: AreaId, token: u64) -> Result<(), CommandError>;

    /// Writes zeroes, as many bytes as wished. [`Event::Zeroed`](crate::Event::Zeroed) follows.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::Full`].
    fn write_zeroes(&mut self, area: AreaId, offset: u64, bytes: u64, token: u64) -> Result<(), CommandError>;
}
