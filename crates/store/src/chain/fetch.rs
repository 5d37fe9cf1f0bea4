//! [`Fetch`]: reads single records again, one after the other.

use crate::chain::frame::{HEADER_BYTES, Header, piece};
use crate::error::StoreError;
use crate::io::{Io, Role};
use crate::layout::{Ring, UNIT_BYTES};
use crate::position::Position;
use qanat_api::{Block, StorageCommands, StorageError};
use std::collections::VecDeque;

/// Records that may be asked for at once.
const FETCHES_MAX: usize = 1_024;

/// A record that is read.
#[derive(Debug)]
struct Current {
    position: Position,
    token: u64,
    /// The position of the frame to look at next.
    frame: u64,
    /// Bytes of it to be read: one unit at first, which has its header.
    length: usize,
    /// A part of the record was found.
    has_begun: bool,
    /// The frame was read and was not right: it is read once more.
    is_doubted: bool,
}

/// The end of a fetch.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) position: Position,
    pub(crate) token: u64,
    /// Whether [`Fetch::bytes`] are the record's.
    pub(crate) result: Result<(), StoreError>,
}

/// Whose the last record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lent {
    /// Nobody's: the next may take its memory.
    No,
    /// It is to be given.
    Waits,
    /// It was given.
    Given,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Fetch {
    ring: Ring,
    identity: [u8; 16],
    frame_bytes: u32,
    record_bytes_max: usize,
    wanted: VecDeque<(Position, u64)>,
    current: Option<Current>,
    is_reading: bool,
    /// The last frame that was read and is right: the next record is often there, too.
    frame: Option<(u64, Header, Block)>,
    /// The record, as far as it was read.
    bytes: Vec<u8>,
    lent: Lent,
}

impl Fetch {
    pub(crate) fn new((ring, identity): (Ring, [u8; 16]), frame_bytes: u32, record_bytes_max: usize) -> Fetch {
        Fetch {
            ring,
            identity,
            frame_bytes,
            record_bytes_max,
            wanted: VecDeque::new(),
            current: None,
            is_reading: false,
            frame: None,
            bytes: Vec::new(),
            lent: Lent::No,
        }
    }

    /// Asks for a record; whether it is taken.
    pub(crate) fn want(&mut self, position: Position, token: u64) -> bool {
        let takes = self.wanted.len() < FETCHES_MAX;
        if takes {
            self.wanted.push_back((position, token));
        }
        takes
    }

    /// The last record's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The last record is its caller's until [`take_back`](Self::take_back).
    pub(crate) fn give(&mut self) {
        self.lent = Lent::Given;
    }

    /// What was given is not needed any more.
    pub(crate) fn take_back(&mut self) {
        if self.lent == Lent::Given {
            self.lent = Lent::No;
        }
    }

    /// Whether nothing is asked for.
    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.current.is_none() && self.lent != Lent::Waits
    }

    /// Goes on as far as can be; a record that is there, or can't be.
    pub(crate) fn drive(
        &mut self,
        io: &mut Io,
        storage: &mut dyn StorageCommands,
    ) -> Result<Option<Fetched>, StoreError> {
        while !self.is_reading && self.lent == Lent::No {
            if self.current.is_none() {
                let Some((position, token)) = self.wanted.pop_front() else {
                    // Nobody waits: the buffer is of more use to others.
                    self.frame = None;
                    return Ok(None);
                };
                self.bytes.clear();
                let (frame, length) = (position.frame(), UNIT_BYTES as usize);
                self.current = Some(Current { position, token, frame, length, has_begun: false, is_doubted: false });
            }
            let Some(current) = &mut self.current else { return Ok(None) };
            if self.frame.as_ref().is_some_and(|(position, ..)| *position == current.frame) {
                match self.take() {
                    Some(false) => continue,
                    Some(true) => return Ok(self.end(Ok(()))),
                    None => return Ok(self.end(Err(StoreError::None))),
                }
            }
            self.frame = None;
            let place = self.ring.place(current.frame);
            let length = current.length.min(self.ring.until_wrap(current.frame) as usize);
            self.is_reading = io.read(storage, (place, length), (Role::Fetch, 0))?;
            if !self.is_reading {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn end(&mut self, result: Result<(), StoreError>) -> Option<Fetched> {
        self.lent = Lent::Waits;
        self.current.take().map(|current| Fetched { position: current.position, token: current.token, result })
    }

    /// Takes the record's part from the frame; whether it is the last one. `None`: there is no such record.
    fn take(&mut self) -> Option<bool> {
        let (_, header, block) = self.frame.as_ref()?;
        let current = self.current.as_mut()?;
        let (mut at, mut index) = (HEADER_BYTES, 0);
        let wanted = if current.has_begun { 0 } else { current.position.index() };
        let found = loop {
            if index >= header.records {
                return None;
            }
            let found = piece(block.bytes(), at, header.used)?;
            if index == wanted {
                break found;
            }
            at = found.to;
            index += 1;
        };
        let bytes = block.bytes().get(found.from..found.to)?;
        if found.part.begins() == current.has_begun || self.bytes.len() + bytes.len() > self.record_bytes_max {
            return None;
        }
        // A record may outlive the frame's buffer, and have parts in several.
        self.bytes.extend_from_slice(bytes);
        (current.has_begun, current.is_doubted) = (true, false);
        (current.frame, current.length) = (current.frame + header.bytes as u64, UNIT_BYTES as usize);
        Some(found.part.ends())
    }

    /// A read has ended. Returns the end of the fetch if it failed.
    pub(crate) fn arrived(&mut self, result: Result<Block, StorageError>) -> Option<Fetched> {
        self.is_reading = false;
        let current = self.current.as_mut()?;
        let place = self.ring.place(current.frame);
        let block = match result {
            Ok(block) => block,
            Err(error) => return self.end(Err(StoreError::Disk { place, error })),
        };
        match Header::read(block.bytes(), current.frame, self.frame_bytes) {
            Some(header) if header.bytes > block.len() && current.length < header.bytes => {
                current.length = header.bytes
            }
            Some(header) if header.verifies(block.bytes(), &self.identity, current.frame) => {
                self.frame = Some((current.frame, header, block));
            }
            _ if current.is_doubted => return self.end(Err(StoreError::Rotten { place })),
            _ => (current.is_doubted, current.length) = (true, UNIT_BYTES as usize),
        }
        None
    }
}
