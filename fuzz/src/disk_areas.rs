//! A disk of areas that somebody has written on: superblocks and records with any bytes, their checksums set right or not. It is opened, or
//! refused, without a panic; if it is opened, no space is two areas', and none is where the superblocks are; and one that is refused
//! is as it was before, to the byte.
//!
//! An input is a list of patches: where (one of the two superblocks or of the first records of the two journals; an offset), whether
//! the checksum is set right, and up to 15 bytes.

use qanat_disk::area::{AreaName, Areas, Owner};
use qanat_disk::{Media, Operation, Request, Sim, SimConfig, Vsic};
use qanat_nic::{Pool, Region};
use std::collections::BTreeMap;

/// Patches of one input.
const PATCHES_MAX: usize = 16;
/// Blocks of 512 bytes on the disk: 3 MiB.
const BLOCKS: u64 = 6_144;
/// Where superblocks and journals lie, as docs/design/disks.md and `qanat_disk::area` say; their lengths.
const SUPERBLOCKS: [u64; 2] = [0, 512 << 10];
const JOURNALS: [u64; 2] = [1 << 20, (1 << 20) + (512 << 10)];
const SUPERBLOCK_BYTES: usize = 512 << 10;
const RECORD_BYTES: usize = 4_096;
const MIB: u64 = 1 << 20;

thread_local! {
    /// A disk with some areas, and records of changes, as it was made.
    static DISK: Media = prepared();
}

fn prepared() -> Media {
    let media = Media::new(BLOCKS, 512);
    let memory = Areas::<Sim>::memory().expect("memory");
    let disk = Sim::new(&media, SimConfig::default());
    let mut areas = Areas::prepare(disk, &memory, [7; 16]).expect("it is empty");
    let name = |text: &str| AreaName::new(text).expect("a name");
    for (text, bytes) in [("logs", MIB / 4), ("data", MIB / 8), ("gone", 8_192)] {
        let id = areas.create(name(text), Owner { uid: 1, gid: 1 }, bytes).expect("there is room");
        while areas.zero_some(id, MIB).expect("it is zeroed") > 0 {}
    }
    areas.delete(&name("gone")).expect("it is there");
    areas.grow(&name("logs"), MIB / 2).expect("there is room");
    media
}

/// Reads or writes the disk under the areas.
struct Raw {
    disk: Sim,
    pool: Pool,
}

impl Raw {
    fn new(media: &Media) -> Raw {
        let region = Region::new(1, SUPERBLOCK_BYTES as u32).expect("memory");
        let pool = region.pool(1).expect("all of it");
        Raw { disk: Sim::new(media, SimConfig::default()), pool }
    }

    fn write(&mut self, place: u64, bytes: &[u8]) {
        let mut frame = self.pool.allocate(0).expect("one at a time");
        frame.append_bytes(bytes).expect("it fits");
        let operation = Operation::Write { block: place / 512, frame, durable: true };
        assert!(self.disk.submit(Request { token: 0, operation }).is_ok());
        self.disk.ring();
        let mut ended = Vec::new();
        assert_eq!(self.disk.complete(&mut ended, 1), 1);
    }
}

/// The checksum of what lies at `place`, as the format has it.
fn seal(place: u64, bytes: &mut [u8]) {
    let Some((body, seal)) = bytes.split_last_chunk_mut::<4>() else { return };
    *seal = crc32c::crc32c_append(crc32c::crc32c(&place.to_le_bytes()), body).to_le_bytes();
}

/// Puts an input's patches onto a disk.
fn patch(media: &Media, data: &[u8]) {
    let mut image = media.bytes();
    let mut raw = Raw::new(media);
    let mut rest = data;
    for _ in 0..PATCHES_MAX {
        let Some(([which, low, high, how], more)) = rest.split_first_chunk::<4>() else { return };
        let (bytes, more) = more.split_at(more.len().min(usize::from(how % 16)));
        rest = more;
        let (place, length) = match which % 8 {
            copy @ 0..=1 => (SUPERBLOCKS[usize::from(copy)], SUPERBLOCK_BYTES),
            other => (JOURNALS[usize::from(other % 2)] + RECORD_BYTES as u64 * u64::from(which / 8), RECORD_BYTES),
        };
        let Some(unit) = image.get_mut(place as usize..place as usize + length) else { continue };
        // Near the beginning, where all that means something is.
        let offset = usize::from(u16::from_le_bytes([*low, *high])) % 1_024;
        if let Some(target) = unit.get_mut(offset..offset + bytes.len()) {
            target.copy_from_slice(bytes);
        }
        if how & 0x80 == 0 {
            seal(place, unit);
        }
        raw.write(place, unit);
    }
}

/// See the module.
pub fn disk_areas(data: &[u8]) {
    let media = DISK.with(Media::copy);
    patch(&media, data);
    let before = media.bytes();
    let memory = Areas::<Sim>::memory().expect("memory");
    match Areas::open(Sim::new(&media, SimConfig::default()), &memory) {
        Ok((areas, _)) => {
            let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
            for extent in areas.iter().flat_map(|area| area.extents()) {
                assert!(extent.is_for_areas(areas.disk_bytes()), "{extent:?}");
                assert!(ends.insert(extent.unit, extent.unit + extent.units).is_none(), "two begin at {}", extent.unit);
            }
            let starts = ends.keys().skip(1);
            assert!(ends.values().zip(starts).all(|(end, start)| end <= start), "space is given twice: {ends:?}");
            assert!(areas.iter().all(|area| area.bytes() <= area.reserved_bytes()));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(media.bytes() == before, "a disk that is refused is not written: {error}");
        }
    }
}
