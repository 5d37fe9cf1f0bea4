//! A record of the journal: one change, in one unit.
//!
//! ```text
//!  magic 8 │ epoch 8 │ number 8 │ checksum of the record before 4 │ kind 1 │ the area, or its number │ zeroes │ CRC-32C 4
//! ```
//! A record counts if its checksum, epoch, number and predecessor are right. Only the last one may be torn: each is durable before
//! the next is written.

use super::codec::{Reader, SEAL_BYTES, Writer, seal, unseal};
use super::layout::RECORD_BYTES;
use super::table::{Area, Change};

const MAGIC: &[u8; 8] = b"QANATjrn";

/// A record, as read.
pub(super) struct Record {
    pub(super) epoch: u64,
    pub(super) number: u64,
    /// The checksum of the one before it.
    pub(super) previous: u32,
    pub(super) change: Change,
    /// Its own.
    pub(super) sum: u32,
}

/// Writes a record into `unit`, for `place`; its checksum. `None`: the change is too large, which `EXTENTS_MAX` rules out.
pub(super) fn write(unit: &mut [u8], place: u64, record: (u64, u64, u32), change: &Change) -> Option<u32> {
    unit.fill(0);
    let room = (RECORD_BYTES as usize).checked_sub(SEAL_BYTES)?;
    let mut writer = Writer::new(unit.get_mut(..room)?);
    let (epoch, number, previous) = record;
    writer.bytes(MAGIC);
    writer.u64(epoch);
    writer.u64(number);
    writer.u32(previous);
    match change {
        Change::Put(area) => {
            writer.u8(1);
            area.write(&mut writer);
        }
        Change::Remove(id) => {
            writer.u8(2);
            writer.u64(*id);
        }
    }
    writer.finish()?;
    let sum = body_sum(unit)?;
    seal(place, unit);
    Some(sum)
}

/// The sum of a record without its place: the same in both copies, so that either may be the next one's predecessor.
fn body_sum(unit: &[u8]) -> Option<u32> {
    unit.split_last_chunk::<SEAL_BYTES>().map(|(body, _)| crc32c::crc32c(body))
}

/// Reads the record at `place`; `None` if there is none, or a damaged one.
pub(super) fn read(unit: &[u8], place: u64) -> Option<Record> {
    let mut reader = Reader::new(unseal(place, unit)?);
    if reader.bytes(MAGIC.len())? != MAGIC {
        return None;
    }
    let (epoch, number, previous) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let change = match reader.u8()? {
        1 => Change::Put(Area::read(&mut reader)?),
        2 => Change::Remove(reader.u64()?),
        _ => return None,
    };
    let sum = body_sum(unit)?;
    reader.is_spent().then_some(Record { epoch, number, previous, change, sum })
}
