//! Disks that break their word: what was acknowledged and can't be had any more is noticed, and the place is named. Only what the last
//! batch wrote can't be told from a torn write, as long as nothing was written behind it and the log was not sealed.

use crate::disk::{Disk, buffers_in_use, sim};
use crate::histories::recover;
use crate::oracle::Entry;
use crate::seeds;
use qanat_api::{Event, StorageError};
use qanat_disk::{Fault, FaultRates, Media, Sim, Vsic};
use qanat_nic::Random;
use qanat_store::{Log, LogEvent, Options, Position, StoreError};

/// Where the log begins.
const DATA: u64 = 64 << 10;
const AREA_BYTES: u64 = 192 << 10;

fn until_idle<V: Vsic>(log: &mut Log, disk: &mut Disk<V>) {
    loop {
        while let Some(event) = log.next(disk) {
            assert!(!matches!(event, LogEvent::Failed(_)), "{event:?}");
        }
        if log.is_idle() {
            return;
        }
        let event = disk.next().expect("it is not idle");
        log.handle(event, disk);
    }
}

/// A log of `batches` of some records each, sealed at its end or not. The positions of the batches' first records.
fn made(media: &Media, random: &mut Random, batches: u64, is_sealed: bool) -> Vec<Position> {
    let mut disk = Disk::new(sim(media, None));
    let options = Options::default().make_if_empty([9; 16]);
    let (mut log, ..) = recover(&mut disk, options, usize::MAX).expect("an empty disk").expect("patience");
    let mut first = Vec::new();
    for _ in 0..batches {
        let count = 1 + random.below(4);
        for index in 0..count {
            let bytes = vec![random.next() as u8; random.below(3_000) as usize];
            let position = log.append(&bytes, &mut disk).expect("there is room");
            if index == 0 {
                first.push(position);
            }
        }
        log.commit(&mut disk);
        until_idle(&mut log, &mut disk);
    }
    if is_sealed {
        log.seal(&mut disk).expect("no checkpoint");
        until_idle(&mut log, &mut disk);
    }
    first
}

fn opened(media: &Media) -> Result<(Vec<Entry>, bool), StoreError> {
    let mut disk = Disk::new(sim(media, None));
    let (_, found, recovered) = recover(&mut disk, Options::default(), usize::MAX)?.expect("patience");
    Ok((found, recovered.was_damaged))
}

#[derive(Default, Debug)]
struct Seen {
    refused: u64,
    cut: u64,
    harmless: u64,
    superblocks: u64,
}

/// Any byte of the area is changed.
fn rot(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let media = Media::new(AREA_BYTES / 512, 512);
    let is_sealed = random.below(2) == 0;
    let batches = 2 + random.below(4);
    let first = made(&media, &mut random, batches, is_sealed);
    let (whole, _) = opened(&media.copy()).expect("it is as it was written");
    // Mostly where something is.
    let place = match random.below(4) {
        0 => random.below(2) * (32 << 10) + random.below(4_096),
        1 => random.below(AREA_BYTES),
        _ => DATA + random.below(first.last().map_or(1, |last| last.to_number() + 4_096)),
    };
    media.rot(place / 512, (place % 512) as usize, 1 + random.below(255) as u8);
    match opened(&media) {
        Ok((found, was_damaged)) if found == whole => {
            seen.superblocks += u64::from(was_damaged);
            seen.harmless += u64::from(!was_damaged);
            if place < 4_096 || (32 << 10..(32 << 10) + 4_096).contains(&place) {
                assert!(was_damaged, "a superblock's damage is told of");
            }
        }
        Ok((found, _)) => {
            let last = first.last().expect("a batch");
            assert!(!is_sealed, "a sealed log has no end that may be torn");
            let kept = whole.partition_point(|entry| entry.position < *last);
            assert!(found.len() >= kept && whole.starts_with(&found), "only the last batch looks torn");
            seen.cut += 1;
        }
        Err(StoreError::Rotten { place: told }) => {
            assert!(place >= DATA && told <= place && place - told < 64 << 10, "rot at {place} is told of at {told}");
            seen.refused += 1;
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn rot_is_noticed() {
    let seen: Seen = seeds::each("rot_is_noticed", 1_500, rot);
    println!("{seen:?}");
    assert!(
        std::env::var_os("QANAT_SEED").is_some()
            || [seen.refused, seen.cut, seen.harmless, seen.superblocks].iter().all(|count| *count > 0)
    );
}

/// Any block can't be read.
fn latent(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let media = Media::new(AREA_BYTES / 512, 512);
    let batches = 2 + random.below(4);
    let first = made(&media, &mut random, batches, false);
    let (whole, _) = opened(&media.copy()).expect("it is as it was written");
    let place = match random.below(3) {
        0 => random.below(2) * (32 << 10) + random.below(4_096),
        _ => DATA + random.below(first.last().map_or(1, |last| last.to_number() + 4_096)),
    };
    media.fail_reads(place / 512);
    match opened(&media) {
        Ok((found, was_damaged)) => {
            assert!(found == whole && place < DATA && was_damaged, "only a superblock may be missing");
            seen.superblocks += 1;
        }
        Err(StoreError::Disk { place: told, error: StorageError::Medium }) => {
            assert!(told <= place && place >= DATA, "{place} is told of at {told}");
            seen.refused += 1;
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_cant_be_read_is_told_of() {
    let seen: Seen = seeds::each("what_cant_be_read_is_told_of", 500, latent);
    println!("{seen:?}");
    assert!(std::env::var_os("QANAT_SEED").is_some() || (seen.refused > 0 && seen.superblocks > 0));
}

/// Reads go to other places, or come back changed, now and then: they are read again, or refused; never believed.
fn astray(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let media = Media::new(AREA_BYTES / 512, 512);
    let batches = 2 + random.below(4);
    made(&media, &mut random, batches, true);
    let (whole, _) = opened(&media.copy()).expect("it is as it was written");
    let rates = FaultRates { misdirect_ppm: 100_000, rot_ppm: 100_000, ..FaultRates::default() };
    let mut disk = Disk::new(Fault::new(sim(&media, None), rates, random.next()));
    match recover(&mut disk, Options::default().read_only(), usize::MAX) {
        Ok(read) => {
            let (_, found, recovered) = read.expect("patience");
            assert!(found == whole, "what went astray was believed");
            seen.superblocks += u64::from(recovered.was_damaged);
            seen.harmless += u64::from(!recovered.was_damaged);
        }
        Err(StoreError::Rotten { .. } | StoreError::Superblocks | StoreError::Foreign { .. } | StoreError::Empty) => {
            seen.refused += 1
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn reads_that_went_astray_are_not_believed() {
    let seen: Seen = seeds::each("reads_that_went_astray_are_not_believed", 1_000, astray);
    println!("{seen:?}");
    assert!(
        std::env::var_os("QANAT_SEED").is_some()
            || [seen.refused, seen.harmless, seen.superblocks].iter().all(|count| *count > 0)
    );
}

/// Writes that were lost, or went elsewhere, and were said to be done: with later ones behind them, that is noticed.
fn lost(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let media = Media::new(AREA_BYTES / 512, 512);
    made(&media, &mut random, 1, true);
    let mut disk = Disk::new(Fault::new(sim(&media, None), FaultRates::default(), random.next()));
    let (mut log, ..) = recover(&mut disk, Options::default(), usize::MAX).expect("no damage").expect("patience");
    let lies = if random.below(2) == 0 {
        FaultRates { lose_ppm: 1_000_000, ..FaultRates::default() }
    } else {
        FaultRates { misdirect_ppm: 1_000_000, ..FaultRates::default() }
    };
    let mut acknowledged = 0;
    for batch in 0..4 {
        // The second batch is the one that is lied about.
        disk.vsic.set_rates(if batch == 1 { lies } else { FaultRates::default() });
        log.append(&[batch; 100], &mut disk).expect("there is room");
        log.commit(&mut disk);
        until_idle(&mut log, &mut disk);
        acknowledged += 1;
    }
    drop(log);
    drop(disk);
    match opened(&media) {
        Ok((found, _)) => {
            // It may have gone where it belongs.
            assert!(found.len() > acknowledged, "an acknowledged record is gone, and nobody is told");
            seen.harmless += 1;
        }
        Err(StoreError::Rotten { .. }) => seen.refused += 1,
        // What went astray hit something else.
        Err(StoreError::Superblocks | StoreError::Contradiction { .. }) => seen.cut += 1,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn writes_that_were_not_done_are_noticed() {
    let seen: Seen = seeds::each("writes_that_were_not_done_are_noticed", 500, lost);
    println!("{seen:?}");
    assert!(std::env::var_os("QANAT_SEED").is_some() || seen.refused > 0);
}

/// A device that fails a flush, or a write, after so many. How many records were acknowledged, with what the log failed, and the disk.
fn failing(after: u64, is_flush: bool) -> (usize, Option<StoreError>, Media) {
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut disk: Disk<Sim> = Disk::new(sim(&media, None));
    let options = Options::default().make_if_empty([9; 16]);
    let (mut log, ..) = recover(&mut disk, options, usize::MAX).expect("an empty disk").expect("patience");
    let (mut acknowledged, mut failure, mut seen) = (0, None, 0);
    let mut positions = Vec::new();
    for round in 0..20 {
        // Two frames a batch: they are flushed.
        for _ in 0..2 {
            if let Ok(position) = log.append(&[round; 5_000], &mut disk) {
                positions.push(position);
            }
        }
        log.commit(&mut disk);
        if round % 3 == 2 {
            log.truncate(log.durable(), &mut disk).ok();
        }
        while let Some(mut event) = disk.next() {
            let hit = match &mut event {
                Event::Written { result, .. } if !is_flush => Some(result),
                Event::Flushed { result, .. } if is_flush => Some(result),
                _ => None,
            };
            if let Some(result) = hit {
                seen += 1;
                if seen == after {
                    *result = Err(StorageError::Medium);
                }
            }
            log.handle(event, &mut disk);
            while let Some(event) = log.next(&mut disk) {
                match event {
                    LogEvent::Durable { before } => {
                        assert!(failure.is_none(), "nothing is acknowledged after a failure");
                        acknowledged = positions.iter().filter(|position| **position < before).count();
                    }
                    LogEvent::Failed(error) => {
                        assert!(failure.is_none(), "it is told once");
                        failure = Some(error);
                    }
                    LogEvent::Truncated { .. } => assert!(failure.is_none()),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    if failure.is_some() {
        assert!(matches!(log.append(b"more", &mut disk), Err(StoreError::Stopped(_))));
        assert!(matches!(log.truncate(Position::default(), &mut disk), Err(StoreError::Stopped(_))));
    }
    (acknowledged, failure, media)
}

#[test]
fn after_a_failed_write_or_flush_nothing_is_acknowledged() {
    let mut failures = 0;
    for is_flush in [false, true] {
        for after in 1..40 {
            let (_, failure, media) = failing(after, is_flush);
            let Some(error) = failure else { continue };
            assert!(matches!(error, StoreError::Disk { error: StorageError::Medium, .. }), "{error}");
            failures += 1;
            opened(&media).expect("it can be opened again");
        }
    }
    assert!(failures > 30, "{failures}");
    assert_eq!(buffers_in_use(), 0);
}

/// One record is read again, from a disk that rots under it.
#[test]
fn a_record_that_rots_while_the_log_is_open_is_refused() {
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut disk = Disk::new(sim(&media, None));
    let options = Options::default().make_if_empty([9; 16]);
    let (mut log, ..) = recover(&mut disk, options, usize::MAX).expect("an empty disk").expect("patience");
    let position = log.append(&[5; 6_000], &mut disk).expect("there is room");
    log.commit(&mut disk);
    until_idle(&mut log, &mut disk);
    media.rot(DATA / 512 + 9, 3, 1);
    log.read(position, 1, &mut disk).expect("it is durable");
    let result = loop {
        if let Some(LogEvent::Read { token: 1, result }) = log.next(&mut disk) {
            break result.map(<[u8]>::len);
        }
        let event = disk.next().expect("a read is under way");
        log.handle(event, &mut disk);
    };
    assert_eq!(result, Err(StoreError::Rotten { place: DATA }));
    // The log goes on.
    assert!(log.append(b"more", &mut disk).is_ok());
}

/// Any one read comes back wrong, once: nothing of the log is lost by that, not even what its last batch wrote.
#[test]
fn one_read_that_comes_back_wrong_is_read_again() {
    let media = Media::new(AREA_BYTES / 512, 512);
    made(&media, &mut Random::new(3), 5, false);
    let (whole, _) = opened(&media.copy()).expect("it is as it was written");
    for wrong in 0..12 {
        let mut disk = Disk::new(sim(&media, None));
        let mut log = Log::open(crate::disk::AREA, Options::default().read_only(), &mut disk).expect("it fits");
        let (mut found, mut reads) = (0, 0);
        while let Some(mut event) = disk.next() {
            if let Event::Read { result: Ok(block), .. } = &mut event {
                if reads == wrong {
                    block.bytes_mut().chunks_mut(512).for_each(|sector| sector[100] ^= 1);
                }
                reads += 1;
            }
            log.handle(event, &mut disk);
            while let Some(event) = log.next(&mut disk) {
                match event {
                    LogEvent::Record { bytes, .. } => {
                        assert_eq!(bytes, whole[found].bytes);
                        found += 1;
                    }
                    LogEvent::Recovered(_) => {}
                    other => panic!("read {wrong}: {other:?}"),
                }
            }
        }
        assert_eq!(found, whole.len(), "read {wrong}");
    }
}
