//! The table of areas: who has which extents. It knows nothing of how it is kept.

use super::codec::{Reader, Writer};
use super::error::AreaError;
use super::extent::Extent;
use super::layout::{UNIT_BYTES, data_units};
use std::collections::BTreeMap;
use std::fmt;

/// Areas a disk has at most: their entries fit one superblock if they are in few pieces.
const AREAS_MAX: usize = 1_024;
/// Extents an area has at most: its entry fits one record of the journal.
const EXTENTS_MAX: usize = 200;
const NAME_BYTES_MAX: usize = 63;

/// An area's name: 1 to 63 letters, digits, `-`, `_` and `.`, the first a letter or digit. Unique on its disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AreaName(String);

impl AreaName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`AreaError::Name`].
    pub fn new(name: &str) -> Result<AreaName, AreaError> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let bytes = name.as_bytes();
        let first = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
        if first && bytes.len() <= NAME_BYTES_MAX && bytes.iter().all(|byte| is_good(*byte)) {
            return Ok(AreaName(name.to_owned()));
        }
        Err(AreaError::Name { name: name.chars().take(80).collect() })
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AreaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose an area is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The user's number.
    pub uid: u32,
    /// The group's.
    pub gid: u32,
}

/// How much an area's holder may ask for; 0: as much as it likes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct AreaLimits {
    /// Requests a second.
    pub requests_per_second: u64,
    /// Bytes a second.
    pub bytes_per_second: u64,
}

/// What may be done with an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AreaState {
    /// It is there to be used, as far as it is zeroed.
    Ready,
    /// It was deleted; its space is free once nobody holds it.
    Doomed,
}

/// What keeps an area's holder from the rest of its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fence {
    /// The disk's core, which does for the holder what it asks for.
    #[default]
    Core,
    /// The kernel: the holder has the descriptor of a partition. The area is one extent.
    Partition,
    /// The kernel: the holder has the descriptor of a file. The area's extents count its bytes, and nothing lies there.
    File,
}

/// An area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// Never used again on this disk.
    pub(super) id: u64,
    pub(super) name: AreaName,
    pub(super) owner: Owner,
    pub(super) limits: AreaLimits,
    pub(super) state: AreaState,
    pub(super) fence: Fence,
    /// Of its units, so many are zeroed and in use; the rest is reserved.
    pub(super) ready_units: u64,
    pub(super) extents: Vec<Extent>,
}

impl Area {
    /// Its number: never used again on this disk.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &AreaName {
        &self.name
    }

    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// What its holder may ask for.
    pub fn limits(&self) -> AreaLimits {
        self.limits
    }

    /// What may be done with it.
    pub fn state(&self) -> AreaState {
        self.state
    }

    /// What keeps its holder from the rest of the disk.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Where it lies.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Bytes that may be used: zeroed when they were given.
    pub fn bytes(&self) -> u64 {
        self.ready_units * UNIT_BYTES
    }

    /// Bytes it will have once all that is reserved for it is zeroed.
    pub fn reserved_bytes(&self) -> u64 {
        self.units() * UNIT_BYTES
    }

    pub(super) fn units(&self) -> u64 {
        self.extents.iter().map(|extent| extent.units).fold(0, u64::saturating_add)
    }

    /// Bytes that [`write`](Area::write) takes.
    pub(super) fn encoded_bytes(&self) -> usize {
        8 + 1 + 1 + self.name.0.len() + 4 + 4 + 8 + 8 + 8 + 4 + 16 * self.extents.len()
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.u64(self.id);
        writer.u8(match (self.fence, self.state) {
            (Fence::Core, AreaState::Ready) => 1,
            (Fence::Core, AreaState::Doomed) => 2,
            (Fence::Partition, AreaState::Ready) => 3,
            (Fence::Partition, AreaState::Doomed) => 4,
            (Fence::File, AreaState::Ready) => 5,
            (Fence::File, AreaState::Doomed) => 6,
        });
        writer.u8(self.name.0.len() as u8);
        writer.bytes(self.name.0.as_bytes());
        writer.u32(self.owner.uid);
        writer.u32(self.owner.gid);
        writer.u64(self.limits.requests_per_second);
        writer.u64(self.limits.bytes_per_second);
        writer.u64(self.ready_units);
        writer.u32(self.extents.len() as u32);
        for extent in &self.extents {
            writer.u64(extent.unit);
            writer.u64(extent.units);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Area> {
        let id = reader.u64()?;
        let (fence, state) = match reader.u8()? {
            1 => (Fence::Core, AreaState::Ready),
            2 => (Fence::Core, AreaState::Doomed),
            3 => (Fence::Partition, AreaState::Ready),
            4 => (Fence::Partition, AreaState::Doomed),
            5 => (Fence::File, AreaState::Ready),
            6 => (Fence::File, AreaState::Doomed),
            _ => return None,
        };
        let length = usize::from(reader.u8()?);
        let name = AreaName::new(std::str::from_utf8(reader.bytes(length)?).ok()?).ok()?;
        let owner = Owner { uid: reader.u32()?, gid: reader.u32()? };
        let limits = AreaLimits { requests_per_second: reader.u64()?, bytes_per_second: reader.u64()? };
        let ready_units = reader.u64()?;
        let count = reader.u32()? as usize;
        if count > EXTENTS_MAX {
            return None;
        }
        let extents: Option<Vec<Extent>> =
            (0..count).map(|_| Some(Extent { unit: reader.u64()?, units: reader.u64()? })).collect();
        Some(Area { id, name, owner, limits, state, fence, ready_units, extents: extents? })
    }
}

/// A change of one area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// It is like this from now on.
    Put(Area),
    /// It is gone.
    Remove(u64),
}

/// All areas of a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Table {
    /// On the disk.
    bytes: u64,
    pub(super) next_id: u64,
    pub(super) areas: BTreeMap<u64, Area>,
}

impl Table {
    /// Of a disk of `bytes`.
    pub(super) fn new(bytes: u64) -> Table {
        Table { bytes, next_id: 1, areas: BTreeMap::new() }
    }

    /// As it was written; contradictions are told.
    pub(super) fn of(bytes: u64, next_id: u64, areas: Vec<Area>) -> Result<Table, AreaError> {
        let mut table = Table { bytes, next_id, areas: BTreeMap::new() };
        for area in areas {
            let id = area.id;
            if table.areas.insert(id, area).is_some() {
                return Err(AreaError::Table { what: format!("area {id} is there twice") });
            }
        }
        table.check()?;
        Ok(table)
    }

    /// Bytes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Finds contradictions.
    pub(super) fn check(&self) -> Result<(), AreaError> {
        let wrong = |what: String| Err(AreaError::Table { what });
        let data = data_units(self.bytes);
        let mut used: Vec<(u64, u64, &AreaName)> = Vec::new();
        let mut names: Vec<&AreaName> = Vec::new();
        for area in self.areas.values() {
            if area.id >= self.next_id || area.ready_units > area.units() {
                return wrong(format!("area {} has an impossible number or size", area.name));
            }
            if area.state == AreaState::Ready {
                names.push(&area.name);
            }
            if area.fence == Fence::Partition && area.extents.len() > 1 {
                return wrong(format!("area {} is a partition, and in several pieces", area.name));
            }
            for extent in &area.extents {
                match extent.end() {
                    Some(end) if extent.units > 0 && extent.unit >= data.start && end <= data.end => {
                        used.push((extent.unit, end, &area.name));
                    }
                    _ => return wrong(format!("area {} lies outside of the disk", area.name)),
                }
            }
        }
        used.sort_unstable();
        if let Some(pair) = used.windows(2).find(|pair| matches!(pair, [first, second] if first.1 > second.0)) {
            let names: Vec<&str> = pair.iter().map(|(_, _, name)| name.as_str()).collect();
            return wrong(format!("areas {} have the same space", names.join(" and ")));
        }
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| matches!(pair, [first, second] if first == second)) {
            return wrong(format!("two areas are named {name}"));
        }
        Ok(())
    }

    /// The area of that name, if it has not been deleted.
    pub(super) fn by_name(&self, name: &AreaName) -> Option<&Area> {
        self.areas.values().find(|area| area.state == AreaState::Ready && area.name == *name)
    }

    /// Runs of free units, in order.
    pub(super) fn free(&self) -> Vec<Extent> {
        let mut used: Vec<Extent> = self.areas.values().flat_map(|area| area.extents.iter().copied()).collect();
        used.sort_unstable_by_key(|extent| extent.unit);
        let data = data_units(self.bytes);
        let mut next = data.start;
        let mut free = Vec::new();
        for extent in used.into_iter().chain([Extent { unit: data.end, units: 0 }]) {
            if extent.unit > next {
                free.push(Extent { unit: next, units: extent.unit - next });
            }
            next = next.max(extent.unit + extent.units);
        }
        free
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free().iter().map(Extent::bytes).sum()
    }

    /// `area` with more space, to `bytes` in all: behind its last extent if that is free, else the smallest run that suffices, else the
    /// largest ones. A partition stays in one piece.
    pub(super) fn extended(&self, mut area: Area, bytes: u64) -> Result<Area, AreaError> {
        let wanted = bytes.div_ceil(UNIT_BYTES);
        let mut missing = wanted.saturating_sub(area.units());
        let mut free = self.free();
        let free_units: u64 = free.iter().map(|extent| extent.units).sum();
        if missing > free_units {
            let (wanted, free) = (missing.saturating_mul(UNIT_BYTES), free_units * UNIT_BYTES);
            return Err(AreaError::NoRoom { wanted, free });
        }
        if let Some(last) = area.extents.last_mut()
            && let Some(behind) = free.iter_mut().find(|extent| Some(extent.unit) == last.end())
        {
            let taken = missing.min(behind.units);
            last.units += taken;
            missing -= taken;
            *behind = Extent { unit: behind.unit + taken, units: behind.units - taken };
        }
        free.sort_unstable_by_key(|extent| extent.units);
        if area.fence == Fence::Partition {
            let largest = if area.extents.is_empty() { free.last().map_or(0, |run| run.units) } else { 0 };
            if missing > largest {
                let (name, largest) = (area.name.to_string(), largest * UNIT_BYTES);
                return Err(match area.extents.is_empty() {
                    true => AreaError::NotInOnePiece { wanted: bytes, largest },
                    false => AreaError::NoRoomBehind { name },
                });
            }
        }
        while missing > 0 {
            let best = free.partition_point(|extent| extent.units < missing).min(free.len().saturating_sub(1));
            if free.is_empty() || area.extents.len() == EXTENTS_MAX {
                return Err(AreaError::Fragmented { wanted: bytes, pieces_max: EXTENTS_MAX });
            }
            let run = free.remove(best);
            let taken = missing.min(run.units);
            area.extents.push(Extent { unit: run.unit, units: taken });
            missing -= taken;
        }
        Ok(area)
    }

    /// A new area, with nothing of it zeroed.
    pub(super) fn created(&self, name: AreaName, owner: Owner, fence: Fence, bytes: u64) -> Result<Area, AreaError> {
        if self.by_name(&name).is_some() {
            return Err(AreaError::Exists { name: name.0 });
        }
        if bytes == 0 {
            return Err(AreaError::Empty);
        }
        if self.areas.len() >= AREAS_MAX {
            return Err(AreaError::TableFull { areas: self.areas.len() });
        }
        let (id, limits, state) = (self.next_id, AreaLimits::default(), AreaState::Ready);
        self.extended(Area { id, name, owner, limits, state, fence, ready_units: 0, extents: Vec::new() }, bytes)
    }

    /// Makes a change.
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Put(area) => {
                self.next_id = self.next_id.max(area.id.saturating_add(1));
                self.areas.insert(area.id, area);
            }
            Change::Remove(id) => {
                self.areas.remove(&id);
            }
        }
    }
}
