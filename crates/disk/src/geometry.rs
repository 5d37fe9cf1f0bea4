//! [`Geometry`]: what a storage device is like, and whether a request fits it.

use crate::error::StorageError;
use crate::vsic::{Operation, Request};

/// What a device is like. Constant while it is open; an area that grows is told of by its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Geometry {
    /// Bytes in a logical block, the unit of addresses and lengths: a power of two, at least 512.
    pub block_bytes: u32,
    /// Blocks there are.
    pub blocks: u64,
    /// So many bytes, aligned to themselves, are written wholly or not at all when power fails (NVMe: AWUPF).
    pub atomic_bytes: u32,
    /// Whether what was written can be lost until a flush (NVMe: VWC).
    pub volatile_cache: bool,
    /// Whether the device writes through its cache by itself; otherwise the driver follows a durable write with a flush.
    pub forced_unit_access: bool,
    /// Bytes one request may have at most.
    pub transfer_bytes_max: u32,
    /// Requests that may be under way at once.
    pub depth: u32,
}

impl Geometry {
    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes))
    }

    /// Blocks in `bytes`, if they are whole ones.
    pub fn blocks_in(&self, bytes: usize) -> Option<u64> {
        let bytes = bytes as u64;
        let block_bytes = u64::from(self.block_bytes);
        (bytes % block_bytes == 0).then_some(bytes / block_bytes)
    }

    /// Judges a request as a controller does.
    ///
    /// # Errors
    /// [`StorageError::Length`] if its buffer is empty or not of whole blocks, [`StorageError::TooLong`] beyond the largest
    /// transfer, [`StorageError::OutOfRange`] if it reaches beyond the end, [`StorageError::Unaligned`] for a buffer that does
    /// not begin at a multiple of 512 bytes.
    #[inline]
    pub fn check(&self, request: &Request) -> Result<(), StorageError> {
        let (block, blocks) = match &request.operation {
            Operation::Flush => return Ok(()),
            Operation::Read { block, frame } | Operation::Write { block, frame, .. } => {
                if frame.bytes().as_ptr().addr() % 512 != 0 {
                    return Err(StorageError::Unaligned);
                }
                if frame.len() > self.transfer_bytes_max as usize {
                    return Err(StorageError::TooLong);
                }
                (*block, self.blocks_in(frame.len()).filter(|blocks| *blocks > 0).ok_or(StorageError::Length)?)
            }
            Operation::WriteZeroes { block, blocks } => (*block, *blocks),
        };
        match block.checked_add(blocks) {
            _ if blocks == 0 => Err(StorageError::Length),
            Some(end) if end <= self.blocks => Ok(()),
            _ => Err(StorageError::OutOfRange),
        }
    }
}
