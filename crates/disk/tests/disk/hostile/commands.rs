//! Each field of a command at its edges.

use super::stage::{Fate, Stage, attacks, refused};
use qanat_disk::area::AreaLimits;
use qanat_disk::nvme::spec::{Command, Status};

/// Blocks of the area.
const BLOCKS: u64 = 512;

#[test]
fn namespaces_blocks_opcodes_and_flags() {
    refused(&[
        ("namespace 0", |of| of.read().with_double_word(1, 0), Status::INVALID_NAMESPACE),
        (
            "namespace 2, which is the neighbour's number",
            |of| of.read().with_double_word(1, 2),
            Status::INVALID_NAMESPACE,
        ),
        ("all namespaces", |of| of.write().with_double_word(1, u32::MAX), Status::INVALID_NAMESPACE),
        (
            "the block behind the last",
            |of| Command::read(1, BLOCKS, 1).with_prps(of.frames_at, 0),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "two from the last on",
            |of| Command::write(1, BLOCKS - 1, 2, true).with_prps(of.frames_at, 0),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "a sum that wraps",
            |of| Command::write(1, u64::MAX, 2, true).with_prps(of.frames_at, 0),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "a byte's place that wraps",
            |of| Command::write(1, 1 << 55, 1, true).with_prps(of.frames_at, 0),
            Status::LBA_OUT_OF_RANGE,
        ),
        ("65,536 blocks", |of| Command::read(1, 0, 65_536).with_prps(of.frames_at, 0), Status::LBA_OUT_OF_RANGE),
        ("more than one transfer", |of| Command::read(1, 0, 257).with_prps(of.frames_at, LISTS), Status::INVALID_FIELD),
        ("zeroes beyond the end", |_| Command::write_zeroes(1, 1, 512), Status::LBA_OUT_OF_RANGE),
        ("65,536 blocks of zeroes", |_| Command::write_zeroes(1, 0, 65_536), Status::LBA_OUT_OF_RANGE),
        ("a flush of all namespaces", |_| Command::flush(u32::MAX), Status::INVALID_NAMESPACE),
        ("an opcode that is none", |of| of.read().with_double_word(0, 0xff), Status::INVALID_OPCODE),
        ("an opcode of the vendor's", |of| of.read().with_double_word(0, 0x80), Status::INVALID_OPCODE),
        ("Dataset Management", |of| of.read().with_double_word(0, 9), Status::INVALID_OPCODE),
        ("Write Uncorrectable", |of| of.write().with_double_word(0, 4), Status::INVALID_OPCODE),
        ("a reservation", |of| of.write().with_double_word(0, 0x0d), Status::INVALID_OPCODE),
        ("a fused command", |of| of.read().with_double_word(0, 0x102), Status::INVALID_FIELD),
        ("a list of segments", |of| of.read().with_double_word(0, 0x4002), Status::INVALID_FIELD),
    ]);
}

use super::attacker::LISTS;

#[test]
fn identifiers_and_entries() {
    attacks(
        Fate::Served,
        &[
            ("one identifier for many at once", |stage| {
                let attacker = &mut stage.attacker;
                let command = attacker.read();
                (0..20).for_each(|_| attacker.queue_as(1, command, 7));
                attacker.ring(1);
                // Its neighbour does not flood, so these go to the disk one after the other.
                stage.house.turns(100);
                // Each ends; that they are told apart is the driver's affair.
                let attacker = &mut stage.attacker;
                let ended: Vec<_> = std::iter::from_fn(|| attacker.next(1)).collect();
                assert!(ended.len() == 20 && ended.iter().all(|end| end.identifier == 7 && end.status.is_success()));
            }),
            ("the identifier that means any", |stage| {
                let attacker = &mut stage.attacker;
                let command = attacker.read();
                attacker.queue_as(1, command, 0xffff);
                attacker.ring(1);
                stage.house.turns(3);
                assert_eq!(stage.attacker.next(1).unwrap().identifier, 0xffff);
            }),
            ("an entry that is changed after it was rung", |stage| {
                let attacker = &mut stage.attacker;
                let (entry, command) = (attacker.tail(1), attacker.read());
                attacker.queue(1, command);
                attacker.ring(1);
                // Each turn another: whichever was read once is what is judged and done.
                for round in 0..50_u64 {
                    attacker.put(entry, Command::write(1, 500 + round, 8, true).with_prps(round, u64::MAX));
                    stage.house.turn();
                }
                assert!(stage.attacker.next(1).is_some() && stage.attacker.next(1).is_none(), "it ends once");
            }),
            ("data that change while they are written", |stage| {
                let attacker = &mut stage.attacker;
                let command = attacker.write();
                (0..10).for_each(|_| _ = attacker.queue(1, command));
                attacker.ring(1);
                for byte in 0..20 {
                    stage.attacker.set_bytes(stage.attacker.frames_at, &[byte; 512]);
                    stage.house.turn();
                }
                while stage.attacker.next(1).is_some() {}
            }),
            ("all reserved fields full", |stage| {
                let mut command = stage.attacker.read();
                [2, 3, 4, 5, 13, 14, 15].into_iter().for_each(|index| command.set_double_word(index, u32::MAX));
                assert!(stage.attacker.io(command).is_success());
            }),
            ("writes within one frame from many commands", |stage| {
                let attacker = &mut stage.attacker;
                for block in 0..30 {
                    let place = attacker.frames_at + 512 * (block % 8);
                    attacker.queue(1, Command::write(1, block, 1, false).with_prps(place, 0));
                }
                attacker.ring(1);
                stage.house.turns(40);
                let attacker = &mut stage.attacker;
                let ended: Vec<_> = std::iter::from_fn(|| attacker.next(1)).collect();
                assert!(ended.len() == 30 && ended.iter().all(|end| end.status.is_success()), "{ended:?}");
            }),
        ],
    );
}

#[test]
fn floods() {
    for (row, limits) in [
        ("a flood without limits", AreaLimits::default()),
        ("a flood at a limit", AreaLimits { requests_per_second: 100, bytes_per_second: 0 }),
        ("a flood of large ones at a limit", AreaLimits { requests_per_second: 0, bytes_per_second: 1_000_000 }),
    ] {
        let mut stage = Stage::limited(row, limits);
        for _ in 0..40 {
            let attacker = &mut stage.attacker;
            while attacker.next(1).is_some() {}
            // As large as one may be: 16 KiB in one frame.
            let command = Command::read(1, 0, 32).with_prps(attacker.frames_at, 0);
            let command = command.with_prps(attacker.frames_at, LISTS);
            let pages: Vec<u64> = (1..4).map(|page| attacker.frames_at + 4_096 * page).collect();
            attacker.store(LISTS, &pages);
            (0..31).for_each(|_| _ = attacker.queue(1, command));
            attacker.ring(1);
            stage.neighbour_works(row);
            if stage.house.closed().is_some() {
                // It rang beyond what it may: a flood without taking ends is no driver's either.
                break;
            }
        }
        stage.neighbour_works(row);
    }
    attacks(
        Fate::Served,
        &[
            ("zeroes without end", |stage| {
                for _ in 0..20 {
                    let attacker = &mut stage.attacker;
                    while attacker.next(1).is_some() {}
                    if attacker.posted(1) == 0 {
                        attacker.queue(1, Command::write_zeroes(1, 0, 512));
                        attacker.ring(1);
                    }
                    stage.neighbour_works("zeroes without end");
                }
                stage.house.turns(10);
                while stage.attacker.next(1).is_some() {}
            }),
            ("flushes without end", |stage| {
                for _ in 0..20 {
                    let attacker = &mut stage.attacker;
                    (0..10).for_each(|_| _ = attacker.queue(1, Command::flush(1)));
                    attacker.ring(1);
                    stage.neighbour_works("flushes without end");
                    while stage.attacker.next(1).is_some() {}
                }
            }),
        ],
    );
}
