//! 802.1Q: what carries which tag, and what becomes of other people's.

use bytes::Bytes;
use qanat_nic::{
    Clock, ManualClock, MemoryPlan, PairConfig, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic, pair,
};
use qanat_stack::{Config, ConnectOptions, Event, ListenOptions, Stack};
use std::time::Duration;

struct Host {
    stack: Stack,
    vnic: qanat_nic::Pair,
}

fn hosts(clock: &ManualClock, vlans: [Option<u16>; 2], addresses: [&str; 2], pair_config: PairConfig) -> [Host; 2] {
    let (a, b) = pair(pair_config).unwrap();
    let mut seed = 0;
    [(a, addresses[0], vlans[0]), (b, addresses[1], vlans[1])].map(|(port, address, vlan)| {
        seed += 1;
        let vnic = port.open(MemoryPlan::default()).unwrap();
        let mut config = Config::new(address.parse().unwrap(), if address.contains(':') { 64 } else { 24 });
        (config.connections_max, config.timers_max, config.vlan) = (16, 16, vlan);
        Host { stack: Stack::new(config, [seed; 32], &vnic, clock.now()), vnic }
    })
}

/// Bytes that got from the one to the other within a second.
fn transfer(clock: &ManualClock, hosts: &mut [Host; 2], target: &str) -> usize {
    let [client, server] = hosts;
    let target = target.parse().unwrap();
    server.stack.listen(target, ListenOptions::default()).unwrap();
    let connection = client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    client.stack.send(clock.now(), connection, Bytes::from(vec![3; 200_000])).unwrap();
    let mut received = 0;
    for _ in 0..10_000 {
        clock.advance(Duration::from_micros(100));
        for host in [&mut *client, &mut *server] {
            host.stack.receive(clock.now(), &mut host.vnic);
            while let Some(event) = host.stack.next_event() {
                if let Event::Data { connection, chunk } = event {
                    assert!(chunk.bytes().iter().all(|byte| *byte == 3));
                    received += chunk.len();
                    host.stack.consume(clock.now(), connection, chunk);
                }
            }
            host.stack.transmit(clock.now(), &mut host.vnic);
        }
    }
    received
}

#[test]
fn the_same_vlan() {
    let clock = ManualClock::new();
    let mut four = hosts(&clock, [Some(5); 2], ["10.0.0.1", "10.0.0.2"], PairConfig::default());
    assert_eq!(transfer(&clock, &mut four, "10.0.0.2:80"), 200_000);
    let mut six = hosts(&clock, [Some(4_094); 2], ["fd00::1", "fd00::2"], PairConfig::default());
    assert_eq!(transfer(&clock, &mut six, "[fd00::2]:80"), 200_000);
    let offload =
        PairConfig { transmit_checksum: true, receive_checksum: ReceiveChecksum::Verify, ..PairConfig::default() };
    let mut offloaded = hosts(&clock, [Some(7); 2], ["10.0.0.1", "10.0.0.2"], offload);
    assert_eq!(
        transfer(&clock, &mut offloaded, "10.0.0.2:80"),
        200_000,
        "the device finds the checksum behind the tag"
    );
}

#[test]
fn other_vlans() {
    let clock = ManualClock::new();
    for vlans in [[Some(5), Some(6)], [Some(5), None], [None, Some(5)]] {
        let mut pair = hosts(&clock, vlans, ["10.0.0.1", "10.0.0.2"], PairConfig::default());
        assert_eq!(transfer(&clock, &mut pair, "10.0.0.2:80"), 0, "{vlans:?}");
        assert!(pair[1].stack.counters().ethernet_other_vlan > 0);
    }
}

/// An ARP request for 10.0.0.2 with this in front of its type; the answer, as it came.
fn ask(vlan: Option<u16>, tag: &[u8]) -> Option<Vec<u8>> {
    let clock = ManualClock::new();
    let [mut asker, mut host] = hosts(&clock, [None, vlan], ["10.0.0.1", "10.0.0.2"], PairConfig::default());
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 9]);
    bytes.extend(tag);
    bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let mut frame = asker.vnic.transmit_pool().allocate(0).unwrap();
    frame.append(bytes.len()).unwrap().copy_from_slice(&bytes);
    asker.vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
    asker.vnic.flush();
    host.stack.receive(clock.now(), &mut host.vnic);
    host.stack.transmit(clock.now(), &mut host.vnic);
    let mut frames = Vec::new();
    asker.vnic.receive(&mut frames, 8);
    frames.first().map(|frame| frame.bytes().to_vec())
}

#[test]
fn tags() {
    let tag_of = |answer: Option<Vec<u8>>| answer.map(|bytes| bytes[12..16].to_vec());
    assert_eq!(tag_of(ask(None, &[])), Some(vec![8, 6, 0, 1]));
    // A priority tag: identifier 0. The answer is untagged.
    assert_eq!(tag_of(ask(None, &[0x81, 0, 0xe0, 0])), Some(vec![8, 6, 0, 1]));
    assert_eq!(tag_of(ask(None, &[0x81, 0, 0, 5])), None);
    // Priority and drop eligibility don't matter.
    assert_eq!(tag_of(ask(Some(5), &[0x81, 0, 0x70, 5])), Some(vec![0x81, 0, 0, 5]));
    assert_eq!(tag_of(ask(Some(5), &[0x81, 0, 0, 6])), None);
    assert_eq!(tag_of(ask(Some(5), &[0x81, 0, 0, 0])), None);
    assert_eq!(tag_of(ask(Some(5), &[])), None);
    // Two tags.
    assert_eq!(tag_of(ask(Some(5), &[0x81, 0, 0, 5, 0x81, 0, 0, 5])), None);
}
