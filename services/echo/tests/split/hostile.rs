//! Services that lie. Each attack is made on one card of a net core, while a neighbour's echo on the other goes on; the
//! attacker may be cut off, the net core never falls, and the card is good for the next service afterwards.

use crate::attacker::{Attacker, ask, card_is_good, dial, scene, wish};
use crate::support::{Client, Core, server};
use qanat::Commands;
use qanat_abi::message::{RELEASES_MAX, Range, Window};
use qanat_abi::{Command, Id, SharedMemory};
use serde_json::json;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

// Attack: fields and memory: commands to a net core that cannot be honest
#[test]
fn commands_that_cannot_be_honest_cut_their_sender_off() {
    let (core, mut peer, mut neighbour) = scene();
    let nobody = SocketAddr::from(([10, 9, 0, 1], 9));
    let connection = Id { slot: 0, generation: 0 };
    let transmit_bytes = u32::try_from((4_096 * 2_048) + (256 * 65_536)).unwrap();
    let range = |offset, length| Command::Send { connection, range: Range { offset, length }, consumed: None };
    let nothing = Range { offset: 0, length: 0 };
    let lies = [
        // Frames it does not hold: given back twice, forged, consumed, sent on.
        Command::Release { count: 1, frames: [0; RELEASES_MAX] },
        Command::Release { count: 6, frames: [u32::MAX; RELEASES_MAX] },
        Command::Consume { connection, frame: 0 },
        Command::Consume { connection, frame: 1 << 31 },
        Command::Send { connection, range: nothing, consumed: Some(0) },
        Command::Send { connection, range: nothing, consumed: Some(u32::MAX) },
        Command::SendChunkTo { socket: 0, peer: nobody, window: Window { frame: 0, start: 0, length: 64 } },
        // Small buffers, which are numbered after the frames.
        Command::Release { count: 1, frames: [1_024; RELEASES_MAX] },
        Command::Consume { connection, frame: 1_024 + 8_191 },
        Command::Consume { connection, frame: 1_024 + 8_192 },
        Command::SendChunkTo { socket: 0, peer: nobody, window: Window { frame: 1_025, start: 0, length: 1 } },
        // Memory it does not have.
        range(transmit_bytes, 1),
        range(u32::MAX, u32::MAX),
        range(4_096 * 2_048 - 1, 2),
        Command::SendTo { socket: 0, peer: nobody, offset: transmit_bytes - 1, length: 2 },
    ];
    for (number, lie) in (1u64..).zip(lies) {
        let mut attacker = Attacker::new(&core.path, 0);
        // The control: what an honest service may say, of things that are gone or never were, is no offence.
        for gone in [Command::Close { connection }, range(0, 64), range(transmit_bytes - 64, 64)] {
            assert!(attacker.say(gone));
        }
        attacker.say(lie);
        attacker.wait_until_cut_off();
        assert_eq!(core.status().cut_off, number, "{lie:?}");
        neighbour.is_well();
    }
    card_is_good(&core, &mut peer);
    neighbour.end();
}

// Attack: fields and memory: anything at all in the command ring
#[test]
fn anything_in_the_ring_harms_nobody_else() {
    let (core, mut peer, mut neighbour) = scene();
    let mut random = qanat_nic::Random::new(7);
    let edges = [0, 1, 63, 64, 2_047, 2_048, 4_095, 65_535, u64::MAX, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 63];
    for _ in 0..60 {
        let mut attacker = Attacker::new(&core.path, 0);
        for _ in 0..3_000 {
            let mut words = [0; 4].map(|_| match random.next() % 3 {
                0 => random.next(),
                1 => edges[(random.next() % edges.len() as u64) as usize],
                _ => random.next() % 8,
            });
            words[0] = (words[0] & !0xFF) | (random.next() % 22);
            if !random.next().is_multiple_of(4) {
                // A flag that is one.
                words[0] &= !0xFE00;
            }
            if !attacker.say_words(words) {
                break;
            }
        }
        neighbour.is_well();
    }
    card_is_good(&core, &mut peer);
    neighbour.end();
}

// Attack: fields and memory: positions of the rings moved back and far ahead
#[test]
fn positions_and_laps_moved_back_and_far_ahead_harm_nobody_else() {
    let (core, mut peer, mut neighbour) = scene();
    // Of both rings: the consumer's position, whether it sleeps, and the first words of messages, which have the lap.
    let ring = |number: usize| 4_096 + number * 135_168;
    for at in [0, 128, 512, 512 + 32, 512 + 4_095 * 32].into_iter().flat_map(|at| [ring(0) + at, ring(1) + at]) {
        for value in [1u32, 4_096, 4_097, 1 << 15, 1 << 31, u32::MAX, u32::MAX - 4_095] {
            let mut attacker = Attacker::new(&core.path, 0);
            let control = std::fs::File::from(attacker.files[0].try_clone().unwrap());
            std::os::unix::fs::FileExt::write_at(&control, &value.to_le_bytes(), at as u64).unwrap();
            attacker.ring();
            for request in 0..8 {
                attacker.say(Command::BindUdp { request, local: SocketAddr::new(server(0), 1_000 + request as u16) });
            }
            neighbour.is_well();
        }
    }
    card_is_good(&core, &mut peer);
    neighbour.end();
}

// Attack: time and cost: frames of a net core hoarded
#[test]
fn hoarded_frames_are_the_hoarders_own() {
    let (core, mut peer, mut neighbour) = scene();
    let mut attacker = Attacker::new(&core.path, 0);
    // It takes datagrams and gives none back.
    attacker.say(Command::BindUdp { request: 1, local: SocketAddr::new(server(0), 7) });
    let mut client = Client::new(0, 0);
    peer.with_context(|context| qanat::Service::start(&mut client, context)).unwrap();
    let frames = attacker.attached["receive_frames"].as_u64().unwrap();
    let service = |core: &Core| core.status().cards[0].service.clone().unwrap_or_default();
    while service(&core).datagrams_without_credit == 0 {
        for _ in 0..64 {
            client.send_datagram(&mut peer, b"hoard me");
        }
        peer.turn(&mut client);
        attacker.ring();
        // It hears of all, or its ring would be what ends it.
        while attacker.hear().is_some() {}
    }
    let held = service(&core);
    assert_eq!(u64::from(held.credits_used), frames / 2, "half of them, and not one more");
    // And small buffers, of which there are as many as were given.
    assert_eq!(u64::from(held.copies_used), attacker.attached["copies"].as_u64().unwrap());
    neighbour.is_well();
    peer.with_context(|context| context.close_udp(client.socket())).unwrap();
    drop(attacker);
    card_is_good(&core, &mut peer);
    neighbour.end();
}

// Attack: descriptors: the memory files of a net core written, cut short or widened
#[test]
fn what_is_handed_over_cannot_be_written_cut_short_or_widened() {
    let (core, mut peer, mut neighbour) = scene();
    let attacker = Attacker::new(&core.path, 0);
    let [control, received, small, large, copies] = attacker.files.as_slice() else { panic!("five files") };
    // The control: its own transmit memory it may write.
    let write = |file: &OwnedFd| {
        let file = std::fs::File::from(file.try_clone().unwrap());
        std::os::unix::fs::FileExt::write_at(&file, b"x", 0).is_ok()
    };
    assert!(write(small) && write(large) && write(control));
    assert!(!write(received) && !write(copies), "received frames, and copies of them, are read-only");
    for file in [control, received, small, large, copies] {
        let file = std::fs::File::from(file.try_clone().unwrap());
        let length = file.metadata().unwrap().len();
        assert!(file.set_len(0).is_err() && file.set_len(length * 2).is_err(), "sealed in size");
    }
    // As large as the frames to receive into, and no larger: what is sent has its headers elsewhere.
    let frames =
        attacker.attached["receive_frames"].as_u64().unwrap() * attacker.attached["frame_size"].as_u64().unwrap();
    assert_eq!(std::fs::File::from(received.try_clone().unwrap()).metadata().unwrap().len(), frames);
    assert!(SharedMemory::map(received.as_fd(), frames as usize, qanat_abi::Access::ReadWrite).is_err());
    neighbour.is_well();
    drop(attacker);
    card_is_good(&core, &mut peer);
    neighbour.end();
}

// Attack: fields and memory: a first message to a net core that is no wish
#[test]
fn words_that_are_no_wish_and_silence_are_borne() {
    let (core, mut peer, mut neighbour) = scene();
    let other_layout = json!({ "Attach": {
        "version": qanat_abi::VERSION, "layout": "0", "name": "", "address": null, "connections": 1 } });
    let no_card = json!({ "Attach": {
        "version": qanat_abi::VERSION, "layout": format!("{:016x}", qanat_abi::LAYOUT_HASH), "name": "x",
        "address": "10.9.9.9", "connections": 1 } });
    for wrong in [other_layout, no_card, json!({ "Attach": {} }), json!("nonsense"), wish(1)] {
        let (reply, files) = ask(&dial(&core.path), &wrong);
        assert!(reply.get("Refused").is_some() && files.is_empty(), "{wrong}: {reply}");
    }
    // Many who say nothing do not keep others out.
    let silent: Vec<OwnedFd> = (0..40)
        .map(|_| {
            let socket = dial(&core.path);
            // Room in the queue of those not yet accepted.
            core.status();
            socket
        })
        .collect();
    neighbour.is_well();
    card_is_good(&core, &mut peer);
    drop(silent);
    neighbour.end();
}
