//! Registers, admin commands, and queues that can't be.

use super::attacker::{ADMIN_COMPLETIONS, ADMIN_SUBMISSIONS, COMPLETIONS, ENABLE, ENTRIES, LISTS, SUBMISSIONS};
use super::stage::{Fate, Stage, attacks};
use qanat_disk::nvme::spec::{Command, Status, feature, opcode, register};

type Row = (&'static str, Command, Status);

#[test]
fn queues_that_cannot_be() {
    let completions = |queue, entries, place| Command::create_completion_queue(queue, entries, place, None);
    let submissions = Command::create_submission_queue;
    let rows: Vec<Row> = vec![
        ("a completion queue twice", completions(1, ENTRIES, LISTS), Status::INVALID_QUEUE_IDENTIFIER),
        ("a submission queue twice", submissions(1, ENTRIES, LISTS, 1), Status::INVALID_QUEUE_IDENTIFIER),
        ("completion queue 0", completions(0, ENTRIES, LISTS), Status::INVALID_QUEUE_IDENTIFIER),
        ("a queue beyond the last", completions(5, ENTRIES, LISTS), Status::INVALID_QUEUE_IDENTIFIER),
        ("queue 65,535", submissions(u16::MAX, ENTRIES, LISTS, 1), Status::INVALID_QUEUE_IDENTIFIER),
        ("a queue of one entry", completions(2, 1, LISTS), Status::INVALID_QUEUE_SIZE),
        ("a queue of 65,536 entries", completions(2, 65_536, LISTS), Status::INVALID_QUEUE_SIZE),
        ("a queue of one entry more than there can be", completions(2, 258, LISTS), Status::INVALID_QUEUE_SIZE),
        ("a queue that completes nowhere", submissions(2, ENTRIES, LISTS, 3), Status::COMPLETION_QUEUE_INVALID),
        (
            "a queue that completes to the admin queue",
            submissions(2, ENTRIES, LISTS, 0),
            Status::COMPLETION_QUEUE_INVALID,
        ),
        ("a queue in the middle of a page", completions(2, ENTRIES, LISTS + 64), Status::INVALID_PRP_OFFSET),
        ("a queue on the page of registers", completions(2, ENTRIES, 0), Status::DATA_TRANSFER_ERROR),
        ("a queue outside of the memory", completions(2, ENTRIES, 1 << 40), Status::DATA_TRANSFER_ERROR),
        ("a queue at the end of all addresses", submissions(2, ENTRIES, !4_095, 1), Status::DATA_TRANSFER_ERROR),
        (
            "an interrupt vector",
            Command::create_completion_queue(2, ENTRIES, LISTS, Some(1)),
            Status::INVALID_INTERRUPT_VECTOR,
        ),
        ("a queue in pieces", completions(2, ENTRIES, LISTS).with_double_word(11, 0), Status::INVALID_FIELD),
        ("a completion queue in use is deleted", Command::delete_completion_queue(1), Status::INVALID_QUEUE_DELETION),
        ("the admin queue is deleted", Command::delete_submission_queue(0), Status::INVALID_QUEUE_IDENTIFIER),
        ("a queue that is not there is deleted", Command::delete_submission_queue(4), Status::INVALID_QUEUE_IDENTIFIER),
        (
            "shadow doorbells, which are not for tenants",
            Command::doorbell_buffer_config(LISTS, LISTS + 4_096),
            Status::INVALID_OPCODE,
        ),
        ("Identify into the page of registers", Command::identify(1, 0, 0), Status::DATA_TRANSFER_ERROR),
        ("Identify into no memory", Command::identify(1, 0, 1 << 50), Status::DATA_TRANSFER_ERROR),
        ("Identify of the neighbour's namespace", Command::identify(0, 2, LISTS), Status::INVALID_NAMESPACE),
        ("Identify of what there is not", Command::identify(0xff, 0, LISTS), Status::INVALID_FIELD),
        (
            "a number of queues after some are made",
            Command::set_feature(feature::NUMBER_OF_QUEUES, 0),
            Status::SEQUENCE_ERROR,
        ),
        ("a log that there is not", Command::get_log_page(2, 512, LISTS), Status::INVALID_LOG_PAGE),
        ("more of a log than there is", Command::get_log_page(4, 4_100, LISTS), Status::INVALID_FIELD),
        ("all of a log that could be", Command::get_log_page(4, 0, LISTS), Status::INVALID_FIELD),
        (
            "a log from its middle",
            Command::get_log_page(4, 4_096, LISTS).with_double_word(12, 4),
            Status::INVALID_FIELD,
        ),
        ("a log into the page of registers", Command::get_log_page(4, 4_096, 0), Status::DATA_TRANSFER_ERROR),
        ("a log into no memory", Command::get_log_page(4, 4_096, 1 << 50), Status::DATA_TRANSFER_ERROR),
        (
            "events that there are not",
            Command::set_feature(feature::ASYNCHRONOUS_EVENT_CONFIGURATION, !0),
            Status::INVALID_FIELD,
        ),
        ("Format NVM", Command::new(0x80, 1), Status::INVALID_OPCODE),
        ("Namespace Management", Command::new(0x0d, 1), Status::INVALID_OPCODE),
        ("Firmware Commit", Command::new(0x10, 0), Status::INVALID_OPCODE),
        ("Virtualization Management", Command::new(0x1c, 0), Status::INVALID_OPCODE),
        ("a fused admin command", Command::new(opcode::IDENTIFY, 0).with_double_word(0, 0x106), Status::INVALID_FIELD),
    ];
    for (row, command, status) in rows {
        let mut stage = Stage::new(row);
        assert_eq!(stage.attacker.admin(command), status, "{row}");
        stage.settle(row, Fate::Served);
    }
}

#[test]
fn queues_deleted_in_use_and_events_without_end() {
    attacks(
        Fate::Served,
        &[
            ("a submission queue deleted with commands under way, and made again", |stage| {
                let attacker = &mut stage.attacker;
                let command = attacker.read();
                (0..20).for_each(|_| _ = attacker.queue(1, command));
                attacker.ring(1);
                assert!(attacker.admin(Command::delete_submission_queue(1)).is_success());
                assert!(attacker.admin(Command::delete_completion_queue(1)).is_success());
                stage.attacker.enable(0, (0, 0), (2, 2));
                stage.attacker.bring_up();
            }),
            ("more event requests than there can be", |stage| {
                let attacker = &mut stage.attacker;
                for _ in 0..4 {
                    attacker.queue(0, Command::new(opcode::ASYNCHRONOUS_EVENT_REQUEST, 0));
                }
                let more = attacker.admin(Command::new(opcode::ASYNCHRONOUS_EVENT_REQUEST, 0));
                assert_eq!(more, Status::EVENT_LIMIT_EXCEEDED);
            }),
            ("enabled and disabled at each turn", |stage| {
                for round in 0..200 {
                    stage.attacker.set_register(register::CC, if round % 2 == 0 { ENABLE & !1 } else { ENABLE });
                    stage.house.turn();
                }
                stage.neighbour_works("enabled and disabled at each turn");
                stage.attacker.enable(ENABLE & !1, (0, 0), (2, 2));
                stage.attacker.bring_up();
            }),
            ("shut down at each turn", |stage| {
                for round in 0..100 {
                    let shutdown = if round % 2 == 0 { 1 << 14 } else { 0 };
                    stage.attacker.set_register(register::CC, ENABLE | shutdown);
                    stage.house.turn();
                }
                stage.neighbour_works("shut down at each turn");
                stage.attacker.enable(ENABLE & !1, (0, 0), (2, 2));
                stage.attacker.bring_up();
            }),
            ("registers that are only read are written", |stage| {
                for offset in [register::CAP, register::CAP + 4, register::VS, register::CSTS, 0x7fc] {
                    stage.attacker.set_register(offset, 0x5a5a_5a5a);
                }
                stage.house.turns(5);
            }),
        ],
    );
}

#[test]
fn what_cannot_be_enabled() {
    type Admin = (u32, (u64, u64), (u32, u32));
    let places = (ADMIN_SUBMISSIONS, ADMIN_COMPLETIONS);
    let rows: [(&str, Admin); 8] = [
        ("other sizes of entries", (1, places, (ENTRIES, ENTRIES))),
        ("larger pages", (ENABLE | 1 << 7, places, (ENTRIES, ENTRIES))),
        ("an admin queue of one entry", (ENABLE, places, (1, ENTRIES))),
        ("an admin queue that is too long", (ENABLE, places, (ENTRIES, 4_096))),
        ("an admin queue outside", (ENABLE, (1 << 44, ADMIN_COMPLETIONS), (ENTRIES, ENTRIES))),
        ("an admin queue on the page of registers", (ENABLE, (ADMIN_SUBMISSIONS, 0), (ENTRIES, ENTRIES))),
        ("an admin queue over the end", (ENABLE, (ADMIN_SUBMISSIONS, !0 << 12), (ENTRIES, ENTRIES))),
        (
            "an admin queue in the middle of a page",
            (ENABLE, (ADMIN_SUBMISSIONS + 8, ADMIN_COMPLETIONS), (ENTRIES, ENTRIES)),
        ),
    ];
    for (row, (configuration, places, sizes)) in rows {
        let mut stage = Stage::new(row);
        stage.attacker.enable(0, (0, 0), (2, 2));
        stage.attacker.enable(configuration, places, sizes);
        stage.house.turns(3);
        // The bits of an address below a page are not of it, as the specification has it.
        stage.settle(row, Fate::CutOff);
    }
}

#[test]
fn queues_on_each_other() {
    attacks(
        Fate::Served,
        &[("a submission queue on its completion queue", |stage: &mut Stage| {
            let attacker = &mut stage.attacker;
            assert!(attacker.admin(Command::create_completion_queue(2, ENTRIES, LISTS, None)).is_success());
            assert!(attacker.admin(Command::create_submission_queue(2, ENTRIES, LISTS, 2)).is_success());
            // What it is answered is what it is told to do next.
            attacker.set_doorbell(2, false, ENTRIES - 1);
            stage.neighbour_works("a submission queue on its completion queue");
            stage.house.turns(20);
        })],
    );
    // The same with the first pair's entries, and with frames that reads go to.
    attacks(
        Fate::Served,
        &[("reads into the queue that they are fetched from", |stage: &mut Stage| {
            let attacker = &mut stage.attacker;
            attacker.io(Command::read(1, 8, 1).with_prps(SUBMISSIONS, 0));
            attacker.io(Command::read(1, 8, 1).with_prps(SUBMISSIONS + 512, 0));
            stage.house.turns(5);
        })],
    );
    let _ = COMPLETIONS;
}
