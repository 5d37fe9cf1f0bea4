//! Descriptors as weapons: what an application can do with those that it has.

use super::stage::{Fate, Stage, attacks};
use crate::disk_core::rig::is_closed;
use qanat_disk::disk_core::Closing;
use rustix::fs::{FallocateFlags, SealFlags};
use std::time::Duration;

#[test]
fn the_memory_stays_what_it_is() {
    attacks(
        Fate::Served,
        &[
            ("the memory is truncated", |stage| {
                assert!(rustix::fs::ftruncate(&stage.attacker.file, 0).is_err());
                assert!(rustix::fs::ftruncate(&stage.attacker.file, 4_096).is_err());
            }),
            ("the memory grows", |stage| {
                assert!(rustix::fs::ftruncate(&stage.attacker.file, stage.attacker.length + 4_096).is_err());
            }),
            ("its seals are added to", |stage| {
                for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE, SealFlags::SHRINK] {
                    assert!(rustix::fs::fcntl_add_seals(&stage.attacker.file, seal).is_err());
                }
            }),
            ("holes are made in its frames", |stage| {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let frames = stage.attacker.frames_at;
                rustix::fs::fallocate(&stage.attacker.file, flags, frames, 16_384).unwrap();
                stage.house.turns(3);
            }),
            ("its descriptor is closed", |stage| {
                stage.attacker.file = std::fs::File::open("/dev/null").unwrap().into();
                stage.house.turns(3);
            }),
        ],
    );
}

#[test]
fn holes_where_queues_were_are_queues_of_zeroes() {
    let row = "holes are made in its queues";
    let mut stage = Stage::new(row);
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&stage.attacker.file, flags, 0, stage.attacker.length).unwrap();
    stage.house.turns(5);
    stage.neighbour_works(row);
    // Its doorbells read as zero, which goes back: whether that can be depends on where they were.
    stage.house.turns(5);
    stage.neighbour_works(row);
}

#[test]
fn who_goes_is_gone_with_all_it_had() {
    for with_commands in [false, true] {
        let row = "it closes its doorbell";
        let mut stage = Stage::new(row);
        if with_commands {
            let command = stage.attacker.read();
            (0..20).for_each(|_| _ = stage.attacker.queue(1, command));
            stage.attacker.ring(1);
            stage.house.turn();
        }
        stage.attacker.doorbell = std::fs::File::open("/dev/null").unwrap().into();
        stage.house.clock.advance(Duration::from_secs(1));
        stage.house.turns(5);
        let closed = stage.house.closed().unwrap();
        assert_eq!((closed.tenant, closed.why), (2, Closing::Left));
        assert!(is_closed(&stage.attacker.lease), "{row}");
        stage.neighbour_works(row);
    }
}

#[test]
fn a_packet_without_bytes_is_an_end() {
    let row = "an empty packet on its doorbell";
    let mut stage = Stage::new(row);
    rustix::net::send(&stage.attacker.doorbell, &[], rustix::net::SendFlags::DONTWAIT).unwrap();
    stage.house.clock.advance(Duration::from_secs(1));
    stage.house.turns(5);
    assert_eq!(stage.house.closed().map(|closed| closed.why), Some(Closing::Left), "{row}");
    stage.neighbour_works(row);
    let _ = Fate::CutOff;
}
