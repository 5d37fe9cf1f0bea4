//! PRPs and lists of them that point where they must not.

use super::attacker::{COMPLETIONS, LISTS, SUBMISSIONS};
use super::stage::{Fate, attacks, refused};
use qanat_disk::nvme::spec::{Command, Status};

const OUTSIDE: Status = Status::DATA_TRANSFER_ERROR;
const OFFSET: Status = Status::INVALID_PRP_OFFSET;

#[test]
fn pointers_that_cannot_be() {
    refused(&[
        ("the page of registers", |of| of.read().with_prps(0, 0), OUTSIDE),
        ("the last bytes of the page of registers", |of| of.read().with_prps(0xe00, 0), OUTSIDE),
        ("behind the end of the memory", |of| of.read().with_prps(of.length, 0), OUTSIDE),
        ("over the end of the memory", |of| Command::read(1, 0, 9).with_prps(of.length - 4_096, of.length), OUTSIDE),
        ("the end of all addresses", |of| of.read().with_prps(u64::MAX - 3, 0), OUTSIDE),
        ("an address of the core's own", |of| of.write().with_prps(0x7fff_ffff_f000, 0), OUTSIDE),
        ("a pointer that is no multiple of 4", |of| of.read().with_prps(of.frames_at + 2, 0), OFFSET),
        (
            "a second page that begins in its middle",
            |of| Command::read(1, 0, 9).with_prps(of.frames_at, of.frames_at + 512),
            OFFSET,
        ),
        ("a list in the middle of an entry", |of| Command::read(1, 0, 32).with_prps(of.frames_at, LISTS + 4), OFFSET),
        ("a list on the page of registers", |of| Command::read(1, 0, 32).with_prps(of.frames_at, 0x40), OUTSIDE),
        ("a list outside", |of| Command::read(1, 0, 32).with_prps(of.frames_at, 1 << 40), OUTSIDE),
        ("a list that runs over the end", |of| Command::read(1, 0, 32).with_prps(of.frames_at, of.length - 8), OUTSIDE),
        (
            "an entry outside",
            |of| {
                of.store(LISTS, &[of.frames_at, of.frames_at, 1 << 41]);
                Command::read(1, 0, 32).with_prps(of.frames_at, LISTS)
            },
            OUTSIDE,
        ),
        (
            "an entry in the middle of a page",
            |of| {
                of.store(LISTS, &[of.frames_at, of.frames_at + 512, of.frames_at]);
                Command::write(1, 0, 32, false).with_prps(of.frames_at, LISTS)
            },
            OFFSET,
        ),
        (
            "a list that goes on to itself",
            |of| {
                of.store(LISTS + 4_088, &[LISTS]);
                Command::read(1, 0, 32).with_prps(of.frames_at, LISTS + 4_088)
            },
            OFFSET,
        ),
        (
            "a list that goes on in a circle of two",
            |of| {
                of.store(LISTS + 4_088, &[LISTS + 4_096]);
                of.store(LISTS + 8_184, &[LISTS]);
                Command::read(1, 0, 256).with_prps(of.frames_at, LISTS + 4_088)
            },
            OUTSIDE,
        ),
        (
            "a list that goes on outside",
            |of| {
                of.store(LISTS + 4_088, &[of.length]);
                Command::read(1, 0, 32).with_prps(of.frames_at, LISTS + 4_088)
            },
            OUTSIDE,
        ),
    ]);
}

#[test]
fn pointers_into_its_own_queues_hurt_itself_alone() {
    attacks(
        Fate::Served,
        &[
            ("one page for all the data of a read", |stage| {
                let of = &mut stage.attacker;
                let page = of.frames_at;
                of.store(LISTS, &[page; 31]);
                assert!(of.io(Command::read(1, 0, 256).with_prps(page, LISTS)).is_success());
            }),
            ("a list that is overwritten by its own read", |stage| {
                let of = &mut stage.attacker;
                of.store(LISTS, &[LISTS; 31]);
                assert!(of.io(Command::read(1, 0, 256).with_prps(of.frames_at, LISTS)).is_success());
            }),
            ("data from its own queues", |stage| {
                let of = &mut stage.attacker;
                assert!(of.io(Command::write(1, 0, 1, false).with_prps(SUBMISSIONS, 0)).is_success());
                assert!(of.io(Command::write(1, 0, 1, true).with_prps(COMPLETIONS, 0)).is_success());
            }),
            ("a list that changes at each turn", |stage| {
                for round in 0..100_u64 {
                    let of = &mut stage.attacker;
                    of.store(LISTS, &[of.frames_at, of.frames_at + 4_096, of.frames_at]);
                    of.queue(1, Command::read(1, 0, 32).with_prps(of.frames_at, LISTS));
                    of.ring(1);
                    of.store(LISTS, &[of.frames_at + round * 8, u64::MAX, round << 50]);
                    stage.house.turns(3);
                    while stage.attacker.next(1).is_some() {}
                }
            }),
            ("frames across their borders, which are copied", |stage| {
                let of = &mut stage.attacker;
                // Two frames of 16 KiB touch here.
                let place = of.frames_at + 16_384 - 4_096;
                of.set_bytes(place, &[0x31; 8_192]);
                assert!(of.io(Command::write(1, 16, 16, false).with_prps(place, place + 4_096)).is_success());
                of.set_bytes(place, &[0; 8_192]);
                assert!(of.io(Command::read(1, 16, 16).with_prps(place, place + 4_096)).is_success());
                assert_eq!(of.bytes(place, 8_192), [0x31; 8_192]);
            }),
        ],
    );
}
