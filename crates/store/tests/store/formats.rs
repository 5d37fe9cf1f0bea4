//! Areas that are empty, foreign, of another kind, too small, or of another geometry; and that nothing is overwritten unasked.

use crate::disk::{Disk, sim};
use crate::histories::recover;
use qanat_api::{AreaId, StorageCommands};
use qanat_disk::{Media, Sim, SimConfig};
use qanat_store::{Log, Options, Recovered, StoreError};

const KIB: u64 = 1 << 10;

fn media(bytes: u64) -> Media {
    Media::new(bytes / 512, 512)
}

fn opened(media: &Media, options: Options) -> Result<Recovered, StoreError> {
    let mut disk = Disk::new(sim(media, None));
    Ok(recover(&mut disk, options, usize::MAX)?.expect("patience").2)
}

fn write(media: &Media, block: u64, byte: usize) {
    media.rot(block, byte, 0x55);
}

#[test]
fn an_empty_area_is_made_only_if_told_to() {
    let media = media(256 * KIB);
    assert_eq!(opened(&media, Options::default()).err(), Some(StoreError::Empty));
    assert!(media.bytes().iter().all(|byte| *byte == 0), "nothing was written");
    assert!(opened(&media, Options::default().make_if_empty([1; 16])).is_ok_and(|it| it.is_new));
    assert!(opened(&media, Options::default().make_if_empty([2; 16])).is_ok_and(|it| !it.is_new));
}

#[test]
fn what_is_foreign_is_not_overwritten_unasked() {
    for (block, byte) in [(0, 0), (2, 56), (63, 511), (64, 0), (127, 511)] {
        let media = media(256 * KIB);
        write(&media, block, byte);
        let before = media.bytes();
        let place = block * 512 + byte as u64;
        let refused = opened(&media, Options::default().make_if_empty([1; 16])).err();
        assert_eq!(refused, Some(StoreError::Foreign { place }));
        assert!(media.bytes() == before, "nothing was written");
        assert!(opened(&media, Options::default().overwrite([1; 16])).is_ok_and(|it| it.is_new));
        assert!(opened(&media, Options::default()).is_ok_and(|it| !it.is_new && it.records == 0));
    }
}

#[test]
fn damaged_superblocks_are_not_taken_for_an_empty_area() {
    let media = media(256 * KIB);
    opened(&media, Options::default().make_if_empty([1; 16])).expect("an empty disk");
    media.rot(0, 20, 1);
    assert!(opened(&media, Options::default().read_only()).is_ok_and(|it| it.was_damaged), "the other one is whole");
    media.rot(64, 20, 1);
    let before = media.bytes();
    let refused = opened(&media, Options::default().make_if_empty([1; 16])).err();
    assert_eq!(refused, Some(StoreError::Superblocks));
    assert!(media.bytes() == before, "nothing was written");
}

#[test]
fn a_damaged_superblock_is_written_anew() {
    let media = media(256 * KIB);
    opened(&media, Options::default().make_if_empty([1; 16])).expect("an empty disk");
    media.rot(64, 20, 1);
    assert!(opened(&media, Options::default()).is_ok_and(|it| it.was_damaged));
    media.rot(0, 20, 1);
    assert!(opened(&media, Options::default()).is_ok_and(|it| it.was_damaged), "the second one is whole again");
}

#[test]
fn areas_and_devices_that_do_not_fit_are_refused() {
    let make = Options::default().make_if_empty([1; 16]);
    let small = opened(&media(100 * KIB), make).err();
    assert_eq!(small, Some(StoreError::AreaTooSmall { bytes: 100 * KIB, needed: 128 * KIB }));
    let large_log = opened(&media(256 * KIB), make.log_bytes(256 * KIB)).err();
    assert_eq!(large_log, Some(StoreError::AreaTooSmall { bytes: 256 * KIB, needed: 320 * KIB }));
    let blocks = opened(&Media::new(64, 8_192), make).err();
    assert!(matches!(blocks, Some(StoreError::Geometry { block_bytes: 8_192, .. })), "{blocks:?}");

    let whole = media(256 * KIB);
    opened(&whole, make).expect("an empty disk");
    let transfers = |transfer_bytes_max| {
        let sim = Sim::new(&whole, SimConfig { transfer_bytes_max, depth: 8, ..SimConfig::default() });
        Log::open(AreaId::new(0, 0), Options::default(), &mut Disk::new(sim)).map(drop)
    };
    assert!(matches!(transfers(2_048), Err(StoreError::Geometry { needed: 4_096, .. })));
    let mut disk = Disk::new(Sim::new(&whole, SimConfig { transfer_bytes_max: 4_096, ..SimConfig::default() }));
    let refused = recover(&mut disk, Options::default(), usize::MAX).err();
    assert!(matches!(refused, Some(StoreError::Geometry { needed: 16_384, .. })), "{refused:?}");

    // The first half of it.
    let half = media(192 * KIB);
    let bytes = whole.bytes();
    for (block, data) in bytes.chunks_exact(512).take(384).enumerate() {
        for (byte, value) in data.iter().enumerate().filter(|(_, value)| **value != 0) {
            half.rot(block as u64, byte, *value);
        }
    }
    assert_eq!(opened(&half, make).err(), Some(StoreError::Shrunk { recorded: 256 * KIB, bytes: 192 * KIB }));
}

#[test]
fn a_full_log_refuses_and_goes_on_after_a_checkpoint() {
    let media = media(192 * KIB);
    let mut disk = Disk::new(sim(&media, None));
    let options = Options::default().make_if_empty([1; 16]);
    let (mut log, ..) = recover(&mut disk, options, usize::MAX).expect("an empty disk").expect("patience");
    log.set_reserve(16 * KIB);
    let fill = |log: &mut Log, disk: &mut Disk| {
        let mut count = 0;
        loop {
            match log.append(&[1; 1_000], disk) {
                Ok(_) => count += 1,
                Err(StoreError::Full { wanted, free }) => {
                    assert!(wanted > free);
                    break count;
                }
                Err(error) => panic!("{error}"),
            }
            log.commit(disk);
            while let Some(event) = disk.next() {
                log.handle(event, disk);
            }
            while log.next(disk).is_some() {}
        }
    };
    assert!(fill(&mut log, &mut disk) > 10);
    assert_eq!(log.statistics().full, 1);
    log.checkpoint_begin(&mut disk).expect("there is a reserve");
    log.checkpoint_append(&[b"all", b" of it"], &mut disk).expect("there is a reserve");
    log.checkpoint_end(&mut disk).expect("there is a reserve");
    assert_eq!(log.checkpoint_end(&mut disk), Err(StoreError::NoCheckpoint));
    assert_eq!(log.checkpoint_begin(&mut disk), Err(StoreError::CheckpointRuns));
    log.commit(&mut disk);
    while let Some(event) = disk.next() {
        log.handle(event, &mut disk);
    }
    while log.next(&mut disk).is_some() {}
    assert!(fill(&mut log, &mut disk) > 10, "there is room again");
}

#[test]
fn several_appends_of_a_turn_are_one_write_and_a_lone_one_goes_at_once() {
    let media = media(256 * KIB);
    let mut disk = Disk::new(sim(&media, None));
    let options = Options::default().make_if_empty([1; 16]);
    let (mut log, ..) = recover(&mut disk, options, usize::MAX).expect("an empty disk").expect("patience");
    let before = disk.flushes;
    for _ in 0..10 {
        log.append(b"of one turn", &mut disk).expect("there is room");
    }
    log.commit(&mut disk);
    // While that is on its way, the next ones collect.
    for _ in 0..10 {
        log.append(b"of later turns", &mut disk).expect("there is room");
        log.commit(&mut disk);
    }
    while let Some(event) = disk.next() {
        log.handle(event, &mut disk);
    }
    let statistics = log.statistics();
    assert_eq!((statistics.records, statistics.batches, statistics.frames), (20, 2, 2));
    assert_eq!(disk.flushes - before, 2, "a batch of one frame is one durable write");
    assert_eq!(log.append(&vec![0; 65 << 20], &mut disk), Err(StoreError::TooLong { bytes: 65 << 20, most: 64 << 20 }));
}

/// If somebody else has all of the area's memory, records wait in the process's own, and go in order once there is some.
#[test]
fn records_wait_while_there_are_no_buffers() {
    let media = media(512 * KIB);
    let mut disk = Disk::new(sim(&media, None));
    let options = Options::default().make_if_empty([1; 16]);
    let (mut log, ..) = recover(&mut disk, options, usize::MAX).expect("an empty disk").expect("patience");
    let area = AreaId::new(0, 0);
    let mut taken: Vec<_> = std::iter::from_fn(|| disk.area_block(area).ok()).collect();
    let mut appended = Vec::new();
    for index in 0..8_u8 {
        let bytes = vec![index; 9_000];
        log.append(&bytes, &mut disk).expect("it waits");
        appended.push(bytes);
    }
    log.commit(&mut disk);
    assert!(disk.next().is_none() && !log.is_idle(), "nothing can be written");
    // One buffer is enough, and those that come back later do not pass it.
    taken.truncate(taken.len() - 1);
    log.commit(&mut disk);
    let bytes = vec![99; 9_000];
    log.append(&bytes, &mut disk).expect("it waits");
    appended.push(bytes);
    log.commit(&mut disk);
    while let Some(event) = disk.next() {
        log.handle(event, &mut disk);
        while log.next(&mut disk).is_some() {}
    }
    assert!(log.is_idle());
    drop((taken, log));
    let mut disk = Disk::new(sim(&media, None));
    let (_, found, _) = recover(&mut disk, Options::default(), usize::MAX).expect("no damage").expect("patience");
    assert_eq!(found.iter().map(|entry| entry.bytes.clone()).collect::<Vec<_>>(), appended);
}

/// What is given up is free once both superblocks say so, and not before: until then a crash leads back to it.
#[test]
fn room_is_not_used_before_the_superblocks_give_it_up() {
    let media = media(192 * KIB);
    let mut disk = Disk::new(sim(&media, None));
    let options = Options::default().make_if_empty([1; 16]);
    let (mut log, ..) = recover(&mut disk, options, usize::MAX).expect("an empty disk").expect("patience");
    while log.append(&[1; 1_000], &mut disk).is_ok() {}
    log.commit(&mut disk);
    while let Some(event) = disk.next() {
        log.handle(event, &mut disk);
    }
    while log.next(&mut disk).is_some() {}
    log.truncate(log.durable(), &mut disk).expect("no checkpoint");
    for _ in 0..2 {
        assert!(matches!(log.append(&[1; 1_000], &mut disk), Err(StoreError::Full { .. })));
        let event = disk.next().expect("a superblock is written");
        log.handle(event, &mut disk);
    }
    assert!(log.append(&[1; 1_000], &mut disk).is_ok());
}
