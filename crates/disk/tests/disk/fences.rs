//! Areas that the kernel fences: their records, and files of a directory against holders who do all they can with a descriptor. Partitions
//! need root and a device: `tests/tests/e2e_areas/fenced.rs`.
use crate::areas::{OWNER, media, name, open, prepare};
use qanat_disk::area::{AreaError, AreaLimits, AreaState, Areas, Fence, UNIT_BYTES};
use qanat_disk::fence::{AreaFiles, FenceError, Partitions, TABLE};
use qanat_disk::{DiskFile, Vsic, make_file};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn fenced<V: Vsic>(areas: &mut Areas<V>, area: &str, fence: Fence, bytes: u64) -> Result<u64, AreaError> {
    areas.create_limited(name(area), OWNER, (AreaLimits::default(), fence), bytes)
}

#[test]
fn what_the_kernel_fences_stays_deleted_until_somebody_has_asked_the_kernel() {
    let media = media(4_096);
    let mut areas = prepare(&media, u64::MAX).unwrap();
    let kinds = [("core", Fence::Core), ("partition", Fence::Partition), ("file", Fence::File)];
    for (area, fence) in kinds {
        let id = fenced(&mut areas, area, fence, 40 * KIB).unwrap();
        while areas.by_id(id).unwrap().bytes() < 40 * KIB {
            areas.zero_some(id, 16 * KIB).unwrap();
        }
    }
    drop(areas);
    let mut areas = open(&media).unwrap();
    for (area, fence) in kinds {
        assert_eq!(areas.get(&name(area)).unwrap().fence(), fence, "as it was written");
    }
    let free = areas.free_bytes();
    for (area, _) in kinds {
        areas.delete(&name(area)).unwrap();
    }
    drop(areas);
    // A daemon that died: nobody can have the core's area any more. Who has the others is not known.
    let mut areas = open(&media).unwrap();
    let left: Vec<Fence> = areas.iter().map(|area| area.fence()).collect();
    assert_eq!((left, areas.free_bytes()), (vec![Fence::Partition, Fence::File], free + 40 * KIB));
    assert!(areas.iter().all(|area| area.state() == AreaState::Doomed));
    let held = areas.iter().flat_map(|area| area.extents().to_vec()).collect::<Vec<_>>();
    let all = areas.free_bytes();
    areas.create(name("next"), OWNER, all).unwrap();
    for extent in areas.get(&name("next")).unwrap().extents() {
        let end = extent.end().unwrap();
        assert!(held.iter().all(|other| end <= other.unit || other.end().unwrap() <= extent.unit), "space given twice");
    }
    for id in areas.iter().filter(|area| area.state() == AreaState::Doomed).map(|area| area.id()).collect::<Vec<_>>() {
        areas.release(id).unwrap();
    }
    assert_eq!(areas.free_bytes(), 80 * KIB);
    assert_eq!(open(&media).unwrap().free_bytes(), 80 * KIB);
}

#[test]
fn a_partition_is_one_piece_or_refused() {
    let media = media(4_096);
    let mut areas = prepare(&media, u64::MAX).unwrap();
    let piece = areas.free_bytes() / 4 / UNIT_BYTES * UNIT_BYTES;
    for area in ["a", "b", "c"] {
        areas.create(name(area), OWNER, piece).unwrap();
    }
    for area in ["a", "c"] {
        let id = areas.delete(&name(area)).unwrap();
        areas.release(id).unwrap();
    }
    // There are `piece` bytes, and about twice as many behind.
    let all = areas.free_bytes();
    let refused = fenced(&mut areas, "p", Fence::Partition, all).unwrap_err();
    assert_eq!(refused, AreaError::NotInOnePiece { wanted: all, largest: all - piece });
    assert!(refused.to_string().contains("without --fenced"), "{refused}");
    fenced(&mut areas, "p", Fence::Partition, piece / 2).unwrap();
    assert_eq!(areas.get(&name("p")).unwrap().extents().len(), 1);
    areas.grow(&name("p"), piece).unwrap();
    assert_eq!(areas.get(&name("p")).unwrap().extents().len(), 1);
    assert_eq!(
        areas.grow(&name("p"), piece + UNIT_BYTES).unwrap_err(),
        AreaError::NoRoomBehind { name: "p".to_owned() }
    );
    // Files count bytes, and may count them anywhere.
    fenced(&mut areas, "f", Fence::File, MIB / 4).unwrap();
    let rest = areas.free_bytes();
    areas.grow(&name("f"), MIB / 4 + rest).unwrap();
    assert_eq!(areas.free_bytes(), 0);
}

/// A directory of files, with one area of 256 KiB, 128 of them zeroed.
struct House {
    files: AreaFiles,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

const ID: u64 = 7;
const SIZES: (u64, u64) = (128 * KIB, 256 * KIB);

fn house() -> House {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("areas");
    let files = AreaFiles::at(&path, true).unwrap();
    files.reserve(ID, SIZES.1).unwrap();
    files.zero(ID, 0, SIZES.0).unwrap();
    House { files, path, _directory: directory }
}

impl House {
    fn file(&self) -> PathBuf {
        self.path.join(format!("{ID}.area"))
    }

    fn taken(&self) -> (u64, u64) {
        let found = fs::metadata(self.file()).unwrap();
        (found.len(), found.blocks() * 512)
    }

    fn handed(&self) -> OwnedFd {
        self.files.open(ID, SIZES, false).unwrap()
    }
}

#[test]
fn a_directory_is_the_daemons_alone_and_a_table_is_made_once() {
    let house = house();
    assert_eq!(house.taken(), (SIZES.0, SIZES.1), "all of it is its own, and what is zeroed can be seen");
    let what = |error: FenceError| error.to_string();
    assert!(what(house.files.make_table(MIB).unwrap_err()).contains("not empty"));
    let empty = house.path.join("empty");
    let files = AreaFiles::at(&empty, true).unwrap();
    files.make_table(64 * MIB).unwrap();
    let table = fs::metadata(empty.join(TABLE)).unwrap();
    assert_eq!((table.len(), table.blocks() * 512), (64 * MIB, 2 * MIB), "only the table itself takes space");
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(what(AreaFiles::at(&empty, false).unwrap_err()).contains("others may write there"));
    let none = house.path.join("none");
    assert!(what(AreaFiles::at(&none, false).unwrap_err()).contains("none"));
    fs::write(&none, "").unwrap();
    assert!(what(AreaFiles::at(&none, true).unwrap_err()).contains("no directory"));
    assert_eq!(house.files.all().unwrap(), [ID]);
}

#[test]
fn a_link_in_the_place_of_an_areas_file_is_not_followed() {
    let house = house();
    let victim = house.path.join("victim");
    fs::write(&victim, "untouched").unwrap();
    fs::remove_file(house.file()).unwrap();
    std::os::unix::fs::symlink(&victim, house.file()).unwrap();
    assert!(house.files.zero(ID, 0, 9).unwrap_err().to_string().contains("a link"));
    assert!(house.files.open(ID, SIZES, false).is_err() && house.files.reserve(ID, 9).is_err());
    assert_eq!(fs::read(victim).unwrap(), b"untouched");
}

// Attack: descriptors: more of a file system than one's area, by the descriptor of its file
#[test]
fn what_a_holder_takes_beyond_its_area_is_taken_back() {
    let house = house();
    assert_eq!(house.files.cut(ID, SIZES).unwrap(), 0, "nothing is too much");
    let handed = File::from(house.handed());
    let is_cut = |what: &str, beyond: u64| {
        let before = house.taken();
        assert!(before.0 > SIZES.1 || before.1 > SIZES.1 + MIB, "{what}: it happens: {before:?}");
        assert!(house.files.cut(ID, SIZES).unwrap() >= beyond, "{what}");
        let (length, taken) = house.taken();
        assert!(length <= SIZES.0 && (SIZES.1..SIZES.1 + MIB).contains(&taken), "{what}: {length}, {taken}");
        assert_eq!(house.files.cut(ID, SIZES).unwrap(), 0, "{what}");
    };
    ftruncate(&handed, MIB << 20).unwrap();
    is_cut("a longer file", MIB);
    fallocate(&handed, FallocateFlags::KEEP_SIZE, 0, 16 * MIB).unwrap();
    is_cut("room behind the end", 8 * MIB);
    fallocate(&handed, FallocateFlags::empty(), 0, 16 * MIB).unwrap();
    is_cut("room", 8 * MIB);
    // Writing needs no more than the descriptor.
    let buffered = OpenFlags::clear_direct(&handed);
    buffered.write_all_at(b"beyond", 8 * MIB).unwrap();
    is_cut("a write", 7 * MIB);
    // What its holder has taken from itself is there again for the next one, and zero.
    handed.write_all_at(&[7; 512], 0).unwrap();
    ftruncate(&handed, 0).unwrap();
    assert_eq!(house.files.cut(ID, SIZES).unwrap(), 0);
    let next = File::from(house.handed());
    assert_eq!(house.taken(), (SIZES.0, SIZES.1));
    let mut found = vec![7; SIZES.0 as usize];
    OpenFlags::clear_direct(&next).read_exact_at(&mut found, 0).unwrap();
    assert!(found.iter().all(|byte| *byte == 0));
}

/// What any holder of a descriptor may change of it.
struct OpenFlags;

impl OpenFlags {
    fn clear_direct(file: &File) -> &File {
        let flags = rustix::fs::fcntl_getfl(file).unwrap();
        rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT).unwrap();
        file
    }
}

#[test]
fn the_kernel_says_whether_anybody_has_a_file() {
    let house = house();
    let is_held = || house.files.is_held(ID).unwrap();
    assert!(!is_held());
    for read_only in [true, false] {
        let handed = house.files.open(ID, SIZES, read_only).unwrap();
        assert!(is_held(), "read only: {read_only}");
        let copy = handed.try_clone().unwrap();
        drop(handed);
        assert!(is_held(), "a copy of it");
        drop(copy);
        assert!(!is_held());
    }
    house.files.remove(ID).unwrap();
    house.files.remove(ID).unwrap();
    assert!(!is_held() && house.files.all().unwrap().is_empty());
}

#[test]
fn only_a_whole_device_has_partitions() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("disk.img");
    make_file(&path, MIB, 0o600).unwrap();
    let file = rustix::fs::open(&path, OFlags::RDWR, Mode::empty()).unwrap();
    let refused = Partitions::of(file.as_fd(), &path, directory.path()).unwrap_err();
    assert!(matches!(refused, FenceError::NotWhole { .. }), "{refused}");
}

#[test]
fn a_descriptor_that_was_handed_over_is_used_as_far_as_was_said() {
    let house = house();
    ftruncate(house.handed(), MIB).unwrap();
    let file = DiskFile::over(house.handed(), &house.file(), 4).unwrap().limited(SIZES.0);
    assert_eq!(file.geometry().bytes(), SIZES.0);
}
