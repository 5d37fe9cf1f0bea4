//! Doorbells that tell what can't be, and completion queues that nobody empties.

use super::attacker::ENTRIES;
use super::stage::{Fate, Stage, attacks};

#[test]
fn doorbells_that_cannot_be() {
    attacks(
        Fate::CutOff,
        &[
            ("a tail beyond the queue", |stage| stage.attacker.set_doorbell(1, false, ENTRIES)),
            ("a tail far beyond", |stage| stage.attacker.set_doorbell(1, false, u32::MAX)),
            ("a tail that goes back", |stage| {
                let attacker = &mut stage.attacker;
                let command = attacker.read();
                (0..20).for_each(|_| _ = attacker.queue(1, command));
                attacker.ring(1);
                let tail = attacker.tail(1);
                stage.house.turn();
                // Before all of them are fetched: they are more than one turn's.
                stage.attacker.set_doorbell(1, false, (tail + ENTRIES - 2) % ENTRIES);
            }),
            ("a head of a completion queue beyond it", |stage| stage.attacker.set_doorbell(1, true, ENTRIES)),
            ("a head of what was never posted", |stage| stage.attacker.set_doorbell(1, true, 9)),
            ("a head that goes back", |stage| stage.attacker.set_doorbell(1, true, 1)),
            ("a doorbell of a queue that is not there", |stage| stage.attacker.set_doorbell(3, false, 1)),
            ("a doorbell of a completion queue that is not there", |stage| stage.attacker.set_doorbell(4, true, 1)),
            ("an admin tail beyond the queue", |stage| stage.attacker.set_doorbell(0, false, ENTRIES + 1)),
            ("an admin head of what was never posted", |stage| stage.attacker.set_doorbell(0, true, 31)),
        ],
    );
}

#[test]
fn who_takes_no_completions_waits_alone() {
    let row = "completions that nobody takes";
    let mut stage = Stage::new(row);
    let before = stage.attacker.posted(1);
    for _ in 0..3 {
        let command = stage.attacker.read();
        (0..10).for_each(|_| _ = stage.attacker.queue(1, command));
        stage.attacker.ring(1);
        stage.neighbour_works(row);
    }
    // Two of the queue's entries are taken by what the control did; the doorbell's last word was room for all but one.
    stage.house.turns(50);
    assert!(stage.attacker.posted(1) > before && stage.attacker.posted(1) < ENTRIES as usize);
    while stage.attacker.next(1).is_some() {
        stage.house.turns(5);
    }
    stage.settle(row, Fate::Served);
}

#[test]
fn rings_without_end_and_a_tail_that_rings_itself() {
    attacks(
        Fate::Served,
        &[
            ("bytes on the doorbell without end", |stage| {
                let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
                for _ in 0..50 {
                    (0..100).for_each(|_| _ = rustix::net::send(&stage.attacker.doorbell, &[1; 900], flags));
                    stage.neighbour_works("bytes on the doorbell without end");
                }
            }),
            ("sleeping flags of both sides, set and cleared", |stage| {
                for round in 0..50 {
                    stage.attacker.set_register(0xc00, round % 2);
                    stage.attacker.set_register(0xc40, u32::MAX * (round % 2));
                    stage.house.turn();
                }
            }),
        ],
    );
}
