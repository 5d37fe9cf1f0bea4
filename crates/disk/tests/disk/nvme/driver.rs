//! The suite of all drivers, over a controller that keeps to the protocol.

use crate::nvme::rig::{Choice, FIRST_BLOCK, buffers, frame_of};
use qanat_disk::controller::ControllerConfig;
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::{Media, Operation, Request, SimConfig, StorageError, Vsic};
use qanat_disk_suite::{BLOCKS, one, read, refuses_what_cant_be_done, runs_as_the_model_says};
use qanat_nic::Region;

const SEEDS: u64 = 30;

/// Both parts of the suite. Nothing is left anywhere.
fn suite_on(by_doorbells: bool, choice: impl Fn(u64) -> Choice) {
    let open = |seed, region: &_| {
        choice(seed)
            .open(region, |loopback, _| if by_doorbells { loopback } else { loopback.without_turns() })
            .expect("it comes up")
    };
    for seed in 0..SEEDS {
        let (region, pool) = buffers();
        let mut rig = open(seed, &region);
        runs_as_the_model_says(&mut rig, &pool, seed, 300);
        assert_eq!(pool.in_use_count(), 0, "seed {seed}: every buffer is back");
        let controller = rig.controller.borrow();
        assert_eq!((controller.under_way(), controller.offence()), (0, None), "seed {seed}");
        assert_eq!((rig.copies.in_use_count(), controller.counters().refused), (0, 0), "seed {seed}");
    }
    let (region, pool) = buffers();
    let mut rig = open(1, &region);
    refuses_what_cant_be_done(&mut rig, &pool);
    assert_eq!((rig.nvme.resets(), rig.nvme.failure()), (0, None));
}

fn shuffled(seed: u64) -> SimConfig {
    SimConfig { depth: 32, seed: Some(seed), ..SimConfig::default() }
}

#[test]
fn in_turn() {
    let sim = SimConfig { depth: 32, ..SimConfig::default() };
    suite_on(true, |_| Choice::new(sim));
    suite_on(false, |_| Choice::new(sim));
}

#[test]
fn in_any_order() {
    suite_on(true, |seed| Choice::new(shuffled(seed)));
    suite_on(false, |seed| Choice::new(shuffled(seed)));
}

#[test]
fn without_shadow_doorbells() {
    let without = |options| move |seed| Choice { options, ..Choice::new(shuffled(seed)) };
    suite_on(true, without(NvmeOptions { depth: 32, shadow_doorbells: false, ..NvmeOptions::default() }));
    suite_on(false, |seed| Choice {
        config: ControllerConfig { shadow_doorbells: false, transfer_bytes_max: 16_384, ..ControllerConfig::default() },
        ..Choice::new(shuffled(seed))
    });
}

#[test]
fn queues_of_all_depths() {
    for depth in [1, 2, 7, 63, 256] {
        let options = NvmeOptions { depth, ..NvmeOptions::default() };
        suite_on(false, |seed| Choice { options, ..Choice::new(shuffled(seed)) });
    }
}

#[test]
fn a_controller_that_does_a_few_at_a_time() {
    suite_on(false, |seed| Choice { copies: 2, ..Choice::new(shuffled(seed)) });
    suite_on(true, |seed| Choice { copies: 1, ..Choice::new(SimConfig { depth: 1, ..shuffled(seed) }) });
}

#[test]
fn durable_writes_and_zeroes_without_trust_in_the_controller() {
    let options = NvmeOptions { depth: 32, force_unit_access: false, ..NvmeOptions::default() };
    suite_on(false, |seed| Choice { options, ..Choice::new(shuffled(seed)) });
    let choice = Choice { options, ..Choice::new(shuffled(5)) };
    let media = choice.media.clone();
    let (region, pool) = buffers();
    let mut rig = choice.open(&region, |loopback, _| loopback).unwrap();
    let write = |durable| Operation::Write { block: 3, frame: frame_of(&pool, 512), durable };
    assert_eq!(one(&mut rig, write(false)).result, Ok(()));
    assert_eq!(media.volatile_blocks(), 1);
    assert_eq!(one(&mut rig, write(true)).result, Ok(()));
    assert_eq!(media.volatile_blocks(), 0, "a flush follows");
}

#[test]
fn what_is_written_lies_within_the_namespace() {
    let choice = Choice::new(shuffled(1));
    let media = choice.media.clone();
    let (region, pool) = buffers();
    let mut rig = choice.open(&region, |loopback, _| loopback).unwrap();
    let geometry = rig.geometry();
    assert_eq!((geometry.blocks, geometry.block_bytes, geometry.transfer_bytes_max), (BLOCKS, 512, 16_384));
    assert!(geometry.volatile_cache && geometry.forced_unit_access);
    for block in [0, BLOCKS - 1] {
        let mut frame = frame_of(&pool, 512);
        frame.bytes_mut().fill(0x55);
        assert_eq!(one(&mut rig, Operation::Write { block, frame, durable: true }).result, Ok(()));
    }
    let expected: Vec<u64> = vec![FIRST_BLOCK, FIRST_BLOCK + BLOCKS - 1];
    let bytes = media.bytes();
    let written = (0..media.blocks()).filter(|block| bytes[*block as usize * 512] != 0);
    assert_eq!(written.collect::<Vec<_>>(), expected);
    drop(rig);
    assert_eq!(pool.in_use_count(), 0);
}

#[test]
fn a_shutdown_flushes() {
    let choice = Choice::new(shuffled(1));
    let media = choice.media.clone();
    let (region, pool) = buffers();
    let mut rig = choice.open(&region, |loopback, _| loopback).unwrap();
    let operation = Operation::Write { block: 0, frame: frame_of(&pool, 16_384), durable: false };
    assert_eq!(one(&mut rig, operation).result, Ok(()));
    assert_eq!(media.volatile_blocks(), 32);
    drop(rig);
    assert_eq!(media.volatile_blocks(), 0);
}

#[test]
fn zeroes_are_written_for_as_long_as_one_likes() {
    let media = Media::new(200_000 + 2 * FIRST_BLOCK, 512);
    let (region, _) = buffers();
    let mut rig = Choice { media, ..Choice::new(shuffled(3)) }.open(&region, |loopback, _| loopback).unwrap();
    let before = rig.controller.borrow().counters().commands;
    assert_eq!(one(&mut rig, Operation::WriteZeroes { block: 0, blocks: 200_000 }).result, Ok(()));
    assert_eq!(rig.controller.borrow().counters().commands - before, 4, "65,536 blocks at most in each");
    assert_eq!(
        one(&mut rig, Operation::WriteZeroes { block: 1, blocks: 200_000 }).result,
        Err(StorageError::OutOfRange)
    );
}

#[test]
fn errors_of_the_medium_and_foreign_buffers() {
    let choice = Choice::new(shuffled(1));
    choice.media.fail_reads(FIRST_BLOCK + 9);
    let (region, pool) = buffers();
    let mut rig = choice.open(&region, |loopback, _| loopback).unwrap();
    assert_eq!(read(&mut rig, &pool, 8, 1_024).unwrap_err(), StorageError::Medium);
    assert_eq!(read(&mut rig, &pool, 10, 1_024).map(|frame| frame.len()), Ok(1_024));
    let foreign = Region::new(1, 4_096).unwrap().pool(1).unwrap();
    assert_eq!(read(&mut rig, &foreign, 0, 512).unwrap_err(), StorageError::Foreign);
    assert_eq!((foreign.in_use_count(), pool.in_use_count()), (0, 0));
}

#[test]
fn what_is_under_way_at_the_end_comes_back() {
    let (region, pool) = buffers();
    let mut rig = Choice::new(shuffled(1)).open(&region, |loopback, _| loopback.without_turns()).unwrap();
    for token in 0..20 {
        let operation = Operation::Read { block: token, frame: frame_of(&pool, 1_024) };
        rig.submit(Request { token, operation }).unwrap();
        if token % 5 == 0 {
            rig.ring();
            rig.controller.borrow_mut().turn(3);
        }
    }
    assert_eq!(pool.in_use_count(), 20);
    let controller = std::rc::Rc::clone(&rig.controller);
    drop(rig);
    assert_eq!((pool.in_use_count(), controller.borrow().under_way()), (0, 0));
}
