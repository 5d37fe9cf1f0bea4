//! [`Reader`]: reads a ring from a position on, in large pieces, some ahead, and gives the bytes in order.

use crate::error::StoreError;
use crate::io::{Io, Role};
use crate::layout::Ring;
use qanat_api::{Block, StorageCommands};
use std::collections::VecDeque;

/// Reads that are under way at once, at most: one is looked at while others are read.
const READS_AHEAD: usize = 4;

/// A read that was asked for.
#[derive(Debug)]
struct Asked {
    number: u64,
    place: u64,
    length: usize,
    /// What came.
    block: Option<Block>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Reader {
    ring: Ring,
    role: Role,
    /// Bytes of one read.
    chunk: usize,
    /// The position to be read next.
    next: u64,
    /// Nothing is read from here on.
    limit: u64,
    asked: VecDeque<Asked>,
    /// Numbers given to reads so far.
    numbers: u64,
    // The one copy of recovery: frames lie across the borders of reads.
    window: Vec<u8>,
    /// What of the window was consumed.
    head: usize,
}

impl Reader {
    /// Reads positions from `from` up to `limit`, by transfers of `chunk` bytes (whole units).
    pub(crate) fn new(ring: Ring, role: Role, chunk: usize, (from, limit): (u64, u64)) -> Reader {
        let (asked, window) = (VecDeque::new(), Vec::new());
        Reader { ring, role, chunk, next: from, limit, asked, numbers: 0, window, head: 0 }
    }

    /// The same, its reads numbered from `number` on.
    pub(crate) fn numbered_from(self, number: u64) -> Reader {
        Reader { numbers: number, ..self }
    }

    /// What has been read and not consumed.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.window.get(self.head..).unwrap_or_default()
    }

    /// Whether no more bytes will come.
    pub(crate) fn is_at_limit(&self) -> bool {
        self.next >= self.limit && self.asked.is_empty()
    }

    /// Forgets the first bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.head = self.window.len().min(self.head + count);
        if self.head > self.window.len() / 2 {
            self.window.drain(..self.head);
            self.head = 0;
        }
    }

    /// Begins again at `from`: what was read is read again.
    pub(crate) fn restart(&mut self, from: u64) {
        self.window.clear();
        self.asked.clear();
        (self.head, self.next) = (0, from);
    }

    /// No position from `limit` on is read.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Asks for more, until `wanted` bytes and what is read ahead will be there.
    pub(crate) fn pump(
        &mut self,
        wanted: usize,
        io: &mut Io,
        storage: &mut dyn StorageCommands,
    ) -> Result<(), StoreError> {
        let most = wanted.max(self.chunk) + READS_AHEAD * self.chunk;
        let mut coming: usize = self.asked.iter().map(|asked| asked.length).sum();
        while self.next < self.limit && self.asked.len() < READS_AHEAD && self.bytes().len() + coming < most {
            let length = self.ring.until_wrap(self.next).min(self.limit - self.next).min(self.chunk as u64) as usize;
            let place = self.ring.place(self.next);
            if !io.read(storage, (place, length), (self.role, self.numbers))? {
                break;
            }
            self.asked.push_back(Asked { number: self.numbers, place, length, block: None });
            self.numbers += 1;
            self.next += length as u64;
            coming += length;
        }
        Ok(())
    }

    /// A read has ended.
    pub(crate) fn arrived(
        &mut self,
        number: u64,
        result: Result<Block, qanat_api::StorageError>,
    ) -> Result<(), StoreError> {
        let Some(asked) = self.asked.iter_mut().find(|asked| asked.number == number) else { return Ok(()) };
        match result {
            Ok(block) if block.len() == asked.length => asked.block = Some(block),
            Ok(_) => return Err(StoreError::Disk { place: asked.place, error: qanat_api::StorageError::Length }),
            Err(error) => return Err(StoreError::Disk { place: asked.place, error }),
        }
        while let Some(block) = self.asked.front_mut().and_then(|asked| asked.block.take()) {
            self.window.extend_from_slice(block.bytes());
            self.asked.pop_front();
        }
        Ok(())
    }
}
