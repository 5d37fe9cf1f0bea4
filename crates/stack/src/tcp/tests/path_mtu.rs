//! Segment sizes that come back up: RFC 4821 §7, RFC 1191 §6.3.

use super::{Bytes, Duration, Env, pair};
use crate::tcp::tests::testing::{Faults, Pair, env, pattern};

/// Feeds host 0 with data for so long.
fn feed(pair: &mut Pair, seconds: u64) {
    for _ in 0..seconds * 10 {
        pair.hosts[0].to_send.push_back(Bytes::from(vec![9; 100_000]));
        pair.turn(0);
        pair.run_for(Duration::from_millis(100));
    }
}

fn segment_size(pair: &mut Pair) -> u16 {
    pair.connection(0).info().maximum_segment
}

#[test]
fn the_search_after_a_black_hole() {
    // The path takes 1,000 bytes of TCP: 968 of payload beside 32 of header with timestamps.
    let faults = Faults { segment_max: 1_000, ..Faults::none() };
    let mut pair = pair(faults, 10).handshake();
    feed(&mut pair, 30);
    let found = segment_size(&mut pair);
    let counters = pair.hosts[0].counters;
    println!("found {found}; {} probes, {} lost", counters.path_mtu_probes_sent, counters.path_mtu_probes_lost);
    assert!((968 - 16..=968).contains(&found), "{found}");
    // At most three losses for each of the halvings of 730 bytes.
    assert!(counters.path_mtu_probes_lost <= 3 * 7, "{}", counters.path_mtu_probes_lost);
    assert_eq!(
        (counters.fast_recoveries, pair.hosts[1].received.is_empty()),
        (0, false),
        "a probe's loss is no congestion"
    );
    let timeouts = counters.timeouts;
    // Then there is peace for ten minutes...
    feed(&mut pair, 60);
    let later = pair.hosts[0].counters;
    assert_eq!((later.path_mtu_probes_sent, later.timeouts), (counters.path_mtu_probes_sent, timeouts));
    // ...after which the path, which takes everything now, is found to.
    pair.faults[0].segment_max = usize::MAX;
    pair.run_for(Duration::from_secs(600));
    feed(&mut pair, 2);
    assert_eq!(segment_size(&mut pair), 1_448);
    let sent = pair.hosts[0].counters.path_mtu_probes_sent;
    feed(&mut pair, 2);
    assert_eq!(pair.hosts[0].counters.path_mtu_probes_sent, sent, "nothing more to gain");
}

/// The segment that is sent first after the reduction may be lost by chance: that says nothing of what the path takes.
#[test]
fn a_loss_right_after_a_black_hole_does_not_end_the_search() {
    let faults = Faults { segment_max: 1_000, ..Faults::none() };
    let mut pair = pair(faults, 10).handshake();
    let mut is_lost = false;
    pair.drop = Some(Box::new(move |from, packet| {
        from == 0 && packet.payload.len() == 724 - 12 && !std::mem::replace(&mut is_lost, true)
    }));
    feed(&mut pair, 60);
    let found = segment_size(&mut pair);
    assert_eq!(pair.hosts[0].counters.black_holes_detected, 2, "smaller once more, to be safe");
    assert!((968 - 16..=968).contains(&found), "{found}");
}

#[test]
fn what_a_router_said_is_forgotten_after_ten_minutes() {
    let mut pair = pair(Faults::none(), 11).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(2, 3_000)));
    pair.turn(0);
    let una = pair.connection(0).send_unacknowledged();
    let now = pair.now;
    let host = &mut pair.hosts[0];
    host.connection.as_mut().unwrap().on_path_mtu(900, una, &mut env!(host, now));
    pair.turn(0);
    feed(&mut pair, 5);
    assert_eq!((segment_size(&mut pair), pair.hosts[0].counters.path_mtu_probes_sent), (888, 0));
    pair.run_for(Duration::from_secs(595));
    feed(&mut pair, 1);
    assert_eq!(segment_size(&mut pair), 1_448, "RFC 1191 §6.3");
}

#[test]
fn a_refused_probe_is_believed() {
    let faults = Faults { segment_max: 1_000, ..Faults::none() };
    let mut pair = pair(faults, 10).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(2, 2_000)));
    pair.turn(0);
    // Until the first probe is on its way.
    for _ in 0..3_000 {
        pair.hosts[0].to_send.push_back(Bytes::from(vec![9; 20_000]));
        pair.turn(0);
        if pair.hosts[0].counters.path_mtu_probes_sent > 0 {
            break;
        }
        pair.run_for(Duration::from_millis(10));
    }
    let before = pair.hosts[0].counters;
    assert_eq!(before.path_mtu_probes_sent, 1);
    let now = pair.now;
    let host = &mut pair.hosts[0];
    let connection = host.connection.as_mut().unwrap();
    let sequence = connection.mtu_probe_start().unwrap();
    connection.on_path_mtu(980, sequence, &mut env!(host, now));
    assert_eq!(pair.hosts[0].counters.icmp_ignored, 0);
    feed(&mut pair, 3);
    assert!(segment_size(&mut pair) >= 980 - 12 - 16, "{}", segment_size(&mut pair));
    assert_eq!(pair.hosts[0].counters.path_mtu_probes_lost, 1, "none beyond what the router said");
}

/// Random losses as well: the size neither stays low nor do probes harm the stream.
#[test]
fn probes_among_losses() {
    for seed in 0..20 {
        let faults = Faults { segment_max: 1_200, loss: 10, ..Faults::none() };
        let mut pair = pair(faults, seed).handshake();
        let data = pattern(seed, 2_000_000);
        for piece in data.chunks(50_000) {
            pair.hosts[0].to_send.push_back(Bytes::copy_from_slice(piece));
        }
        pair.turn(0);
        let done = pair.run_until(Duration::from_secs(300), |pair| pair.hosts[1].received.len() == data.len());
        assert!(done, "seed {seed}: {}", pair.describe(0));
        assert!(pair.hosts[1].received == data);
        assert!(segment_size(&mut pair) > 900, "seed {seed}: {}", segment_size(&mut pair));
    }
}
