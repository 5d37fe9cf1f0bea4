//! The receive window follows what the service takes.

use super::host;
use crate::tcp::tests::testing::*;
use crate::tcp::{Connection, TcpConfig};
use bytes::Bytes;
use std::time::Duration;

/// Runs a download for some seconds of virtual time; bytes received, and the receiver's window at the end.
fn download(config: TcpConfig, delay_ms: u64, megabits: u64, seconds: u64) -> (Pair, usize) {
    let faults =
        Faults { delay: Duration::from_millis(delay_ms), rate: megabits * 125_000, queue: 4_000, ..Faults::none() };
    let mut pair = Pair::new(host(), Host::new(config, 1_460), faults, 3).handshake();
    let piece = Bytes::from(vec![7; 1 << 20]);
    for _ in 0..(megabits * seconds / 8).min(600) {
        pair.hosts[0].to_send.push_back(piece.clone());
    }
    pair.turn(0);
    pair.run_for(Duration::from_secs(seconds));
    let got = pair.hosts[1].received.len();
    (pair, got)
}

fn limit(pair: &Pair) -> u32 {
    pair.hosts[1].connection.as_ref().map_or(0, Connection::receive_window_limit)
}

#[test]
fn grows_to_the_path() {
    // 200 Mbit/s × 100 ms: 2.5 MB in flight. With 64 KiB it would be 5 Mbit/s.
    let (pair, got) = download(TcpConfig::default(), 50, 200, 4);
    let fixed = TcpConfig { receive_window: 64 * 1024, ..TcpConfig::default() };
    let (_, little) = download(fixed, 50, 200, 4);
    println!("{got} bytes with, {little} without; window {} bytes", limit(&pair));
    assert!(got > 65_000_000, "{got} bytes in 4 s of 100 MB possible");
    assert!(little < 3_000_000);
    assert!(limit(&pair) > 2_500_000 && limit(&pair) <= 6 << 20, "{}", limit(&pair));
}

#[test]
fn grows_without_timestamps() {
    let config = TcpConfig { timestamps: false, ..TcpConfig::default() };
    let (pair, got) = download(config, 50, 200, 4);
    assert!(got > 65_000_000, "{got} bytes, window {}", limit(&pair));
}

#[test]
fn stays_small_where_little_is_needed() {
    // 10 Mbit/s × 20 ms: 25 KB in flight, and the queue of the sender's making.
    let config = TcpConfig { ecn: false, ..TcpConfig::default() };
    let faults = Faults { delay: Duration::from_millis(10), rate: 1_250_000, queue: 20, ..Faults::none() };
    let mut pair = Pair::new(host(), Host::new(config, 1_460), faults, 3).handshake();
    for _ in 0..8 {
        pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 1 << 20]));
    }
    pair.turn(0);
    pair.run_for(Duration::from_secs(5));
    assert!(limit(&pair) < 512 * 1024, "{}", limit(&pair));
}

#[test]
fn a_service_that_takes_nothing_gets_no_more() {
    let mut receiver = Host::new(TcpConfig::default(), 1_460);
    receiver.eager = false;
    let mut pair = Pair::new(host(), receiver, Faults::none(), 9).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 4 << 20]));
    pair.turn(0);
    pair.run_for(Duration::from_secs(30));
    assert_eq!(limit(&pair), 64 * 1024);
    // Each ACK rounds the window up to its unit of 128 bytes, so that its edge never moves left.
    assert!(pair.hosts[1].received.len() <= 65_536 + 65_536 / (2 * 1_448) * 128, "{}", pair.hosts[1].received.len());
    let held = pair.hosts[1].held.len() as u32;
    assert_eq!(pair.hosts[1].memory.frames_held(), held);
    // What it takes in the end comes back to the budget.
    let now = pair.now;
    pair.hosts[1].consume_all(now);
    assert_eq!(pair.hosts[1].memory.frames_held(), 0);
}

#[test]
fn the_budget_is_given_back() {
    let (mut pair, _) = download(TcpConfig::default(), 50, 200, 2);
    assert!(pair.hosts[1].memory.frames_reserved() > 1_000);
    let reset = pair.next_for(1, qanat_wire::tcp::Flags::RST, &[]);
    pair.inject(1, &reset);
    assert_eq!(pair.hosts[1].memory.frames_reserved(), 0);
    assert_eq!(pair.hosts[1].memory.frames_held(), 0);
}

#[test]
fn never_promises_more_than_the_budget() {
    let mut receiver = Host::new(TcpConfig::default(), 1_460);
    receiver.memory = crate::tcp::ReceiveMemory::new(400);
    let faults = Faults { delay: Duration::from_millis(50), rate: 25_000_000, queue: 4_000, ..Faults::none() };
    let mut pair = Pair::new(host(), receiver, faults, 3).handshake();
    for _ in 0..64 {
        pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 1 << 20]));
    }
    pair.turn(0);
    let mut largest = 0;
    for _ in 0..2_000 {
        pair.run_for(Duration::from_millis(1));
        let Some(connection) = pair.hosts[1].connection.as_ref() else { break };
        largest = largest.max(connection.info().receive_window);
    }
    // Half of three quarters of the budget.
    let bound = 150 * 1_460;
    assert!(largest > 128 * 1_024 && largest <= bound, "{largest} bytes promised, {bound} possible");
    assert!(pair.hosts[1].memory.frames_held_peak() <= 400);
}
