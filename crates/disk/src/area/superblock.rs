//! A superblock: what the disk is, and its table of areas as of an epoch.
//!
//! ```text
//!  magic 8 │ format 4 │ epoch 8 │ identity 16 │ bytes of the disk 8 │ next number 8 │ areas 4 │ each area │ zeroes │ CRC-32C 4
//! ```

use super::codec::{Reader, SEAL_BYTES, Writer, seal, unseal};
use super::error::AreaError;
use super::layout::SUPERBLOCK_BYTES;
use super::table::{Area, Table};

pub(super) const MAGIC: &[u8; 8] = b"QANATdsk";
/// The format described here and in `journal`.
pub(super) const FORMAT: u32 = 1;

/// A superblock, as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Superblock {
    pub(super) epoch: u64,
    pub(super) identity: [u8; 16],
    pub(super) table: Table,
}

/// What is where a superblock should be.
pub(super) enum Found {
    /// One.
    Good(Box<Superblock>),
    /// One that contradicts itself, though nothing is damaged.
    Contradiction(AreaError),
    /// Something that begins like one.
    Damaged,
    /// Nothing of ours.
    Nothing,
}

/// Of all that is not an area.
const HEAD_BYTES: usize = 8 + 4 + 8 + 16 + 8 + 8 + 4;

impl Superblock {
    /// Whether it can still be written once `area` is as given.
    pub(super) fn has_room_for(&self, area: &Area) -> bool {
        let others = self.table.areas.values().filter(|other| other.id() != area.id());
        let bytes: usize = others.chain([area]).map(Area::encoded_bytes).sum();
        bytes + HEAD_BYTES + SEAL_BYTES <= SUPERBLOCK_BYTES as usize
    }

    /// Writes it into `bytes`, for `place`; whether it fits.
    pub(super) fn write(&self, bytes: &mut [u8], place: u64) -> bool {
        bytes.fill(0);
        let room = SUPERBLOCK_BYTES as usize - SEAL_BYTES;
        let mut writer = Writer::new(bytes.get_mut(..room).unwrap_or_default());
        writer.bytes(MAGIC);
        writer.u32(FORMAT);
        writer.u64(self.epoch);
        writer.bytes(&self.identity);
        writer.u64(self.table.bytes());
        writer.u64(self.table.next_id);
        writer.u32(self.table.areas.len() as u32);
        self.table.areas.values().for_each(|area| area.write(&mut writer));
        let fits = writer.finish().is_some();
        seal(place, bytes);
        fits
    }
}

/// Reads what is at `place`.
pub(super) fn read(bytes: &[u8], place: u64) -> Found {
    let begins = bytes.get(..MAGIC.len()) == Some(MAGIC);
    let Some(body) = unseal(place, bytes) else {
        return if begins { Found::Damaged } else { Found::Nothing };
    };
    if !begins {
        return Found::Nothing;
    }
    parse(body).unwrap_or(Found::Damaged)
}

fn parse(body: &[u8]) -> Option<Found> {
    let mut reader = Reader::new(body.get(MAGIC.len()..)?);
    let format = reader.u32()?;
    if format != FORMAT {
        return Some(Found::Contradiction(AreaError::Version { found: format, known: FORMAT }));
    }
    let (epoch, identity) = (reader.u64()?, reader.array16()?);
    let (bytes, next_id, count) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let areas: Option<Vec<Area>> = (0..count).map(|_| Area::read(&mut reader)).collect();
    let areas = areas?;
    if !reader.is_spent() {
        return None;
    }
    Some(match Table::of(bytes, next_id, areas) {
        Ok(table) => Found::Good(Box::new(Superblock { epoch, identity, table })),
        Err(error) => Found::Contradiction(error),
    })
}
