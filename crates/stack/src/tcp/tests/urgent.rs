//! Urgent data.

use super::*;
use qanat_wire::tcp::Flags;

fn telling() -> Host {
    let mut host = host();
    host.config.urgent_data = true;
    host
}

#[test]
fn the_urgent_byte_is_found_whatever_the_network_does() {
    for seed in 0..32 {
        let mut pair =
            Pair::new(host(), telling(), Faults { loss: 100, reorder: 100, ..Faults::none() }, seed).handshake();
        let mut expected = Vec::new();
        for round in 1..20 {
            let (bytes, config) = (Bytes::from(vec![round as u8; round * 97]), pair.hosts[0].config.clone());
            pair.connection(0).send(bytes, &config).unwrap();
            pair.connection(0).mark_urgent();
            pair.turn(0);
            let sent: usize = (1..=round).map(|round| round * 97).sum();
            expected.push(sent - 1);
            pair.run_for(Duration::from_millis(seed * 7));
        }
        pair.run_for(Duration::from_secs(60));
        let found = &pair.hosts[1].urgent;
        assert_eq!(found.last(), expected.last(), "{seed}: the last one is told in any case");
        assert!(found.is_sorted() && found.iter().all(|at| expected.contains(at)), "{seed}: {found:?} of {expected:?}");
        assert!(!pair.connection(0).is.urgent || !pair.connection(0).owes_urgent());
    }
}

#[test]
fn a_pointer_counts_once_and_only_ahead() {
    let mut pair = Pair::new(host(), telling(), Faults::none(), 1).handshake();
    let urgent = |pair: &mut Pair, pointer: u16, bytes: &[u8]| {
        let mut segment = pair.next_for(1, Flags::ACK | Flags::URG, bytes);
        segment.header.urgent = pointer;
        pair.inject(1, &segment);
        pair.hosts[1].urgent.clone()
    };
    assert_eq!(urgent(&mut pair, 3, b"abcd"), [2], "in the segment");
    assert_eq!(urgent(&mut pair, 10, b"efgh"), [2, 13], "beyond it");
    assert_eq!(urgent(&mut pair, 6, b"ijkl"), [2, 13], "again");
    assert_eq!(urgent(&mut pair, 1, b"mnop"), [2, 13], "an earlier one");
    assert_eq!(urgent(&mut pair, 0, b"q"), [2, 13, 16], "none, as Linux takes it: the first byte");
    assert_eq!(pair.hosts[1].counters.urgent_received, 3);
}

#[test]
fn who_does_not_ask_is_told_nothing() {
    let mut pair = pair(Faults::none(), 1).handshake();
    let mut segment = pair.next_for(1, Flags::ACK | Flags::URG, b"abc");
    segment.header.urgent = 1;
    pair.inject(1, &segment);
    assert!(pair.hosts[1].urgent.is_empty());
    assert_eq!((pair.hosts[1].counters.urgent_ignored, pair.hosts[1].received.len()), (1, 3));
}
