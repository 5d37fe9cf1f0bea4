//! One suite for every driver: random requests against a model, conservation of buffers, and what must be refused.
use qanat_disk::area::{AreaDisk, Extent};
use qanat_disk::{DiskFile, DiskOptions, Fault, FaultRates, Media, OpenError, Sim, SimConfig, Trace, Uring, Vsic};
use qanat_disk_suite::{BLOCKS, refuses_what_cant_be_done, runs_as_the_model_says};
use qanat_nic::{ManualClock, Region};
use std::fs::File;
use std::rc::Rc;

const SEEDS: u64 = 40;

fn region() -> Rc<Region> {
    Region::new(64, 16_384).unwrap()
}

/// Both parts of the suite, on devices that `open` makes.
fn suite_on<V: Vsic>(mut open: impl FnMut(&Rc<Region>, u64) -> V) {
    for seed in 0..SEEDS {
        let region = region();
        let pool = region.pool(64).unwrap();
        runs_as_the_model_says(&mut open(&region, seed), &pool, seed, 300);
        assert_eq!(pool.in_use_count(), 0, "seed {seed}: every buffer is back");
    }
    let region = region();
    let pool = region.pool(64).unwrap();
    refuses_what_cant_be_done(&mut open(&region, 1), &pool);
}

fn sim(config: SimConfig) -> Sim {
    Sim::new(&Media::new(BLOCKS, 512), config)
}

#[test]
fn sim_in_turn() {
    suite_on(|_, _| sim(SimConfig { depth: 32, ..SimConfig::default() }));
}

#[test]
fn sim_in_any_order() {
    suite_on(|_, seed| sim(SimConfig { depth: 32, seed: Some(seed), ..SimConfig::default() }));
    suite_on(|_, seed| sim(SimConfig { depth: 7, seed: Some(seed), volatile_cache: false, ..SimConfig::default() }));
}

#[test]
fn middleware_that_does_nothing_changes_nothing() {
    suite_on(|_, seed| {
        Fault::new(sim(SimConfig { depth: 32, seed: Some(seed), ..SimConfig::default() }), FaultRates::default(), seed)
    });
    suite_on(|_, seed| {
        Box::new(Trace::new(
            sim(SimConfig { depth: 32, seed: Some(seed), ..SimConfig::default() }),
            Vec::new(),
            ManualClock::new(),
        ))
    });
    let reordered = FaultRates { reorder_ppm: 300_000, reorder_requests_max: 5, ..FaultRates::default() };
    suite_on(|_, seed| Fault::new(sim(SimConfig { depth: 32, ..SimConfig::default() }), reordered, seed));
}

#[test]
fn an_area_in_pieces() {
    // 512 blocks of 512 bytes in five extents, out of order, of a disk with more.
    let extents = [(40, 14), (3, 2), (90, 20), (60, 4), (10, 24)].map(|(unit, units)| Extent { unit, units });
    for seed in [None, Some(3)] {
        suite_on(|_, _| {
            let disk = Sim::new(&Media::new(1_000, 512), SimConfig { depth: 32, seed, ..SimConfig::default() });
            AreaDisk::new(disk, &extents, BLOCKS * 512)
        });
    }
}

fn file(bytes: u64) -> tempfile::TempPath {
    // Not /tmp, which may have no direct I/O.
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(bytes).unwrap();
    file.into_temp_path()
}

#[test]
fn uring_on_a_file() {
    let path = file(BLOCKS * 512);
    suite_on(|region, _| {
        Uring::open(&path, DiskOptions { depth: 32, ..DiskOptions::default() }, &[Rc::clone(region)]).unwrap()
    });
}

#[test]
fn a_file_that_is_in_use_is_refused_by_name() {
    let path = file(65_536);
    let first = Uring::open(&path, DiskOptions::default(), &[region()]).unwrap();
    let error = Uring::open(&path, DiskOptions::default(), &[region()]).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, OpenError::Busy { .. }), "{text}");
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    drop(first);
    Uring::open(&path, DiskOptions::default(), &[region()]).unwrap();
}

#[test]
fn what_is_no_disk_is_refused() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = |path: &std::path::Path| Uring::open(path, DiskOptions::default(), &[region()]).unwrap_err();
    assert!(matches!(open(directory.path()), OpenError::Kind { .. }));
    assert!(matches!(open("/dev/null".as_ref()), OpenError::Kind { .. }));
    assert!(matches!(open(&directory.path().join("none")), OpenError::Open { .. }));
    let small = directory.path().join("small");
    File::create(&small).unwrap().set_len(100).unwrap();
    assert!(matches!(open(&small), OpenError::TooSmall { bytes: 100, .. }));
}

#[test]
fn a_file_that_becomes_shorter_gives_errors() {
    let path = file(65_536);
    let region = region();
    let pool = region.pool(64).unwrap();
    let mut disk = Uring::open(&path, DiskOptions::default(), &[Rc::clone(&region)]).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(4_096).unwrap();
    let result = qanat_disk_suite::read(&mut disk, &pool, 64, 4_096).map(|frame| frame.len());
    assert_eq!(result, Err(qanat_disk::StorageError::Gone));
    assert_eq!(qanat_disk_suite::read(&mut disk, &pool, 0, 4_096).map(|frame| frame.len()), Ok(4_096));
}

#[test]
fn a_fenced_ring_has_memory_come_and_go() {
    let path = file(BLOCKS * 512);
    let options = DiskOptions { depth: 32, ..DiskOptions::default() };
    let mut disk = Uring::fenced(DiskFile::open(&path, options).unwrap(), 2).unwrap();
    let (kept, third) = (region(), region());
    disk.lend(&kept).unwrap();
    for seed in 0..100 {
        let region = region();
        let pool = region.pool(64).unwrap();
        disk.lend(&region).unwrap();
        assert!(disk.lend(&third).is_err(), "there is room for two");
        assert!(qanat_disk_suite::read(&mut disk, &pool, seed, 512).is_ok());
        if seed == 7 {
            runs_as_the_model_says(&mut disk, &pool, seed, 300);
        }
        disk.take_back(&region);
        let refused = qanat_disk_suite::read(&mut disk, &pool, seed, 512).map(|frame| frame.len());
        assert_eq!(refused, Err(qanat_disk::StorageError::Foreign));
    }
}
