//! [`Look`]: looks what an area holds: reads both superblocks, and, if there is none, whether there is anything at all.

use crate::chain::reader::Reader;
use crate::error::StoreError;
use crate::io::{Io, Role};
use crate::layout::{DATA, Ring, UNIT_BYTES};
use crate::superblock::{Found, SUPERBLOCK_BYTES, Superblock, place};
use qanat_api::{Block, StorageCommands, StorageError};

/// Numbers of reads of the beginning, beside those of the superblocks.
const BEGINNING: u64 = 2;

/// What was found.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Nothing yet.
    Wait,
    /// A store; the copy that is damaged or older, if one is: the one to be written first; whether it is damaged.
    Store { superblock: Box<Superblock>, worse: usize, is_damaged: bool },
    /// Zeroes.
    Nothing,
    /// What can't be used.
    Wrong(StoreError),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Look {
    copies: [Option<Result<Found, StorageError>>; 2],
    asked: [bool; 2],
    beginning: Reader,
    seen: u64,
}

impl Look {
    pub(crate) fn new(io: &Io) -> Look {
        let chunk = u64::from(io.geometry().transfer_bytes_max).clamp(UNIT_BYTES, DATA);
        let chunk = (chunk - chunk % UNIT_BYTES) as usize;
        let beginning = Reader::new(Ring { start: 0, bytes: DATA }, Role::Look, chunk, (0, DATA));
        Look { copies: [None, None], asked: [false; 2], beginning: beginning.numbered_from(BEGINNING), seen: 0 }
    }

    fn has_both(&self) -> bool {
        self.copies.iter().all(Option::is_some)
    }

    /// Asks for what is needed next.
    pub(crate) fn pump(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        for (copy, asked) in self.asked.iter_mut().enumerate().filter(|(_, asked)| !**asked) {
            *asked = io.read(storage, (place(copy), SUPERBLOCK_BYTES), (Role::Look, copy as u64))?;
        }
        if self.has_both() && !self.has_store() {
            self.beginning.pump(0, io, storage)?;
        }
        Ok(())
    }

    fn has_store(&self) -> bool {
        self.copies.iter().any(|copy| matches!(copy, Some(Ok(Found::Good(_) | Found::Wrong(_)))))
    }

    /// A read has ended.
    pub(crate) fn arrived(&mut self, number: u64, result: Result<Block, StorageError>) -> Result<(), StoreError> {
        match self.copies.get_mut(number as usize) {
            Some(copy) => *copy = Some(result.map(|block| Superblock::read(number as usize, block.bytes()))),
            None => self.beginning.arrived(number, result)?,
        }
        Ok(())
    }

    /// What was found so far.
    pub(crate) fn step(&mut self) -> Seen {
        if !self.has_both() {
            return Seen::Wait;
        }
        if self.has_store() {
            return self.choose();
        }
        // Without a store, a superblock that can't be read might have been one.
        for (copy, found) in self.copies.iter().enumerate() {
            match found {
                Some(Err(error)) => return Seen::Wrong(StoreError::Disk { place: place(copy), error: *error }),
                Some(Ok(Found::Damaged)) => return Seen::Wrong(StoreError::Superblocks),
                _ => {}
            }
        }
        let bytes = self.beginning.bytes();
        if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
            return Seen::Wrong(StoreError::Foreign { place: self.seen + at as u64 });
        }
        let count = bytes.len();
        self.seen += count as u64;
        self.beginning.consume(count);
        if self.beginning.is_at_limit() { Seen::Nothing } else { Seen::Wait }
    }

    fn choose(&mut self) -> Seen {
        let is_damaged = !self.copies.iter().all(|copy| matches!(copy, Some(Ok(Found::Good(_)))));
        let mut best: Option<(usize, Superblock)> = None;
        let mut wrong = None;
        for (copy, found) in self.copies.iter_mut().enumerate() {
            match found.take() {
                Some(Ok(Found::Good(superblock)))
                    if best.as_ref().is_none_or(|(_, other)| other.serial < superblock.serial) =>
                {
                    best = Some((copy, superblock));
                }
                Some(Ok(Found::Wrong(error))) => wrong = Some(error),
                _ => {}
            }
        }
        match (best, wrong) {
            // A copy that is right by its checksum and can't be is no damage: somebody else wrote it.
            (_, Some(error)) => Seen::Wrong(error),
            (Some((copy, superblock)), None) => {
                Seen::Store { superblock: Box::new(superblock), worse: 1 - copy.min(1), is_damaged }
            }
            (None, None) => Seen::Wait,
        }
    }
}
