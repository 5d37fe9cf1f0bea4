//! [`write()`]: all keys as a dump.

use super::encode;
use super::kind::{VERSION_WRITTEN, opcode};
use super::lengths::{length, string};
use super::source::CHECKSUM;
use crate::keyspace::database::Database;
use crate::keyspace::space::{DATABASES, Keyspace};
use crate::limits::REDIS_VERSION;
use crc::{Digest, Table};
use std::io::{self, Write};

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Keys.
    pub keys: u64,
    /// Keys that were left out: they have expired.
    pub expired: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Sums up what goes through it.
struct Summed<W> {
    to: W,
    checksum: Digest<'static, u64, Table<16>>,
    bytes: u64,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.checksum.update(bytes.get(..count).unwrap_or_default());
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes all keys that have not expired, as of the keyspace's time. `tell` hears how many there are so far.
///
/// # Errors
/// As `to` has it.
pub fn write(keyspace: &Keyspace, to: impl Write, mut tell: impl FnMut(u64)) -> io::Result<Written> {
    let mut to = Summed { to, checksum: CHECKSUM.digest(), bytes: 0 };
    let mut written = Written::default();
    write!(to, "REDIS{VERSION_WRITTEN:04}")?;
    for (name, value) in [("redis-ver", REDIS_VERSION), ("redis-bits", "64")] {
        to.write_all(&[opcode::AUX])?;
        string(name.as_bytes(), &mut to)?;
        string(value.as_bytes(), &mut to)?;
    }
    for (_, text) in keyspace.libraries.iter() {
        to.write_all(&[opcode::FUNCTION])?;
        string(text, &mut to)?;
        written.libraries += 1;
    }
    for number in 0..DATABASES {
        let database: &Database = keyspace.database(number);
        if database.is_empty() {
            continue;
        }
        to.write_all(&[opcode::SELECT, number, opcode::RESIZE])?;
        length(database.len() as u64, &mut to)?;
        length(database.volatile_len() as u64, &mut to)?;
        for (key, entry) in database.iter() {
            if keyspace.is_over(entry) {
                written.expired += 1;
                continue;
            }
            if entry.expires != 0 {
                to.write_all(&[opcode::EXPIRES_MS])?;
                to.write_all(&entry.expires.to_le_bytes())?;
            }
            to.write_all(&[encode::number(&entry.value)])?;
            string(key, &mut to)?;
            encode::value(&entry.value, &mut to)?;
            written.keys += 1;
            tell(written.keys);
        }
    }
    to.write_all(&[opcode::END])?;
    let checksum = to.checksum.clone().finalize();
    to.write_all(&checksum.to_le_bytes())?;
    to.flush()?;
    Ok(Written { bytes: to.bytes, ..written })
}
