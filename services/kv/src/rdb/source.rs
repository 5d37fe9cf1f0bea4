//! [`Source`]: what a dump is read from: its bytes, their checksum and place, and the lengths and strings in them.

use super::error::{RdbError, Wrong};
use super::lzf;
use crc::{CRC_64_REDIS, Crc, Digest, Table};
use std::io::{ErrorKind, Read};

/// Redis' checksum (Jones).
pub static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
/// Memory is taken in pieces of so many bytes: no more than that before its bytes have come.
const STEP_BYTES: u64 = 64 << 10;

/// See the module.
pub struct Source<R> {
    from: R,
    checksum: Digest<'static, u64, Table<16>>,
    offset: u64,
}

impl<R> std::fmt::Debug for Source<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.offset)
    }
}

/// A length, or how a string is encoded.
enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<R: Read> Source<R> {
    /// From the first byte on.
    pub fn new(from: R) -> Source<R> {
        Source { from, checksum: CHECKSUM.digest(), offset: 0 }
    }

    /// Bytes read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The checksum of what was read.
    pub fn checksum(&self) -> u64 {
        self.checksum.clone().finalize()
    }

    /// Something is wrong here.
    pub fn wrong(&self, wrong: Wrong) -> RdbError {
        RdbError { offset: self.offset, key: None, wrong }
    }

    fn fill(&mut self, target: &mut [u8]) -> Result<(), RdbError> {
        self.from.read_exact(target).map_err(|error| {
            self.wrong(match error.kind() {
                ErrorKind::UnexpectedEof => Wrong::Truncated,
                kind => Wrong::Unreadable(kind),
            })
        })?;
        self.checksum.update(target);
        self.offset += target.len() as u64;
        Ok(())
    }

    /// The next bytes of a number.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, RdbError> {
        self.array().map(|[byte]| byte)
    }

    /// So many bytes, of which there may be `most`.
    pub fn bytes(&mut self, length: u64, most: usize) -> Result<Vec<u8>, RdbError> {
        if length > most as u64 {
            return Err(self.wrong(Wrong::TooLong { bytes: length, most: most as u64 }));
        }
        let (mut bytes, mut left) = (Vec::new(), length);
        while left > 0 {
            let step = left.min(STEP_BYTES);
            let start = bytes.len();
            bytes.resize(start + step as usize, 0);
            self.fill(bytes.get_mut(start..).unwrap_or_default())?;
            left -= step;
        }
        Ok(bytes)
    }

    /// Passes over so many bytes.
    fn pass(&mut self, mut length: u64) -> Result<(), RdbError> {
        let mut buffer = [0; 4_096];
        while length > 0 {
            let step = length.min(buffer.len() as u64);
            self.fill(buffer.get_mut(..step as usize).unwrap_or_default())?;
            length -= step;
        }
        Ok(())
    }

    fn any_length(&mut self) -> Result<Length, RdbError> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3f);
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(low),
            (1, _) => Length::Plain(low << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Length::Plain(u32::from_be_bytes(self.array()?).into()),
            (2, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            (3, _) => Length::Encoded(first & 0x3f),
            _ => return Err(self.wrong(Wrong::Length)),
        })
    }

    /// A length.
    pub fn length(&mut self) -> Result<u64, RdbError> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => Err(self.wrong(Wrong::Length)),
        }
    }

    /// A string of at most so many bytes, however it is encoded.
    pub fn string(&mut self, most: usize) -> Result<Vec<u8>, RdbError> {
        let number = match self.any_length()? {
            Length::Plain(length) => return self.bytes(length, most),
            Length::Encoded(0) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Encoded(1) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Encoded(2) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Encoded(3) => {
                let (compressed, length) = (self.length()?, self.length()?);
                if length > most as u64 {
                    return Err(self.wrong(Wrong::TooLong { bytes: length, most: most as u64 }));
                }
                let bytes = self.bytes(compressed, most)?;
                return lzf::decompress(&bytes, length as usize).ok_or_else(|| self.wrong(Wrong::Compressed));
            }
            Length::Encoded(_) => return Err(self.wrong(Wrong::Length)),
        };
        Ok(number.to_string().into_bytes())
    }

    /// Passes over a string, as long as it may be.
    pub fn pass_string(&mut self) -> Result<(), RdbError> {
        match self.any_length()? {
            Length::Plain(length) => self.pass(length),
            Length::Encoded(width @ 0..=2) => self.pass(1 << width),
            Length::Encoded(3) => {
                let compressed = self.length()?;
                self.length()?;
                self.pass(compressed)
            }
            Length::Encoded(_) => Err(self.wrong(Wrong::Length)),
        }
    }
}
