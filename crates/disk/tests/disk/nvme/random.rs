//! A driver that writes anything anywhere: the controller does not panic, ends what it began, and is as good as new after a reset.

use crate::nvme::rig::{Choice, buffers};
use qanat_disk::SimConfig;
use qanat_disk::controller::GuestMemory;
use qanat_disk::nvme::spec::{Configuration, ControllerStatus, register};
use qanat_disk_suite::BLOCKS;
use qanat_nic::Random;

/// Numbers at edges, small ones, addresses of registered memory, and any.
fn number(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => [1, BLOCKS - 1, BLOCKS, 0xffff, 0xffff_ffff, u64::MAX, u64::MAX - 4_095][random.below(7) as usize],
        2 | 3 => random.below(40),
        4..7 => crate::nvme::rig::BUFFERS_AT + 8 * random.below(1 << 17) / [1, 512][random.below(2) as usize] * 512,
        _ => random.next(),
    }
}

#[test]
fn anything_in_queues_and_doorbells_is_survived() {
    let mut begun = 0;
    for seed in 0..300 {
        let (region, _pool) = buffers();
        let sim = SimConfig { depth: 32, seed: Some(seed), ..SimConfig::default() };
        let mut choice = Choice::new(sim);
        // Doorbells are heard, until a reset.
        choice.options.shadow_doorbells = false;
        let rig = choice.open(&region, |loopback, _| loopback).unwrap();
        let mut random = Random::new(seed);
        for _ in 0..400 {
            let mut controller = rig.controller.borrow_mut();
            // Any word of the first two queue pairs, of Identify data and of lists; often an opcode that does something.
            for _ in 0..8 {
                let place = crate::nvme::rig::QUEUES_AT + 8 * random.below(2_048);
                let value = number(&mut random);
                let value = if place.is_multiple_of(64) { random.below(16) | value << 32 } else { value };
                controller.memory().store(place, value);
            }
            let doorbell = 0x1000 + 4 * random.below(6) as u32;
            let bound = if random.chance(2_000) { 1 << 20 } else { 33 };
            controller.write32(doorbell, random.below(bound) as u32);
            controller.turn(8);
            assert!(controller.under_way() <= 32);
            if ControllerStatus::from_bits(controller.read32(register::CSTS)).is_failed() {
                controller.write32(register::CC, Configuration::DISABLED.bits());
                (0..1_000).for_each(|_| {
                    controller.turn(8);
                });
                assert_eq!((controller.under_way(), controller.read32(register::CSTS)), (0, 0), "seed {seed}");
                assert_eq!(rig.copies.in_use_count(), 0, "seed {seed}");
                controller.write32(register::CC, Configuration::ENABLED.bits());
                assert_eq!(controller.read32(register::CSTS), 1, "seed {seed}: as good as new");
            }
        }
        let mut controller = rig.controller.borrow_mut();
        controller.write32(register::CC, Configuration::DISABLED.bits());
        (0..1_000).for_each(|_| {
            controller.turn(8);
        });
        assert_eq!((controller.under_way(), rig.copies.in_use_count()), (0, 0), "seed {seed}: all is back");
        begun += controller.counters().commands - controller.counters().refused;
    }
    assert!(begun > 10_000, "{begun} commands were some that can be");
}
