//! Received data nobody takes: what it may hold of a device's frames, by numbers.

use bytes::Bytes;
use qanat_nic::{Clock, ManualClock, MemoryPlan, PairConfig, Vnic, pair};
use qanat_stack::{Chunk, Config, ConnectOptions, ConnectionId, Event, ListenOptions, Stack};
use std::net::SocketAddr;
use std::time::Duration;

const READERS: usize = 90;

struct Host {
    stack: Stack,
    vnic: qanat_nic::Pair,
}

fn hosts(clock: &ManualClock) -> [Host; 2] {
    let (a, b) = pair(PairConfig::default()).unwrap();
    let mut seed = 0;
    [(a, "10.0.0.1"), (b, "10.0.0.2")].map(|(port, address)| {
        seed += 1;
        let plan = MemoryPlan { receive_frames: 1_024, ..MemoryPlan::default() };
        let vnic = port.open(plan).unwrap();
        let mut config = Config::new(address.parse().unwrap(), 24);
        (config.connections_max, config.timers_max) = (512, 16);
        Host { stack: Stack::new(config, [seed; 32], &vnic, clock.now()), vnic }
    })
}

/// Ninety connections send a megabyte each to a service that reads nothing; one more is still served.
#[test]
fn readers_that_do_not_read() {
    let clock = ManualClock::new();
    let [mut client, mut server] = hosts(&clock);
    let target: SocketAddr = "10.0.0.2:80".parse().unwrap();
    server.stack.listen(target, ListenOptions::default()).unwrap();
    for _ in 0..READERS {
        client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    }
    let mut unread: Vec<(ConnectionId, Chunk)> = Vec::new();
    let mut prompt: Option<ConnectionId> = None;
    let (mut prompt_bytes, mut connected, mut accepted, mut peak) = (0, 0, 0, 0);
    let megabyte = Bytes::from(vec![1; 1 << 20]);
    for turn in 0..60_000 {
        clock.advance(Duration::from_micros(100));
        if turn == 30_000 {
            client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
        }
        client.stack.receive(clock.now(), &mut client.vnic);
        while let Some(event) = client.stack.next_event() {
            if let Event::Connected { connection } = event {
                connected += 1;
                client.stack.send(clock.now(), connection, megabyte.clone()).unwrap();
            }
        }
        client.stack.transmit(clock.now(), &mut client.vnic);
        server.stack.receive(clock.now(), &mut server.vnic);
        while let Some(event) = server.stack.next_event() {
            match event {
                Event::Accepted { connection, .. } => {
                    accepted += 1;
                    if accepted > READERS {
                        prompt = Some(connection);
                    }
                }
                Event::Data { connection, chunk } if prompt == Some(connection) => {
                    prompt_bytes += chunk.len();
                    server.stack.consume(clock.now(), connection, chunk);
                }
                Event::Data { connection, chunk } => unread.push((connection, chunk)),
                _ => {}
            }
        }
        server.stack.transmit(clock.now(), &mut server.vnic);
        peak = peak.max(server.vnic.receive_pool().in_use_count());
        if prompt_bytes == 1 << 20 {
            break;
        }
    }
    let memory = server.stack.receive_memory();
    println!(
        "{connected} connections; {} frames held of a budget of {} of {} in all, at most {peak}; {} promised",
        memory.frames_held(),
        memory.frames_max(),
        server.vnic.receive_frame_count(),
        memory.frames_reserved(),
    );
    assert_eq!(memory.frames_max(), 768, "three quarters of the device's");
    assert_eq!(memory.frames_held() as usize, unread.len());
    assert!(memory.frames_held_peak() <= 768 && peak <= 768 + 128, "{peak}");
    assert_eq!(memory.frames_reserved(), 0, "no window grows for data nobody takes");
    assert_eq!(prompt_bytes, 1 << 20, "the prompt reader starves");
    // Once they read, everything goes on and the budget is whole again.
    let mut received = unread.iter().map(|(_, chunk)| chunk.len()).sum::<usize>();
    for (connection, chunk) in unread.drain(..) {
        server.stack.consume(clock.now(), connection, chunk);
    }
    for _ in 0..400_000 {
        clock.advance(Duration::from_micros(100));
        for host in [&mut client, &mut server] {
            host.stack.receive(clock.now(), &mut host.vnic);
        }
        while client.stack.next_event().is_some() {}
        while let Some(event) = server.stack.next_event() {
            if let Event::Data { connection, chunk } = event {
                received += chunk.len();
                server.stack.consume(clock.now(), connection, chunk);
            }
        }
        client.stack.transmit(clock.now(), &mut client.vnic);
        server.stack.transmit(clock.now(), &mut server.vnic);
        if received == READERS << 20 {
            break;
        }
    }
    assert_eq!(received, READERS << 20);
    assert_eq!(server.stack.receive_memory().frames_held(), 0);
    println!("windows grew {} times", server.stack.tcp_counters().receive_windows_grown);
}
