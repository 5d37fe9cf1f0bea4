//! What the middleware does when it does something: each fault by itself, and a trace that reads back as it was.
use qanat_disk::trace::{self, Asked, Entry, TraceError};
use qanat_disk::{
    Fault, FaultCounters, FaultRates, Media, Operation, Request, Sim, SimConfig, StorageError, Trace, Vsic,
};
use qanat_disk_suite::{BLOCKS, next, one, read};
use qanat_nic::{ManualClock, Pool, Region, Time};
use std::time::Duration;

const ALWAYS: u32 = 1_000_000;

fn media() -> Media {
    Media::new(BLOCKS, 512)
}

fn faulty(media: &Media, rates: FaultRates) -> Fault<Sim> {
    Fault::new(Sim::new(media, SimConfig::default()), rates, 1)
}

fn pool() -> Pool {
    Region::new(8, 16_384).unwrap().pool(8).unwrap()
}

fn write(pool: &Pool, block: u64, byte: u8) -> Operation {
    let mut frame = pool.allocate(0).unwrap();
    frame.append(4_096).unwrap().fill(byte);
    Operation::Write { block, frame, durable: true }
}

#[test]
fn each_fault_does_what_it_says_and_is_counted() {
    let none = FaultRates::default();
    let counted = |rates, operation: fn(&Pool) -> Operation| {
        let (media, pool) = (media(), pool());
        let mut disk = faulty(&media, rates);
        let completion = one(&mut disk, operation(&pool));
        let whole = completion.frame.as_ref().is_none_or(|frame| frame.len() == 4_096);
        assert!(whole, "the frame comes back as it was");
        let changed: Vec<usize> = media
            .bytes()
            .chunks(512)
            .enumerate()
            .filter(|(_, block)| block.contains(&7))
            .map(|(index, _)| index)
            .collect();
        let zeroes = completion.frame.map(|frame| frame.bytes().iter().filter(|byte| **byte == 0).count());
        (completion.result, disk.counters(), changed, zeroes)
    };
    let a_write: fn(&Pool) -> Operation = |pool| write(pool, 8, 7);
    let a_read: fn(&Pool) -> Operation = |pool| {
        let mut frame = pool.allocate(0).unwrap();
        frame.append(4_096).unwrap();
        Operation::Read { block: 8, frame }
    };
    let seen = FaultCounters { requests: 1, ..FaultCounters::default() };

    let (result, counters, changed, _) = counted(FaultRates { error_ppm: ALWAYS, ..none }, a_write);
    assert_eq!((result, changed), (Err(StorageError::Medium), vec![]));
    assert_eq!(counters, FaultCounters { failed: 1, ..seen });
    let (result, counters, changed, _) = counted(FaultRates { time_out_ppm: ALWAYS, ..none }, a_write);
    assert_eq!((result, changed), (Err(StorageError::TimedOut), vec![]));
    assert_eq!(counters, FaultCounters { timed_out: 1, ..seen });
    let (result, counters, changed, _) = counted(FaultRates { lose_ppm: ALWAYS, ..none }, a_write);
    assert_eq!((result, changed), (Ok(()), vec![]));
    assert_eq!(counters, FaultCounters { lost: 1, ..seen });
    let (result, counters, changed, _) = counted(FaultRates { tear_ppm: ALWAYS, ..none }, a_write);
    assert_eq!(result, Err(StorageError::Medium));
    assert!((1..8).contains(&changed.len()) && changed[0] == 8, "{changed:?}: a part, from the beginning");
    assert_eq!(counters, FaultCounters { torn: 1, ..seen });
    let (result, counters, changed, _) = counted(FaultRates { misdirect_ppm: ALWAYS, ..none }, a_write);
    assert_eq!((result, changed.len()), (Ok(()), 8));
    assert_ne!(changed[0], 8);
    assert_eq!(counters, FaultCounters { misdirected: 1, ..seen });
    let (result, counters, _, zeroes) = counted(FaultRates { rot_ppm: ALWAYS, ..none }, a_read);
    assert_eq!((result, zeroes), (Ok(()), Some(4_095)));
    assert_eq!(counters, FaultCounters { rotten: 1, ..seen });
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let rates = FaultRates {
        error_ppm: 200_000,
        tear_ppm: 100_000,
        rot_ppm: 100_000,
        lose_ppm: 50_000,
        ..FaultRates::default()
    };
    let run = || {
        let (media, pool) = (media(), pool());
        let mut disk = faulty(&media, rates);
        let results: Vec<_> =
            (0..200).map(|turn| one(&mut disk, write(&pool, turn % 500, turn as u8)).result).collect();
        (results, disk.counters(), media.bytes())
    };
    let (first, second) = (run(), run());
    assert!(first == second);
    assert!(first.1.failed > 10 && first.1.torn > 5 && first.1.lost > 2, "{:?}", first.1);
}

#[test]
fn rot_and_latent_errors_of_the_medium_are_seen_by_readers() {
    let (media, pool) = (media(), pool());
    let mut disk = Sim::new(&media, SimConfig::default());
    assert!(one(&mut disk, write(&pool, 8, 7)).result.is_ok());
    media.rot(9, 3, 0x80);
    assert_eq!(read(&mut disk, &pool, 9, 512).unwrap().bytes()[..5], [7, 7, 7, 0x87, 7]);
    media.fail_reads(10);
    assert_eq!(read(&mut disk, &pool, 9, 1_024).map(drop), Err(StorageError::Medium));
    assert!(one(&mut disk, write(&pool, 8, 1)).result.is_ok());
    assert_eq!(read(&mut disk, &pool, 9, 1_024).unwrap().bytes()[511], 1);
}

#[test]
fn what_a_crash_leaves_is_a_version_since_the_last_flush() {
    let pool = pool();
    // 4 KiB written three times over: durable 1, then 2 and 3 without a flush, then 4 under way.
    let mut left = std::collections::BTreeSet::new();
    for choice in 0..4 {
        let media = Media::new(BLOCKS, 4_096);
        let mut disk = Sim::new(&media, SimConfig::default());
        for byte in 1..=3 {
            let Operation::Write { block, frame, .. } = write(&pool, 5, byte) else { unreachable!() };
            assert!(one(&mut disk, Operation::Write { block, frame, durable: false }).result.is_ok());
            if byte == 1 {
                assert!(one(&mut disk, Operation::Flush).result.is_ok());
            }
        }
        assert_eq!(media.volatile_blocks(), 1);
        assert!(disk.submit(Request { token: 0, operation: write(&pool, 5, 4) }).is_ok());
        disk.ring();
        disk.lose_power(&mut |candidates| {
            assert_eq!(candidates, 4);
            choice
        });
        assert_eq!((media.volatile_blocks(), pool.in_use_count()), (0, 0));
        left.insert(media.bytes()[5 * 4_096]);
    }
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn a_flush_covers_what_had_completed_when_it_was_submitted() {
    let (media, pool) = (media(), pool());
    let mut disk = Sim::new(&media, SimConfig::default());
    let plain = |byte| {
        let Operation::Write { block, frame, .. } = write(&pool, 0, byte) else { unreachable!() };
        Operation::Write { block, frame, durable: false }
    };
    assert!(one(&mut disk, plain(1)).result.is_ok());
    // The second write is under way when the flush is submitted, and completes before it.
    assert!(disk.submit(Request { token: 1, operation: plain(2) }).is_ok());
    assert!(disk.submit(Request { token: 2, operation: Operation::Flush }).is_ok());
    disk.ring();
    let mut completions = Vec::new();
    while disk.in_flight() > 0 {
        next(&mut disk, &mut completions);
    }
    assert!(media.volatile_blocks() > 0, "the second write is not durable");
    disk.lose_power(&mut |_| 0);
    assert_eq!(media.bytes()[0], 1);
}

#[test]
fn a_trace_reads_back_as_it_was() {
    let (media, pool, clock) = (media(), pool(), ManualClock::new());
    let rates = FaultRates { error_ppm: 500_000, ..FaultRates::default() };
    let mut disk = Trace::new(faulty(&media, rates), Vec::new(), clock.clone());
    for turn in 0..20 {
        clock.advance(Duration::from_nanos(100));
        one(&mut disk, write(&pool, turn, 1));
    }
    one(&mut disk, Operation::WriteZeroes { block: 3, blocks: 4 });
    one(&mut disk, Operation::Flush);
    let (_, text) = disk.finish().unwrap();
    let entries: Vec<Entry> = trace::read(text.as_slice()).collect::<Result<_, _>>().unwrap();
    assert_eq!(entries.len(), 44);
    let asked = Asked::Write { block: 0, blocks: 8, durable: true };
    assert_eq!(entries[0], Entry::Submitted { time: Time::from_nanos(100), number: 0, asked });
    let failed = entries.iter().filter(|entry| matches!(entry, Entry::Ended { error: Some(_), .. })).count();
    assert!((3..20).contains(&failed), "{failed}");
    let again: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    let first_line = text.iter().position(|byte| *byte == b'\n').unwrap();
    assert_eq!(again.as_bytes(), &text[first_line + 1..]);
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    for text in [
        "x",
        "1 s 2 read 3",
        "1 s 2 write 1 2 later",
        "-1 s 0 flush",
        "1 q 0 flush",
        "1 s 0 read 99999999999999999999 1",
    ] {
        let text = format!("# qanat disk trace 1\n1 s 0 flush\n{text}\n1 s 0 flush\n");
        let read: Vec<_> = trace::read(text.as_bytes()).collect();
        assert!(matches!(read.as_slice(), [Ok(_), Err(TraceError::Line { line: 3, .. })]), "{read:?}");
    }
    let endless = vec![b'a'; 1 << 20];
    assert_eq!(trace::read(endless.as_slice()).count(), 1);
}
