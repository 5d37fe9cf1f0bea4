//! Blind attacks and abuse: RFC 5961, 5927, 7323, 2018 §8, 1337.

use super::*;
use crate::tcp::tests::testing::env;
use qanat_wire::tcp::Flags;
use qanat_wire::tcp_options::SackBlock;

fn established(seed: u64) -> Pair {
    pair(Faults::none(), seed).handshake()
}

#[test]
fn only_an_exact_reset_resets() {
    let mut pair = established(1);
    let mut reset = pair.next_for(1, Flags::RST, b"");
    reset.header.sequence += 1;
    let out = pair.inject(1, &reset);
    assert_eq!(out.len(), 1, "RFC 5961 §3.2: a challenge ACK");
    assert_eq!(out[0].header.flags, Flags::ACK);
    let mut outside = reset.clone();
    outside.header.sequence = outside.header.sequence - 10;
    assert!(pair.inject(1, &outside).is_empty());
    reset.header.sequence = reset.header.sequence - 1;
    assert!(pair.inject(1, &reset).is_empty());
    assert_eq!(pair.hosts[1].closed, Some(CloseReason::ResetByPeer));
}

#[test]
fn a_syn_is_challenged() {
    let mut pair = established(2);
    for offset in [0u32, 100, 0x8000_0000] {
        let mut syn = pair.next_for(1, Flags::SYN, b"");
        syn.header.sequence += offset;
        let out = pair.inject(1, &syn);
        assert_eq!((out.len(), out[0].header.flags), (1, Flags::ACK), "RFC 5961 §4.2, offset {offset}");
    }
    assert_eq!(pair.hosts[1].state(), State::Established);
}

#[test]
fn challenges_are_rationed() {
    // Each connection has a ration of its own: 3 at once, then 2 a second.
    let mut pair = established(3);
    let mut answers = 0;
    for _ in 0..1_000 {
        let syn = pair.next_for(1, Flags::SYN, b"");
        answers += pair.inject(1, &syn).len();
        pair.now += Duration::from_millis(1);
    }
    assert_eq!(answers, 4);
    assert_eq!(pair.hosts[1].counters.challenge_acks_suppressed, 996);
}

#[test]
fn acknowledgements_outside_the_window_are_challenged() {
    let mut pair = established(4);
    let mut unsent = pair.next_for(1, Flags::ACK, b"evil");
    unsent.header.acknowledgment += 1;
    assert_eq!(pair.inject(1, &unsent).len(), 1);
    let mut old = pair.next_for(1, Flags::ACK, b"evil");
    old.header.acknowledgment = old.header.acknowledgment - 0x1000_0000;
    assert_eq!(pair.inject(1, &old).len(), 1, "RFC 5961 §5.2");
    assert!(pair.hosts[1].received.is_empty(), "their data is not taken");
    assert_eq!(pair.hosts[1].counters.acknowledgements_too_old, 1);
}

#[test]
fn paws_rejects_old_timestamps() {
    let mut pair = established(5);
    let mut old = pair.next_for(1, Flags::ACK, b"old duplicate");
    old.header.options.timestamps.as_mut().unwrap().value -= 1;
    let out = pair.inject(1, &old);
    assert_eq!(out.len(), 1, "RFC 7323 §5.3: acknowledged and dropped");
    assert!(pair.hosts[1].received.is_empty());
    // §5.5: after 24 days TS.Recent no longer counts.
    pair.now += Duration::from_secs(25 * 24 * 3_600);
    pair.inject(1, &old);
    assert_eq!(pair.hosts[1].received, b"old duplicate");
    let mut missing = pair.next_for(1, Flags::ACK, b"x");
    missing.header.options.timestamps = None;
    assert!(pair.inject(1, &missing).is_empty());
    assert_eq!(pair.hosts[1].counters.timestamp_missing, 1);
}

#[test]
fn lies_in_sack_blocks_change_nothing() {
    let mut pair = established(6);
    pair.hosts[0].to_send.push_back(Bytes::from(vec![7; 10_000]));
    pair.turn(0);
    let una = pair.connection(0).send_unacknowledged();
    let next = pair.connection(0).send_next();
    for (start, end) in [(next, next + 1_000), (una + 100, una + 100), (una + 200, una), (una + 1_448, next + 1)] {
        let mut lie = pair.next_for(0, Flags::ACK, b"");
        lie.header.acknowledgment = una;
        lie.header.options.sack_blocks.push(SackBlock { start, end });
        pair.inject(0, &lie);
        assert_eq!(pair.connection(0).info().sacked, 0);
    }
    // Abuse of the option space: four blocks in every ACK, in every order, keep the scoreboard bounded.
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let mut noise = pair.next_for(0, Flags::ACK, b"");
        noise.header.acknowledgment = una;
        for _ in 0..3 {
            let start = una + random.below(12_000) as u32;
            noise.header.options.sack_blocks.push(SackBlock { start, end: start + random.below(9_000) as u32 });
        }
        pair.inject(0, &noise);
    }
    assert!(pair.connection(0).heap_bytes() < 2_000);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.hosts[1].received.len(), 10_000);
}

#[test]
fn reneging_is_survived() {
    // RFC 2018 §8: "the data receiver is permitted to discard data … that has been previously reported".
    let mut pair = established(7);
    pair.hosts[0].to_send.push_back(Bytes::from(vec![7; 8 * 1_448]));
    pair.drop = Some(Box::new(|from, _| from == 0));
    pair.turn(0);
    let una = pair.connection(0).send_unacknowledged();
    let mut sack = pair.next_for(0, Flags::ACK, b"");
    sack.header.acknowledgment = una;
    sack.header.options.sack_blocks.push(SackBlock { start: una, end: una + 4 * 1_448 });
    sack.header.options.sack_blocks.push(SackBlock { start: una + 4 * 1_448, end: una + 8 * 1_448 });
    pair.inject(0, &sack);
    pair.drop = None;
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.hosts[1].received.len(), 8 * 1_448);
}

#[test]
fn icmp_counts_only_for_what_is_in_flight() {
    let mut pair = established(8);
    pair.hosts[0].to_send.push_back(Bytes::from(vec![7; 10_000]));
    pair.turn(0);
    let una = pair.connection(0).send_unacknowledged();
    let next = pair.connection(0).send_next();
    let now = pair.now;
    let host = &mut pair.hosts[0];
    let connection = host.connection.as_mut().unwrap();
    for sequence in [una - 1, next, next + 5_000] {
        connection.on_path_mtu(600, sequence, &mut env!(host, now));
        assert_eq!(connection.info().maximum_segment, 1_448);
    }
    assert_eq!(host.counters.icmp_ignored, 3);
    connection.on_path_mtu(1_000, una, &mut env!(host, now));
    assert_eq!(connection.info().maximum_segment, 988);
    connection.on_path_mtu(20, una, &mut env!(host, now));
    assert_eq!(connection.info().maximum_segment, 524, "never below the base size");
    let _ = connection.on_unreachable(una, CloseReason::Refused, true, &mut env!(host, now));
    assert_eq!(connection.state(), State::Established, "RFC 5927 §6.2: a soft error when synchronized");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.hosts[1].received.len(), 10_000);
}

#[test]
fn a_tiny_segment_size_is_not_believed() {
    let mut a = host();
    a.maximum_segment = 1;
    let mut pair = Pair::new(a, host(), Faults::none(), 9).handshake();
    assert!(pair.connection(1).info().maximum_segment >= 32);
    pair.hosts[1].to_send.push_back(Bytes::from(vec![1; 5_000]));
    pair.turn(1);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.hosts[0].received.len(), 5_000);
}

#[test]
fn out_of_order_memory_is_bounded() {
    let config = TcpConfig { receive_frames_max: 32, ..TcpConfig::default() };
    let mut pair = Pair::new(host(), Host::new(config, 1_460), Faults::none(), 10).handshake();
    for index in 0..200u32 {
        let mut hole = pair.next_for(1, Flags::ACK, b"x");
        hole.header.sequence += 2 + index * 2;
        pair.inject(1, &hole);
    }
    assert_eq!(pair.hosts[1].pool.in_use_count(), 32);
    assert_eq!(pair.hosts[1].counters.receive_frames_full, 168);
}

/// Without SACK everything behind a gap is sent again: what of it was refused because bytes farther away were held would be missing
/// again, and each of these gaps would cost a time-out.
#[test]
fn without_sack_nearer_bytes_take_the_place_of_farther_ones() {
    for sack in [false, true] {
        let config = TcpConfig { receive_frames_max: 8, sack, ..TcpConfig::default() };
        let mut pair = Pair::new(host(), Host::new(config, 1_460), Faults::none(), 10).handshake();
        let bytes = pattern(0, 56);
        let send = |pair: &mut Pair, place: usize| {
            let mut segment = pair.next_for(1, Flags::ACK, &bytes[2 * place..][..2]);
            segment.header.sequence += 2 * place as u32;
            pair.inject(1, &segment);
        };
        (20..28).for_each(|far| send(&mut pair, far));
        (1..8).for_each(|near| send(&mut pair, near));
        // What is there already, or farther than all that is held, drives nothing out.
        [3, 27].into_iter().for_each(|held| send(&mut pair, held));
        assert_eq!(pair.hosts[1].pool.in_use_count(), 8);
        send(&mut pair, 0);
        let (received, counters) = (pair.hosts[1].received.len(), pair.hosts[1].counters);
        if sack {
            // The peer has been told that the far ones are here, and won't send them again.
            assert_eq!((received, counters.reassembly_pruned, counters.receive_frames_full), (2, 0, 9));
        } else {
            assert_eq!((received, counters.reassembly_pruned, counters.receive_frames_full), (16, 7, 2));
            assert_eq!(pair.hosts[1].received, bytes[..16]);
        }
    }
}

#[test]
fn any_segment_is_survived() {
    // Random flags, numbers near the edges, options: no panic, bounded answers, the connection stays sane or is reset.
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut pair = established(seed);
        pair.hosts[1].to_send.push_back(Bytes::from(vec![3; 20_000]));
        pair.turn(1);
        for _ in 0..200 {
            if pair.hosts[1].connection.is_none() {
                break;
            }
            let mut packet = pair.next_for(1, Flags(random.next() as u8), &vec![9; random.below(1_500) as usize]);
            if random.chance(900_000) {
                packet.header.flags = packet.header.flags.without(Flags::RST);
            }
            let offset = [0, 1, 0u32.wrapping_sub(1), 1_000, 300_000, random.next() as u32][random.below(6) as usize];
            packet.header.sequence += offset;
            let offset = [0, 1, 0u32.wrapping_sub(1), 1_448, random.next() as u32][random.below(5) as usize];
            packet.header.acknowledgment += 0u32.wrapping_sub(random.below(20_000) as u32).wrapping_add(offset);
            packet.header.window = random.next() as u16;
            if random.chance(300_000) {
                for _ in 0..random.below(4) {
                    let start = packet.header.acknowledgment + random.below(30_000) as u32;
                    let end = start + random.below(30_000) as u32;
                    packet.header.options.sack_blocks.push(SackBlock { start, end });
                }
            }
            if random.chance(100_000) {
                packet.header.options.timestamps = None;
            }
            let out = pair.inject(1, &packet);
            assert!(out.len() < 64);
            pair.now += Duration::from_micros(random.below(100_000));
            let mut out = Vec::new();
            pair.hosts[1].timers(pair.now, &mut out);
            pair.hosts[1].turn(pair.now, &mut out);
        }
        pair.hosts[1].held.clear();
        pair.hosts[1].connection = None;
        assert_eq!(pair.hosts[1].pool.in_use_count(), 0, "seed {seed}");
    }
}
