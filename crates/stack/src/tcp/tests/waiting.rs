//! Timers: delayed ACKs, Nagle, silly windows, persist, keepalive, user time-out, retransmission limits, path MTU.

use super::*;
use crate::tcp::tests::testing::env;
use qanat_wire::tcp::Flags;

#[test]
fn acks_are_delayed_after_the_start() {
    let mut pair = pair(Faults::none(), 1).handshake();
    for _ in 0..16 {
        let data = pair.next_for(1, Flags::ACK | Flags::PSH, b"x");
        assert_eq!(pair.inject(1, &data).len(), 1, "quick ACKs at the start");
    }
    let data = pair.next_for(1, Flags::ACK | Flags::PSH, b"x");
    assert!(pair.inject(1, &data).is_empty());
    let deadline = pair.hosts[1].deadline().unwrap();
    assert_eq!(deadline.since(pair.now), Duration::from_millis(40));
    pair.now = deadline;
    let mut out = Vec::new();
    pair.hosts[1].timers(deadline, &mut out);
    pair.hosts[1].turn(deadline, &mut out);
    assert_eq!(out.len(), 1);
    // Every second full segment at once.
    let full = vec![1; 1_448];
    let data = pair.next_for(1, Flags::ACK, &full);
    assert!(pair.inject(1, &data).is_empty());
    let data = pair.next_for(1, Flags::ACK, &full);
    assert_eq!(pair.inject(1, &data).len(), 1);
}

#[test]
fn an_answer_carries_the_ack() {
    let mut pair = pair(Faults::none(), 2).handshake();
    let request = pair.next_for(1, Flags::ACK | Flags::PSH, b"GET");
    pair.hosts[1].to_send.push_back(Bytes::from_static(b"200 OK"));
    let out = pair.inject(1, &request);
    assert_eq!(out.len(), 1, "one segment");
    assert_eq!(out[0].payload, b"200 OK");
    assert_eq!(out[0].header.acknowledgment, request.header.sequence + 3);
    assert!(out[0].header.flags.contains(Flags::PSH));
}

#[test]
fn the_fin_rides_on_the_last_data() {
    let mut pair = pair(Faults::none(), 3).handshake();
    pair.log = Some(Vec::new());
    pair.hosts[1].to_send.push_back(Bytes::from(vec![5; 2_000]));
    pair.hosts[1].close_when_sent = true;
    pair.turn(1);
    let sent = pair.sent_data(1);
    assert_eq!(sent.len(), 2);
    assert!(sent[1].header.flags.contains(Flags::FIN | Flags::PSH) && !sent[0].header.flags.contains(Flags::PSH));
}

#[test]
fn nagle_lets_the_end_of_what_is_longer_than_a_segment_go() {
    let config = TcpConfig { no_delay: false, ..TcpConfig::default() };
    let mut pair = Pair::new(Host::new(config, 1_460), host(), Faults::none(), 4).handshake();
    pair.log = Some(Vec::new());
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 2_000]));
    pair.turn(0);
    assert_eq!(pair.sent_data(0).len(), 2, "as Linux: no small one is in flight");
    pair.hosts[0].to_send.push_back(Bytes::from(vec![2; 2_000]));
    pair.turn(0);
    assert_eq!(pair.sent_data(0).len(), 3, "now one is");
}

#[test]
fn nagle_waits_for_the_ack_and_cork_for_a_full_segment() {
    let config = TcpConfig { no_delay: false, ..TcpConfig::default() };
    let mut pair = Pair::new(Host::new(config, 1_460), host(), Faults::none(), 4).handshake();
    pair.log = Some(Vec::new());
    for _ in 0..5 {
        pair.hosts[0].to_send.push_back(Bytes::from_static(b"abc"));
        pair.turn(0);
    }
    assert_eq!(pair.sent_data(0).len(), 1, "RFC 9293 §3.7.4");
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.sent_data(0).len(), 2);
    assert_eq!(pair.hosts[1].received.len(), 15);
    pair.connection(0).set_no_delay(true);
    pair.connection(0).set_cork(true);
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 2_000]));
    pair.turn(0);
    pair.run_for(Duration::from_millis(150));
    assert_eq!(pair.hosts[1].received.len(), 15 + 1_448);
    pair.connection(0).set_cork(false);
    pair.turn(0);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.hosts[1].received.len(), 2_015);
    pair.connection(0).set_cork(true);
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 100]));
    pair.turn(0);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.hosts[1].received.len(), 2_115, "not for longer than a time-out");
}

#[test]
fn what_more_is_to_follow_is_held_until_it_does() {
    let mut pair = pair(Faults::none(), 4).handshake();
    pair.log = Some(Vec::new());
    let config = pair.hosts[0].config.clone();
    let send = |pair: &mut Pair, length: usize, more: bool| {
        pair.connection(0).set_more(more);
        pair.connection(0).send(Bytes::from(vec![1; length]), &config).unwrap();
        pair.turn(0);
        pair.run_for(Duration::from_millis(25));
    };
    send(&mut pair, 100, true);
    send(&mut pair, 100, true);
    assert_eq!(pair.hosts[1].received.len(), 0);
    send(&mut pair, 100, false);
    assert_eq!(pair.hosts[1].received.len(), 300, "the rest has come");
    send(&mut pair, 2_000, true);
    assert_eq!(pair.hosts[1].received.len(), 300 + 1_448, "what fills a segment goes");
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[1].received.len(), 2_300, "and the rest when that is acknowledged");
    send(&mut pair, 100, true);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[1].received.len(), 2_300);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.hosts[1].received.len(), 2_400, "not for longer than a time-out");
    let pushed: Vec<bool> = pair.sent_data(0).iter().map(|packet| packet.header.flags.contains(Flags::PSH)).collect();
    assert_eq!(pushed, [true, false, false, true]);
}

#[test]
fn a_zero_window_is_probed_until_it_opens() {
    let config = TcpConfig { receive_window: 10_000, ..TcpConfig::default() };
    let mut receiver = Host::new(config, 1_460);
    receiver.eager = false;
    let mut pair = Pair::new(host(), receiver, Faults::none(), 5).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 50_000)));
    pair.turn(0);
    pair.run_for(Duration::from_secs(600));
    let got = pair.hosts[1].received.len();
    assert!((9_000..=10_100).contains(&got), "{got}");
    assert_eq!(pair.connection(0).info().send_window, 0);
    let probes = pair.hosts[0].counters.zero_window_probes_sent;
    assert!((5..30).contains(&probes), "backed off: {probes}");
    assert!(pair.hosts[0].closed.is_none(), "RFC 9293 §3.8.6.1: kept open as long as probes are answered");
    // One byte of room is not worth a segment (silly windows); half the buffer is.
    let now = pair.now;
    pair.hosts[1].consume_one(now);
    pair.turn(1);
    let before = pair.now;
    pair.hosts[1].eager = true;
    pair.turn(1);
    pair.run_until(Duration::from_secs(60), |pair| pair.hosts[1].received.len() == 50_000);
    assert!(pair.now.since(before) < Duration::from_secs(1), "the window update woke the sender");
    assert_eq!(pair.hosts[1].received, pattern(1, 50_000));
}

#[test]
fn a_lost_window_update_is_found_by_probing() {
    let config = TcpConfig { receive_window: 5_000, ..TcpConfig::default() };
    let mut receiver = Host::new(config, 1_460);
    receiver.eager = false;
    let mut pair = Pair::new(host(), receiver, Faults::none(), 6).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 20_000)));
    pair.turn(0);
    pair.run_for(Duration::from_secs(2));
    pair.drop = Some(Box::new(|from, _| from == 1));
    pair.hosts[1].eager = true;
    pair.turn(1);
    pair.drop = None;
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.hosts[1].received.len() == 20_000));
    assert!(pair.hosts[0].counters.zero_window_probes_sent >= 1);
}

#[test]
fn keepalive_finds_a_dead_peer_and_spares_a_live_one() {
    let config = TcpConfig { keepalive: Some(Duration::from_secs(60)), ..TcpConfig::default() };
    let mut pair = Pair::new(Host::new(config, 1_460), host(), Faults::none(), 7).handshake();
    pair.run_for(Duration::from_secs(1_000));
    assert!(pair.hosts[0].closed.is_none());
    let probes = pair.hosts[0].counters.keepalive_probes_sent;
    assert!((5..=17).contains(&probes), "{probes}");
    pair.drop = Some(Box::new(|_, _| true));
    pair.run_for(Duration::from_secs(60 + 75 * 10));
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::TimedOut));
    assert_eq!(pair.hosts[0].counters.keepalive_timeouts, 1);
}

#[test]
fn retransmission_backs_off_and_gives_up() {
    let config = TcpConfig { retransmissions_max: 5, ..TcpConfig::default() };
    let mut pair = Pair::new(Host::new(config, 1_460), host(), Faults::none(), 8).handshake();
    pair.log = Some(Vec::new());
    pair.drop = Some(Box::new(|_, _| true));
    pair.hosts[0].to_send.push_back(Bytes::from_static(b"lost"));
    pair.turn(0);
    pair.run_for(Duration::from_secs(100));
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::TimedOut));
    let log = pair.log.as_ref().unwrap();
    let times: Vec<u64> = log.iter().filter(|(from, _, _)| *from == 0).map(|(_, at, _)| at.as_millis()).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The RTO is SRTT + 200 ms = 220 ms; a tail loss probe takes the first one's place (2 · SRTT + 200 ms is later).
    assert_eq!(gaps, [220, 220, 440, 880, 1_760, 3_520]);
    pair.check_conservation();
}

#[test]
fn user_timeout_ends_it_earlier() {
    let config = TcpConfig { user_timeout: Some(Duration::from_secs(3)), ..TcpConfig::default() };
    let mut pair = Pair::new(Host::new(config, 1_460), host(), Faults::none(), 9).handshake();
    pair.drop = Some(Box::new(|_, _| true));
    pair.hosts[0].to_send.push_back(Bytes::from_static(b"lost"));
    pair.turn(0);
    let start = pair.now;
    pair.run_until(Duration::from_secs(100), |pair| pair.hosts[0].closed.is_some());
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::TimedOut));
    assert!(pair.now.since(start) < Duration::from_secs(8), "RFC 5482");
    assert_eq!(pair.hosts[0].counters.user_timeouts, 1);
}

#[test]
fn a_black_hole_is_found_and_avoided() {
    let faults = Faults { segment_max: 1_000, ..Faults::none() };
    let mut pair = pair(faults, 10).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(2, 30_000)));
    pair.turn(0);
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.hosts[1].received.len() == 30_000));
    assert_eq!(pair.hosts[1].received, pattern(2, 30_000));
    assert!(pair.hosts[0].counters.black_holes_detected >= 1);
    assert!(pair.connection(0).info().maximum_segment < 1_000);
}

#[test]
fn a_smaller_path_mtu_cuts_what_is_in_flight() {
    let faults = Faults { segment_max: 1_000, ..Faults::none() };
    let mut pair = pair(faults, 11).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(2, 30_000)));
    pair.turn(0);
    let una = pair.connection(0).send_unacknowledged();
    let now = pair.now;
    let host = &mut pair.hosts[0];
    host.connection.as_mut().unwrap().on_path_mtu(900, una, &mut env!(host, now));
    pair.turn(0);
    let start = pair.now;
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.hosts[1].received.len() == 30_000));
    assert!(pair.now.since(start) < Duration::from_secs(1), "RFC 1191 §6.3: at once, not after a time-out");
    assert_eq!(pair.hosts[1].received, pattern(2, 30_000));
}

#[test]
fn an_idle_connection_restarts_slowly() {
    let mut pair = pair(Faults::none(), 12).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 400_000]));
    pair.turn(0);
    pair.run_for(Duration::from_secs(5));
    let grown = pair.connection(0).info().congestion_window;
    assert!(grown > 50_000);
    pair.run_for(Duration::from_secs(60));
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 100_000]));
    pair.turn(0);
    assert_eq!(pair.connection(0).info().congestion_window, 14_480, "RFC 5681 §4.1");
}

#[test]
fn an_idle_connection_costs_little() {
    let mut pair = pair(Faults { loss: 20, ..Faults::none() }, 13).handshake();
    for host in 0..2 {
        pair.hosts[host].to_send.push_back(Bytes::from(vec![1; 300_000]));
        pair.turn(host);
    }
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.hosts[0].received.len(), 300_000);
    for host in 0..2 {
        let memory = pair.connection(host).info().memory;
        assert!(memory < 1_800, "{memory} bytes");
    }
}
