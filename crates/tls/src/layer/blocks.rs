//! [`Blocks`]: the memory that records are sealed into.

use qanat_api::{Block, Commands};
use qanat_nic::{Pool, Region};
use std::io;

/// Bytes of a frame for one short record, as most answers are, and how many there are.
const SHORT: (u32, u32) = (2 << 10, 8_192);
/// Bytes of a frame for any record, and how many there are.
const LONG: (u32, u32) = (32 << 10, 2_048);

/// Frames for records, last in, first out, so that those in use are few, and in the cache. Where the stack is in another process its own
/// memory is used instead, which need not be copied then.
#[derive(Debug)]
pub(crate) struct Blocks {
    short: Pool,
    long: Pool,
    /// Whether the stack takes what is sent from where it lies in this process; `None`: nobody has asked yet.
    takes_own: Option<bool>,
}

impl Blocks {
    /// None of the memory is touched before it is used.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn new() -> io::Result<Blocks> {
        let pool = |(bytes, count)| -> io::Result<Pool> {
            Region::new(count, bytes)?.pool(count).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
        };
        Ok(Blocks { short: pool(SHORT)?, long: pool(LONG)?, takes_own: None })
    }

    /// Frames in use.
    pub(crate) fn in_use(&self) -> u32 {
        self.short.in_use_count() + self.long.in_use_count()
    }

    /// Memory for so many bytes, or for fewer.
    pub(crate) fn take<C: Commands>(&mut self, bytes: usize, below: &mut C) -> Block {
        let takes_own = *self.takes_own.get_or_insert_with(|| below.block(1).into_frame().is_err());
        if !takes_own {
            return below.block(bytes);
        }
        let pool = if bytes <= SHORT.0 as usize { &self.short } else { &self.long };
        pool.allocate(0).map_or_else(|| Block::own(bytes), Block::transmit)
    }
}
