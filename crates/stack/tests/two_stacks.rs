//! Two stacks over the in-process pair: the whole way from command to event, with a virtual clock.

use bytes::Bytes;
use qanat_nic::{Clock, ManualClock, MemoryPlan, PairConfig, QueueShare, Time, Vnic, pair};
use qanat_stack::{CommandError, Config, ConnectOptions, ConnectionId, Event, ListenOptions, Stack};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

struct Host {
    stack: Stack,
    vnic: Box<dyn Vnic>,
}

impl Host {
    fn events(&mut self, clock: &ManualClock) -> Vec<Event> {
        self.stack.receive(clock.now(), self.vnic.as_mut());
        std::iter::from_fn(|| self.stack.next_event()).collect()
    }

    fn transmit(&mut self, clock: &ManualClock) {
        self.stack.transmit(clock.now(), self.vnic.as_mut());
    }
}

fn hosts(clock: &ManualClock, addresses: [&str; 2], config: PairConfig) -> [Host; 2] {
    let (a, b) = pair(config).unwrap();
    let mut seed = 0;
    [(a, addresses[0]), (b, addresses[1])].map(|(port, address)| {
        seed += 1;
        let address: IpAddr = address.parse().unwrap();
        let vnic = port.open(MemoryPlan::default()).unwrap();
        let mut config = Config::new(address, if address.is_ipv4() { 24 } else { 64 });
        // The other family too.
        config.addresses.push(match address {
            IpAddr::V4(_) => (format!("fd00::{seed}").parse().unwrap(), 64),
            IpAddr::V6(_) => (format!("10.0.0.{seed}").parse().unwrap(), 24),
        });
        config.connections_max = 64;
        config.timers_max = 16;
        Host { stack: Stack::new(config, [seed; 32], &vnic, clock.now()), vnic: Box::new(vnic) }
    })
}

/// Sends a request, gets an answer of `length` bytes, closes; everything must be back at the end.
fn exchange(addresses: [&str; 2], config: PairConfig, length: usize) {
    let clock = ManualClock::new();
    let [mut client, mut server] = hosts(&clock, addresses, config);
    let target = SocketAddr::new(addresses[1].parse().unwrap(), 80);
    server.stack.listen(target, ListenOptions::default()).unwrap();
    let answer: Bytes = (0..length).map(|index| (index * 7 % 251) as u8).collect::<Vec<u8>>().into();
    let connection = client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    let mut received = Vec::new();
    let mut acked = 0;
    let mut closed = [false; 2];
    let mut server_connection: Option<ConnectionId> = None;
    for _ in 0..20_000 {
        clock.advance(Duration::from_micros(20));
        for event in client.events(&clock) {
            match event {
                Event::Connected { connection } => {
                    client.stack.send(clock.now(), connection, Bytes::from_static(b"give")).unwrap();
                }
                Event::Data { connection, chunk } => {
                    received.extend_from_slice(chunk.bytes());
                    client.stack.consume(clock.now(), connection, chunk);
                }
                Event::PeerClosed { connection } => client.stack.close(clock.now(), connection).unwrap(),
                Event::Closed { .. } => closed[0] = true,
                _ => {}
            }
        }
        client.transmit(&clock);
        for event in server.events(&clock) {
            match event {
                Event::Accepted { connection, .. } => server_connection = Some(connection),
                Event::Data { connection, chunk } => {
                    assert_eq!(chunk.bytes(), b"give");
                    server.stack.consume(clock.now(), connection, chunk);
                    server.stack.send(clock.now(), connection, answer.clone()).unwrap();
                    server.stack.close(clock.now(), connection).unwrap();
                }
                Event::Acked { bytes, .. } => acked += bytes as usize,
                Event::Closed { .. } => closed[1] = true,
                _ => {}
            }
        }
        server.transmit(&clock);
        if closed == [true, true] {
            break;
        }
    }
    assert_eq!(closed, [true, true], "{:?} {:?}", client.stack.connection_info(connection), server_connection);
    assert_eq!(received, answer);
    assert_eq!(acked, length);
    clock.advance(Duration::from_secs(130));
    for host in [&mut client, &mut server] {
        host.events(&clock);
        host.transmit(&clock);
        let usage = host.stack.usage();
        assert_eq!((usage.connections, usage.half_open, usage.time_wait, usage.flows), (0, 0, 0, 0));
        host.transmit(&clock);
        assert_eq!(host.stack.usage().pending_frames, 0);
        assert_eq!(host.vnic.transmit_pool().in_use_count(), 0);
    }
}

#[test]
fn a_request_and_its_answer() {
    exchange(["10.0.0.1", "10.0.0.2"], PairConfig::default(), 1_000);
}

#[test]
fn a_megabyte() {
    exchange(["10.0.0.1", "10.0.0.2"], PairConfig::default(), 1 << 20);
}

#[test]
fn a_megabyte_over_ipv6() {
    exchange(["fd00::1", "fd00::2"], PairConfig::default(), 1 << 20);
}

/// Many connections begun before the neighbour is known all leave with its first answer, none after a retransmission.
#[test]
fn a_burst_before_the_neighbour_is_known() {
    let clock = ManualClock::new();
    let [mut client, mut server] = hosts(&clock, ["10.0.0.1", "10.0.0.2"], PairConfig::default());
    let target: SocketAddr = "10.0.0.2:80".parse().unwrap();
    server.stack.listen(target, ListenOptions::default()).unwrap();
    for _ in 0..50 {
        client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    }
    let mut connected = 0;
    for _ in 0..100 {
        clock.advance(Duration::from_micros(100));
        client.transmit(&clock);
        server.events(&clock);
        server.transmit(&clock);
        connected += client.events(&clock).iter().filter(|event| matches!(event, Event::Connected { .. })).count();
    }
    assert_eq!(connected, 50, "within 10 ms");
}

/// A listener on `[::]` takes both families, and leaves each destination to whoever asked for it more precisely.
#[test]
fn a_dual_stack_listener() {
    let clock = ManualClock::new();
    let [mut client, mut server] = hosts(&clock, ["10.0.0.1", "10.0.0.2"], PairConfig::default());
    let both = server.stack.listen("[::]:80".parse().unwrap(), ListenOptions::default()).unwrap();
    let mut connect = |server: &mut Host, target: &str| {
        client.stack.connect(clock.now(), target.parse().unwrap(), ConnectOptions::default()).unwrap();
        for _ in 0..20 {
            clock.advance(Duration::from_micros(100));
            client.transmit(&clock);
            client.events(&clock);
            for event in server.events(&clock) {
                if let Event::Accepted { listener, peer, .. } = event {
                    return Some((listener, peer.ip().to_string()));
                }
            }
            server.transmit(&clock);
        }
        None
    };
    assert_eq!(connect(&mut server, "10.0.0.2:80"), Some((both, "10.0.0.1".to_owned())));
    assert_eq!(connect(&mut server, "[fd00::2]:80"), Some((both, "fd00::1".to_owned())));
    let four = server.stack.listen("0.0.0.0:80".parse().unwrap(), ListenOptions::default()).unwrap();
    assert_eq!(connect(&mut server, "10.0.0.2:80"), Some((four, "10.0.0.1".to_owned())));
    assert_eq!(connect(&mut server, "[fd00::2]:80"), Some((both, "fd00::1".to_owned())));
    let one = server.stack.listen("10.0.0.2:80".parse().unwrap(), ListenOptions::default()).unwrap();
    assert_eq!(connect(&mut server, "10.0.0.2:80").unwrap().0, one);
    assert_eq!(connect(&mut server, "10.0.0.2:81"), None, "another port");
}

/// A listener that is held drops what begins or completes a handshake; the peer tries again, and is served when it is not.
#[test]
fn a_held_listener_is_tried_again() {
    let clock = ManualClock::new();
    let [mut client, mut server] = hosts(&clock, ["10.0.0.1", "10.0.0.2"], PairConfig::default());
    let target = "10.0.0.2:80".parse().unwrap();
    let listener = server.stack.listen(target, ListenOptions::default()).unwrap();
    let turns = |server: &mut Host, client: &mut Host, milliseconds: u64| {
        let mut accepted = 0;
        for _ in 0..milliseconds {
            clock.advance(Duration::from_millis(1));
            client.transmit(&clock);
            let ended = client.events(&clock).into_iter().find(|event| matches!(event, Event::Closed { .. }));
            assert!(ended.is_none(), "nobody is reset");
            accepted += server.events(&clock).iter().filter(|event| matches!(event, Event::Accepted { .. })).count();
            server.transmit(&clock);
        }
        accepted
    };
    client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    assert_eq!(turns(&mut server, &mut client, 20), 1);
    server.stack.hold_listener(listener, true).unwrap();
    client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    assert_eq!(turns(&mut server, &mut client, 500), 0);
    assert!(server.stack.counters().tcp_accept_overflow > 0);
    server.stack.hold_listener(listener, false).unwrap();
    assert_eq!(turns(&mut server, &mut client, 3_000), 1, "the SYN comes again");
    server.stack.close_listener(listener).unwrap();
    assert!(server.stack.hold_listener(listener, true).is_err());
}

#[test]
fn of_several_stacks_behind_one_card_each_connects_from_ports_of_its_own() {
    let (a, _b) = pair(PairConfig::default()).unwrap();
    let vnic = a.open(MemoryPlan::default()).unwrap();
    let (own, peer) = (IpAddr::from([10, 0, 0, 1]), SocketAddr::from(([10, 0, 0, 2], 80)));
    let shares = [0, 1, 2].map(|queue| QueueShare { queue, queues: 3 });
    for share in shares {
        let mut config = Config::new(own, 24);
        config.queue_share = Some(share);
        let mut stack = Stack::new(config, [7; 32], &vnic, Time::ZERO);
        for _ in 0..100 {
            let connection = stack.connect(Time::ZERO, peer, ConnectOptions::default()).unwrap();
            let (local, ..) = stack.connection_info(connection).unwrap();
            assert!(share.has(6, local, peer), "{local} with {share:?}");
        }
        // A port that was asked for: one stack takes it.
        let taken = (1_000..1_030).map(|port| SocketAddr::new(own, port)).filter(|local| {
            let options = ConnectOptions { local: Some(*local), ..ConnectOptions::default() };
            let outcome = stack.connect(Time::ZERO, peer, options);
            assert_eq!(outcome.is_ok(), share.has(6, *local, peer), "{outcome:?}");
            outcome.is_ok()
        });
        assert!((1..30).contains(&taken.count()));
    }
}

/// A datagram that the MTU has room for and no frame has leaves in fragments, as one beyond the MTU does when that is asked for.
#[test]
fn datagrams_longer_than_a_frame() {
    for addresses in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
        let clock = ManualClock::new();
        let [mut client, mut server] = hosts(&clock, addresses, PairConfig { mtu: 9_000, ..PairConfig::default() });
        let local = |number: usize| SocketAddr::new(addresses[number].parse().unwrap(), 53);
        let socket = client.stack.bind_udp(local(0)).unwrap();
        server.stack.bind_udp(local(1)).unwrap();
        for (length, in_fragments) in [(1, false), (1_400, false), (5_000, false), (8_900, false), (20_000, true)] {
            let payload: Vec<u8> = (0..length).map(|index| (index * 7 % 251) as u8).collect();
            let (now, vnic) = (clock.now(), client.vnic.as_mut());
            if in_fragments {
                client.stack.send_in_fragments(now, vnic, socket, local(1), &payload).unwrap();
            } else {
                client.stack.send_to(now, vnic, socket, local(1), &payload).unwrap();
            }
            let mut received = Vec::new();
            for _ in 0..8 {
                clock.advance(Duration::from_micros(20));
                client.transmit(&clock);
                received.extend(server.events(&clock));
                server.transmit(&clock);
                client.events(&clock);
            }
            let [Event::Datagram { chunk, .. }] = received.as_slice() else { panic!("{length}: {received:?}") };
            assert!(chunk.bytes() == payload, "{length}");
        }
        for beyond in [8_981, 20_000] {
            let sent = client.stack.send_to(clock.now(), client.vnic.as_mut(), socket, local(1), &vec![0; beyond]);
            assert_eq!(sent, Err(CommandError::TooLong));
        }
        client.stack.close_udp(socket).unwrap();
        let sent = client.stack.send_to(clock.now(), client.vnic.as_mut(), socket, local(1), &[0; 5_000]);
        assert_eq!(sent, Err(CommandError::Stale));
        assert_eq!(client.vnic.transmit_pool().in_use_count(), 0);
    }
}

/// That a frame has room beyond the MTU is no reason to send more, to a peer that is remembered neither.
#[test]
fn datagrams_longer_than_the_mtu() {
    let clock = ManualClock::new();
    let [mut client, mut server] = hosts(&clock, ["10.0.0.1", "10.0.0.2"], PairConfig::default());
    let [own, peer] = ["10.0.0.1:53", "10.0.0.2:53"].map(|text| text.parse().unwrap());
    let socket = client.stack.bind_udp(own).unwrap();
    let asked = server.stack.bind_udp(peer).unwrap();
    for _ in 0..4 {
        for (length, outcome) in
            [(1_472, Ok(())), (1_473, Err(CommandError::TooLong)), (1_600, Err(CommandError::TooLong))]
        {
            let sent = client.stack.send_to(clock.now(), client.vnic.as_mut(), socket, peer, &vec![0; length]);
            assert_eq!(sent, outcome, "{length}");
        }
        server.stack.send_to(clock.now(), server.vnic.as_mut(), asked, own, b"answer").unwrap();
        for _ in 0..4 {
            clock.advance(Duration::from_micros(20));
            client.transmit(&clock);
            server.events(&clock);
            server.transmit(&clock);
            client.events(&clock);
        }
    }
}
