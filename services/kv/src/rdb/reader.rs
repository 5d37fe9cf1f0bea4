//! [`Reader`]: the keys of a dump, one after the other.

use super::budget::Budget;
use super::error::{RdbError, Wrong};
use super::kind::{VERSION_READ, opcode};
use super::skip;
use super::source::Source;
use super::value;
use crate::keyspace::database::Entry;
use crate::keyspace::space::DATABASES;
use crate::keyspace::text::TEXT_BYTES_MAX;
use crate::limits::RECORD_BYTES_MAX;
use std::io::Read;

/// What a value of a dump may have: what a key may.
const BUDGET: Budget = Budget::new(RECORD_BYTES_MAX, 8);

/// A key of a dump.
#[derive(Debug)]
pub struct Item {
    /// Its database.
    pub database: u8,
    /// Its name.
    pub key: Vec<u8>,
    /// What it has, and when it expires.
    pub entry: Entry,
}

/// What was passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    /// Facts of the server that wrote it.
    pub facts: u64,
    /// Libraries of functions.
    pub functions: u64,
    /// What modules wrote besides keys.
    pub of_modules: u64,
    /// Keys whose kind is not kept here.
    pub keys: u64,
    /// Keys with collections that have nothing.
    pub empty: u64,
}

/// See the module. The dump is read as it comes, and one key of it is in memory.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    version: u32,
    database: u8,
    skips_keys: bool,
    is_over: bool,
    skipped: Skipped,
}

impl<R: Read> Reader<R> {
    /// Reads the beginning. `skips_keys`: keys of a kind that is not kept here are passed over, and counted.
    ///
    /// # Errors
    /// [`RdbError`], if it is no dump or of a version that is not known.
    pub fn new(from: R, skips_keys: bool) -> Result<Reader<R>, RdbError> {
        let mut source = Source::new(from);
        let magic: [u8; 5] = source.array()?;
        let digits: [u8; 4] = source.array()?;
        if magic != *b"REDIS" || !digits.iter().all(u8::is_ascii_digit) {
            return Err(source.wrong(Wrong::NoDump));
        }
        let version = digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        if version == 0 || version > VERSION_READ {
            return Err(source.wrong(Wrong::Version(version)));
        }
        Ok(Reader { source, version, database: 0, skips_keys, is_over: false, skipped: Skipped::default() })
    }

    /// Bytes read.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The next key; `None`: the dump is whole, and its checksum is right.
    ///
    /// # Errors
    /// [`RdbError`]: nothing behind it can be read.
    pub fn next_key(&mut self) -> Result<Option<Item>, RdbError> {
        let mut expires = 0;
        while !self.is_over {
            match self.source.byte()? {
                opcode::EXPIRES_MS => expires = i64::from_le_bytes(self.source.array()?),
                opcode::EXPIRES_S => expires = i64::from(i32::from_le_bytes(self.source.array()?)) * 1_000,
                opcode::FREQUENCY => drop(self.source.byte()?),
                opcode::IDLE => drop(self.source.length()?),
                opcode::SELECT => {
                    let number = self.source.length()?;
                    let database = u8::try_from(number).ok().filter(|number| *number < DATABASES);
                    self.database = database.ok_or_else(|| self.source.wrong(Wrong::Database(number)))?;
                }
                opcode::RESIZE => {
                    self.source.length()?;
                    self.source.length()?;
                }
                opcode::AUX => {
                    self.source.pass_string()?;
                    self.source.pass_string()?;
                    self.skipped.facts += 1;
                }
                opcode::FUNCTION => {
                    self.source.pass_string()?;
                    self.skipped.functions += 1;
                }
                opcode::MODULE_AUX => {
                    self.source.length()?;
                    skip::module_parts(&mut self.source)?;
                    self.skipped.of_modules += 1;
                }
                opcode::END => self.end()?,
                number => {
                    if let Some(item) = self.key(number, std::mem::take(&mut expires))? {
                        return Ok(Some(item));
                    }
                }
            }
        }
        Ok(None)
    }

    /// A key, unless it is passed over.
    fn key(&mut self, number: u8, expires: i64) -> Result<Option<Item>, RdbError> {
        let key = self.source.string(TEXT_BYTES_MAX)?;
        if self.skips_keys && skip::name(number).is_some() {
            skip::value(&mut self.source, number).map_err(|error| RdbError { key: Some(key), ..error })?;
            self.skipped.keys += 1;
            return Ok(None);
        }
        match value::read(&mut self.source, number, BUDGET) {
            // As Redis has it: older versions have written them.
            Ok(value) if value.is_empty() => {
                self.skipped.empty += 1;
                Ok(None)
            }
            Ok(value) => Ok(Some(Item { database: self.database, key, entry: Entry::new(value, expires) })),
            Err(error) => Err(RdbError { key: Some(key), ..error }),
        }
    }

    fn end(&mut self) -> Result<(), RdbError> {
        self.is_over = true;
        if self.version < 5 {
            return Ok(());
        }
        let wanted = self.source.checksum();
        let found = u64::from_le_bytes(self.source.array()?);
        // Zero: whoever wrote it was told to write none.
        if found == wanted || found == 0 {
            return Ok(());
        }
        Err(self.source.wrong(Wrong::Checksum { found, wanted }))
    }
}
