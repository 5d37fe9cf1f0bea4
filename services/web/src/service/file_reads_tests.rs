//! Large files, read by each way: through the page cache, around it, and into a cache of the service's own.

use super::testing::{Bench, START_SECONDS, responses};
use crate::config::{Caching, WallClock, WebConfig};
use proptest::prelude::*;
use qanat::ConnectionId;
use qanat_store::PolicyKind;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const WINDOW_BYTES: usize = 16_384;
const FILE_BYTES: usize = 20 * WINDOW_BYTES + 777;
const WINDOWS: u64 = 21;
/// Long after any file was changed.
const LATER_SECONDS: u64 = 4_102_444_800;
const WHOLE: &str = "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n";

fn own(windows: usize) -> Caching {
    Caching::Own { bytes: windows * WINDOW_BYTES, policy: PolicyKind::default() }
}

fn content(seed: usize) -> Vec<u8> {
    (0..FILE_BYTES).map(|index| (index * 7 + index / 251 + seed) as u8).collect()
}

fn site() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("large.bin"), content(0)).unwrap();
    directory
}

fn bench(directory: &Path, caching: Caching) -> Bench {
    Bench::new(directory, |config: &mut WebConfig| {
        config.object_bytes_max = 10_000;
        config.window_bytes = WINDOW_BYTES;
        config.windows_max = 8;
        config.read_cache = caching;
        config.wall_clock = WallClock::FromZero(LATER_SECONDS);
    })
}

fn range(bench: &mut Bench, first: usize, end: usize) -> Vec<u8> {
    bench.get("/large.bin", &format!("Range: bytes={first}-{}\r\n", end - 1)).body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_ranges_are_the_files_bytes_by_each_way(
        ranges in proptest::collection::vec((0..FILE_BYTES, 1..3 * WINDOW_BYTES), 1..12),
        way in 0..5_usize,
    ) {
        let directory = site();
        let caching = [Caching::Kernel, Caching::Nobody, own(0), own(3), own(64)][way];
        let (mut bench, whole) = (bench(directory.path(), caching), content(0));
        for (first, length) in ranges {
            let end = (first + length).min(FILE_BYTES);
            prop_assert!(range(&mut bench, first, end) == whole[first..end], "{first} {end}");
        }
        let figures = bench.service.figures();
        prop_assert!(figures.windows_in_use == 0 && figures.read_cache.pieces <= figures.read_cache.pieces_max);
    }
}

#[test]
fn what_is_kept_is_read_once() {
    let directory = site();
    let mut bench = bench(directory.path(), own(64));
    for (first, end) in [(5, 6), (0, FILE_BYTES), (FILE_BYTES - 1, FILE_BYTES), (16_000, 50_000)] {
        assert!(range(&mut bench, first, end) == content(0)[first..end], "{first}");
    }
    let figures = bench.service.figures();
    assert_eq!((figures.windows_read, figures.read_cache.inserted), (WINDOWS, WINDOWS), "{figures:?}");
    assert_eq!((figures.read_cache.hits, figures.read_cache.misses), (6, WINDOWS), "{figures:?}");
    // By another way each is read each time.
    for caching in [Caching::Kernel, Caching::Nobody] {
        let mut bench = self::bench(directory.path(), caching);
        (0..2).for_each(|_| assert!(bench.get("/large.bin", "").body == content(0)));
        assert_eq!(bench.service.figures().windows_read, 2 * WINDOWS);
    }
}

#[test]
fn who_asks_while_it_is_being_read_waits_for_the_same_read() {
    let directory = site();
    let mut bench = bench(directory.path(), own(64));
    let ids: Vec<ConnectionId> = (0..4).map(|number| bench.open_from(&format!("192.0.2.{number}:1"))).collect();
    ids.iter().for_each(|id| bench.data(*id, WHOLE));
    for id in &ids {
        bench.run(*id);
        assert!(responses(&bench.peer.streams[id], &[]).remove(0).body == content(0));
        bench.end(*id);
    }
    let figures = bench.service.figures();
    assert_eq!((figures.windows_read, figures.windows_in_use), (WINDOWS, 0), "{figures:?}");
}

#[test]
fn a_changed_file_is_read_anew() {
    let directory = site();
    let file = directory.path().join("large.bin");
    let mut bench = bench(directory.path(), own(64));
    assert!(bench.get("/large.bin", "").body == content(0));
    fs::write(&file, content(9)).unwrap();
    bench.pass(Duration::from_secs(1));
    assert!(bench.get("/large.bin", "").body == content(9));
    assert_eq!(bench.service.figures().windows_read, 2 * WINDOWS);
    // A reload forgets all.
    bench.service.reload();
    assert!(bench.get("/large.bin", "").body == content(9));
    assert_eq!(bench.service.figures().windows_read, 3 * WINDOWS);
}

// Attack: time and cost: a file that is changed again within the resolution of its times looks the same
#[test]
fn what_was_changed_just_now_is_not_kept() {
    let directory = site();
    let mut bench = bench(directory.path(), own(64));
    // The service's clock is before the file's times.
    bench.service.config.wall_clock = WallClock::FromZero(START_SECONDS);
    bench.pass(Duration::from_secs(1));
    for round in 1..3 {
        assert!(bench.get("/large.bin", "").body == content(0));
        let figures = bench.service.figures();
        assert_eq!((figures.windows_read, figures.read_cache.pieces), (round * WINDOWS, 0));
    }
}

#[test]
fn a_file_that_shrinks_ends_in_a_reset_by_each_way() {
    for caching in [Caching::Kernel, Caching::Nobody, own(64)] {
        let directory = site();
        let mut bench = bench(directory.path(), caching);
        assert!(range(&mut bench, 0, 10) == content(0)[..10]);
        // Within a block, so that what is read around the page cache ends in the middle of one.
        let file = fs::OpenOptions::new().write(true).open(directory.path().join("large.bin")).unwrap();
        file.set_len(3 * WINDOW_BYTES as u64 + 5_000).unwrap();
        let id = bench.open();
        bench.stream(id, WHOLE);
        assert!(bench.stack.connections[&id].is_aborted, "{caching:?}");
        assert_eq!(bench.service.figures().stream_errors, 1);
        bench.end(id);
        assert_eq!(bench.service.figures().windows_in_use, 0);
    }
}

// Attack: time and cost: windows held by who asks for what is kept, and takes nothing
#[test]
fn kept_windows_count_as_the_peers_that_hold_them() {
    let directory = site();
    let mut bench = bench(directory.path(), own(64));
    assert!(bench.get("/large.bin", "").body == content(0));
    for number in 0..30 {
        let id = bench.open_from(&format!("198.51.100.1:{}", 1_000 + number));
        bench.data(id, WHOLE);
    }
    let figures = bench.service.figures();
    assert!(figures.windows_in_use == 4 && figures.window_share_waits > 0, "{figures:?}");
    let other = bench.open_from("203.0.113.1:1000");
    let stream = bench.stream(other, WHOLE);
    assert!(responses(&stream, &[]).remove(0).body == content(0));
}
