//! Segments that come in one batch, and how many ACKs they get (RFC 5681 §4.2).

use super::pair;
use crate::tcp::tests::testing::*;
use bytes::Bytes;
use qanat_wire::tcp::{Flags, SequenceNumber};

const FULL: usize = 1_448;

/// A connection beyond quick-ACK, whose host 1 knows how long a full segment is.
fn settled() -> Pair {
    let mut pair = pair(Faults::none(), 1).handshake();
    for _ in 0..20 {
        let packet = pair.next_for(1, Flags::ACK, &[1; FULL]);
        pair.inject(1, &packet);
    }
    let packet = pair.next_for(1, Flags::ACK, &[1; FULL]);
    pair.inject(1, &packet);
    pair
}

/// Full segments by their number from RCV.NXT on.
fn batch(pair: &Pair, numbers: &[u32]) -> Vec<Packet> {
    let first = pair.next_for(1, Flags::ACK, &[2; FULL]);
    let at = |number: &u32| {
        let mut packet = first.clone();
        packet.header.sequence += number * FULL as u32;
        packet
    };
    numbers.iter().map(at).collect()
}

/// Gives host 1 all packets before its service gets its turn; what it sends, before and after the service.
fn arrive(pair: &mut Pair, packets: &[Packet]) -> (Vec<Packet>, Vec<Packet>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for packet in packets {
        pair.hosts[1].input(packet, pair.now, &mut before);
    }
    let now = pair.now;
    pair.hosts[1].turn(now, &mut after);
    (before, after)
}

fn numbers(packets: &[Packet], start: SequenceNumber) -> Vec<u32> {
    packets.iter().map(|packet| packet.header.acknowledgment.distance_from(start) / FULL as u32).collect()
}

#[test]
fn every_second_full_segment_of_a_batch() {
    let mut pair = settled();
    let packets = batch(&pair, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let start = packets[0].header.sequence;
    pair.connection(1).acks.forget_unacknowledged();
    let (before, after) = arrive(&mut pair, &packets);
    assert_eq!((numbers(&before, start), numbers(&after, start)), (vec![2, 4, 6], vec![8]));
}

#[test]
fn every_segment_out_of_order_and_every_one_that_fills_a_gap() {
    let mut pair = settled();
    let packets = batch(&pair, &[1, 3, 4, 6, 8, 0, 2]);
    let start = packets[0].header.sequence - FULL as u32;
    let (before, after) = arrive(&mut pair, &packets);
    assert_eq!((numbers(&before, start), numbers(&after, start)), (vec![0, 0, 0, 0, 0, 2], vec![5]));
    // Each tells first of the block its segment is in, also of those that one ACK would have had no room for.
    let told: Vec<(u32, u32)> = before[..5]
        .iter()
        .map(|ack| ack.header.options.sack_blocks.as_slice()[0])
        .map(|block| (block.start.distance_from(start) / FULL as u32, block.end.distance_from(start) / FULL as u32))
        .collect();
    assert_eq!(told, [(1, 2), (3, 4), (3, 5), (6, 7), (8, 9)]);
}

#[test]
fn a_run_beyond_a_gap() {
    let mut pair = settled();
    let packets = batch(&pair, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]);
    let start = packets[0].header.sequence - FULL as u32;
    let (before, after) = arrive(&mut pair, &packets);
    // One each until a sender retransmits; then one for two; where another run begins, one that tells of both.
    assert_eq!((numbers(&before, start), numbers(&after, start)), (vec![0; 6], vec![0]));
    let told = |ack: &Packet| ack.header.options.sack_blocks.as_slice()[0].end.distance_from(start) / FULL as u32;
    assert_eq!(before.iter().map(told).collect::<Vec<u32>>(), [2, 3, 4, 6, 8, 11]);
    assert_eq!(told(&after[0]), 13);
    // The stream goes on and stops again: they are counted anew.
    let packets = batch(&pair, &[0, 14, 15, 16]);
    let (before, after) = arrive(&mut pair, &packets);
    assert_eq!((numbers(&before, start), numbers(&after, start)), (vec![9; 3], vec![9]));
}

#[test]
fn each_of_the_first() {
    let mut pair = pair(Faults::none(), 1).handshake();
    let packet = pair.next_for(1, Flags::ACK, &[1; FULL]);
    pair.inject(1, &packet);
    let packets = batch(&pair, &[0, 1, 2, 3]);
    let start = packets[0].header.sequence;
    let (before, after) = arrive(&mut pair, &packets);
    assert_eq!((numbers(&before, start), numbers(&after, start)), (vec![1, 2, 3], vec![4]));
}

#[test]
fn a_request_is_acknowledged_by_its_answer() {
    let mut pair = settled();
    pair.connection(1).acks.forget_unacknowledged();
    // Two full segments and a rest.
    let mut packets = batch(&pair, &[0, 1]);
    pair.hosts[1].to_send.push_back(Bytes::from_static(b"answer"));
    let (before, after) = arrive(&mut pair, &packets);
    assert!(before.is_empty(), "{before:?}");
    assert_eq!((after.len(), &after[0].payload[..]), (1, &b"answer"[..]));
    // Small ones, however many.
    packets = (0..5)
        .map(|index| {
            let mut packet = pair.next_for(1, Flags::ACK, &[3; 10]);
            packet.header.sequence += index * 10;
            packet
        })
        .collect();
    pair.hosts[1].to_send.push_back(Bytes::from_static(b"answers"));
    let (before, after) = arrive(&mut pair, &packets);
    assert!(before.is_empty(), "{before:?}");
    assert_eq!((after.len(), &after[0].payload[..]), (1, &b"answers"[..]));
}

#[test]
fn one_for_more_where_much_is_in_flight() {
    let mut pair = settled();
    let packets = batch(&pair, &(0..24).collect::<Vec<u32>>());
    let start = packets[0].header.sequence;
    pair.connection(1).set_segments_per_ack(128 * FULL as u32);
    pair.connection(1).acks.forget_unacknowledged();
    let (before, after) = arrive(&mut pair, &packets);
    assert_eq!((numbers(&before, start), numbers(&after, start)), (vec![8, 16], vec![24]));
    // Never more than 64 KiB, never fewer than two.
    pair.connection(1).set_segments_per_ack(u32::MAX);
    assert_eq!(pair.connection(1).acks.per_ack(), 45);
    pair.connection(1).set_segments_per_ack(0);
    assert_eq!(pair.connection(1).acks.per_ack(), 2);
}

#[test]
fn without_room_they_are_merged() {
    let mut pair = settled();
    pair.connection(1).acks.forget_unacknowledged();
    let packets = batch(&pair, &[0, 1, 2, 3]);
    let start = packets[0].header.sequence;
    pair.hosts[1].room = 0;
    let (before, after) = arrive(&mut pair, &packets);
    assert!(before.is_empty() && after.is_empty());
    pair.hosts[1].room = usize::MAX;
    let (_, after) = arrive(&mut pair, &[]);
    assert_eq!(numbers(&after, start), [4]);
}
