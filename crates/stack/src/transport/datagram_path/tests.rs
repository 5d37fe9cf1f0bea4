//! That the remembered way is taken when it should be, and left when something it was made from changes. That it does what
//! the slow way does is for `tests/remembered_paths.rs` to show.

use crate::{Config, Handler, Stack};
use qanat_api::{Chunk, Event, UdpSocketId};
use qanat_nic::{Clock, Frame, ManualClock, MemoryPlan, Pair, PairConfig, TransmitBuffer, TransmitOptions, Vnic, pair};
use qanat_wire::ethernet::MacAddress;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 77]);

struct Host {
    stack: Stack,
    vnic: Pair,
    socket: UdpSocketId,
}

fn host(port: qanat_nic::PairPort, address: Ipv4Addr, clock: &ManualClock, change: impl Fn(&mut Config)) -> Host {
    let vnic = port.open(MemoryPlan::default()).unwrap();
    let mut config = Config::new(address.into(), 24);
    (config.connections_max, config.timers_max) = (4, 4);
    change(&mut config);
    let mut stack = Stack::new(config, [5; 32], &vnic, clock.now());
    let socket = stack.bind_udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 7)).unwrap();
    Host { stack, vnic, socket }
}

/// A server that `change` says more about, and its client, after a datagram has gone there and back.
fn acquainted(clock: &ManualClock, change: impl Fn(&mut Config)) -> [Host; 2] {
    let (near, far) = pair(PairConfig::default()).unwrap();
    let mut hosts = [host(near, OWN, clock, change), host(far, PEER, clock, |_| {})];
    assert_eq!(round(&mut hosts, clock), 1);
    hosts
}

fn turn(host: &mut Host, clock: &ManualClock) -> Vec<Event> {
    host.stack.receive(clock.now(), &mut host.vnic);
    let events = std::iter::from_fn(|| host.stack.next_event()).collect();
    host.stack.transmit(clock.now(), &mut host.vnic);
    events
}

/// The client asks, the server echoes; how many answers come.
fn round([server, client]: &mut [Host; 2], clock: &ManualClock) -> usize {
    let (target, now) = (SocketAddr::new(OWN.into(), 7), clock.now());
    client.stack.send_to(now, &mut client.vnic, client.socket, target, b"anybody?").unwrap();
    let mut answers = 0;
    for _ in 0..4 {
        answers += turn(client, clock).len();
        for event in turn(server, clock) {
            let Event::Datagram { socket, peer, chunk } = event else { continue };
            server.stack.send_chunk_to(now, &mut server.vnic, socket, peer, chunk).unwrap();
            server.stack.transmit(now, &mut server.vnic);
        }
    }
    answers
}

/// The next datagram of the client, as it comes to the server.
fn next_frame([server, client]: &mut [Host; 2], clock: &ManualClock) -> Frame {
    let target = SocketAddr::new(OWN.into(), 7);
    client.stack.send_to(clock.now(), &mut client.vnic, client.socket, target, b"anybody?").unwrap();
    client.stack.transmit(clock.now(), &mut client.vnic);
    let mut frames = Vec::new();
    server.vnic.receive(&mut frames, 8);
    frames.pop().unwrap()
}

/// Whether the server takes the client's next datagram the remembered way.
fn is_remembered(hosts: &mut [Host; 2], clock: &ManualClock) -> bool {
    let frame = next_frame(hosts, clock);
    let Some(known) = hosts[0].stack.input_remembered::<true>(clock.now(), &frame) else { return false };
    let (socket, peer, chunk) = known.into_parts(frame);
    hosts[0].stack.events.push_back(Event::Datagram { socket, peer: SocketAddr::V4(peer), chunk });
    true
}

/// Whether the server knows the way to the client.
fn knows_way_back(hosts: &[Host; 2], clock: &ManualClock) -> bool {
    hosts[0].stack.network.path_to(clock.now(), PEER, OWN).is_some()
}

#[test]
fn the_second_datagram_is_remembered() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    assert!(knows_way_back(&hosts, &clock));
    assert!(is_remembered(&mut hosts, &clock));
    assert!(matches!(hosts[0].stack.next_event(), Some(Event::Datagram { .. })));
    let mut without = acquainted(&clock, |config| config.remembered_paths_max = 0);
    assert!(!knows_way_back(&without, &clock) && !is_remembered(&mut without, &clock));
}

#[test]
fn a_neighbour_learnt_by_what_it_sends_is_confirmed_by_each_packet() {
    let clock = ManualClock::new();
    let (near, far) = pair(PairConfig::default()).unwrap();
    let server = host(near, OWN, &clock, |config| config.shared_address = true);
    let mut hosts = [server, host(far, PEER, &clock, |_| {})];
    // The kernel answers for this address: here the client is told.
    let mac = hosts[0].vnic.capabilities().mac;
    let Host { stack, vnic, .. } = &mut hosts[1];
    stack.network.learn(clock.now(), vnic, OWN.into(), mac, false, true);
    for _ in 0..30 {
        assert_eq!(round(&mut hosts, &clock), 1);
        assert!(knows_way_back(&hosts, &clock) && is_remembered(&mut hosts, &clock));
        assert!(hosts[0].stack.next_event().is_some());
        clock.advance(Duration::from_millis(900));
    }
    let mut frame = next_frame(&mut hosts, &clock);
    frame.bytes_mut()[6..12].copy_from_slice(&OTHER_MAC.0);
    assert!(hosts[0].stack.input_remembered::<true>(clock.now(), &frame).is_none(), "another card is for the slow way");
}

#[test]
fn a_socket_that_comes_or_goes_is_looked_for_anew() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    let own = SocketAddr::new(IpAddr::V4(OWN), 7);
    let server = &mut hosts[0].stack;
    server.close_udp(hosts[0].socket).unwrap();
    assert!(!is_remembered(&mut hosts, &clock));
    let second = hosts[0].stack.bind_udp(own).unwrap();
    assert!(!is_remembered(&mut hosts, &clock));
    round(&mut hosts, &clock);
    assert!(is_remembered(&mut hosts, &clock));
    let Some(Event::Datagram { socket, .. }) = hosts[0].stack.next_event() else { panic!("a datagram") };
    assert_eq!(socket, second);
}

#[test]
fn an_address_that_is_lost_is_not_answered_for() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    hosts[0].stack.network.routes.set_state(OWN.into(), crate::AddressState::Duplicate);
    let frame = next_frame(&mut hosts, &clock);
    assert!(!knows_way_back(&hosts, &clock));
    let Host { stack, vnic, .. } = &mut hosts[0];
    assert!(stack.input_remembered::<true>(clock.now(), &frame).is_none());
    stack.input(clock.now(), vnic, frame, &mut Vec::new());
    assert!(stack.next_event().is_none());
    assert_eq!(stack.counters().ip_not_ours, 1);
}

#[test]
fn a_neighbour_with_another_card_is_followed() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    clock.advance(Duration::from_millis(900));
    assert!(knows_way_back(&hosts, &clock));
    let Host { stack, vnic, socket } = &mut hosts[0];
    // Within a second after its confirmation an address stays.
    stack.network.learn(clock.now(), vnic, PEER.into(), OTHER_MAC, false, false);
    assert!(stack.network.path_to(clock.now(), PEER, OWN).is_some());
    clock.advance(Duration::from_millis(600));
    stack.network.learn(clock.now(), vnic, PEER.into(), OTHER_MAC, false, false);
    assert!(stack.network.path_to(clock.now(), PEER, OWN).is_none());
    let peer = SocketAddr::new(PEER.into(), 7);
    for _ in 0..2 {
        stack.send_to(clock.now(), vnic, *socket, peer, b"there").unwrap();
    }
    vnic.flush();
    let mut frames = Vec::new();
    hosts[1].vnic.receive(&mut frames, 8);
    assert_eq!(frames.len(), 2);
    assert!(frames.iter().all(|frame| frame.bytes().starts_with(&OTHER_MAC.0)));
}

#[test]
fn a_neighbour_is_asked_again_when_its_confirmation_is_due() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    let asked = hosts[0].stack.counters().neighbour_requests;
    for _ in 0..29 {
        clock.advance(Duration::from_secs(1));
        assert_eq!(round(&mut hosts, &clock), 1);
    }
    assert_eq!(hosts[0].stack.counters().neighbour_requests, asked);
    clock.advance(Duration::from_secs(2));
    assert!(!knows_way_back(&hosts, &clock));
    let Host { stack, vnic, socket } = &mut hosts[0];
    stack.send_to(clock.now(), vnic, *socket, SocketAddr::new(PEER.into(), 7), b"still there?").unwrap();
    assert_eq!(stack.counters().neighbour_requests, asked + 1);
    round(&mut hosts, &clock);
    assert_eq!(round(&mut hosts, &clock), 1);
    assert!(knows_way_back(&hosts, &clock), "its answer confirmed it");
}

#[test]
fn a_forged_sender_leaves_no_trace() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    let mut frame = next_frame(&mut hosts, &clock);
    frame.bytes_mut()[6..12].copy_from_slice(&OTHER_MAC.0);
    let mut copy = hosts[0].vnic.transmit_pool().allocate(64).unwrap();
    copy.append(frame.len()).unwrap().copy_from_slice(frame.bytes());
    hosts[1].vnic.transmit(TransmitBuffer::Owned(copy), TransmitOptions::default()).unwrap();
    drop(frame);
    assert_eq!(round(&mut hosts, &clock), 2, "the answer to the forged one goes to the neighbour, too");
    let path = hosts[0].stack.network.path_to(clock.now(), PEER, OWN).unwrap();
    let [a, b, c, d, e, f] = hosts[1].vnic.capabilities().mac.0;
    assert!(path.is_mac(u64::from_ne_bytes([a, b, c, d, e, f, 9, 9])));
}

/// The server's event for the client's next datagram, the remembered way.
fn next_datagram(hosts: &mut [Host; 2], clock: &ManualClock) -> Event {
    assert!(is_remembered(hosts, clock));
    hosts[0].stack.next_event().unwrap()
}

/// Sends a datagram's payload to `target`; what comes to the client, as it is.
fn answer(hosts: &mut [Host; 2], clock: &ManualClock, event: Event, target: Option<SocketAddr>) -> Vec<Vec<u8>> {
    let Event::Datagram { socket, peer, chunk } = event else { panic!("a datagram") };
    let Host { stack, vnic, .. } = &mut hosts[0];
    stack.send_chunk_to(clock.now(), vnic, socket, target.unwrap_or(peer), chunk).unwrap();
    vnic.flush();
    let mut frames = Vec::new();
    hosts[1].vnic.receive(&mut frames, 8);
    frames.iter().map(|frame| frame.bytes().to_vec()).collect()
}

#[test]
fn an_answer_is_what_the_slow_way_sends() {
    let clock = ManualClock::new();
    let mut fast = acquainted(&clock, |_| {});
    let mut slow = acquainted(&clock, |config| config.remembered_paths_max = 0);
    let event = next_datagram(&mut fast, &clock);
    let frame = next_frame(&mut slow, &clock);
    let Host { stack, vnic, .. } = &mut slow[0];
    stack.input(clock.now(), vnic, frame, &mut Vec::new());
    let same = stack.next_event().unwrap();
    let sent = answer(&mut fast, &clock, event, None);
    assert_eq!(sent, answer(&mut slow, &clock, same, None));
    assert_eq!(sent.len(), 1);
}

#[test]
fn what_goes_elsewhere_goes_there() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    // Another port of the same host; then a host that is not known, which is asked for first.
    let event = next_datagram(&mut hosts, &clock);
    let sent = answer(&mut hosts, &clock, event, Some(SocketAddr::new(PEER.into(), 9)));
    assert_eq!(sent[0][36..38], [0, 9]);
    let event = next_datagram(&mut hosts, &clock);
    let other = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 7);
    let sent = answer(&mut hosts, &clock, event, Some(other));
    assert!(sent.len() == 1 && sent[0][12..14] == [8, 6], "an ARP request");
}

#[test]
fn a_closed_socket_sends_no_answer() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    let Event::Datagram { socket, peer, chunk } = next_datagram(&mut hosts, &clock) else { panic!("a datagram") };
    let Host { stack, vnic, .. } = &mut hosts[0];
    stack.close_udp(socket).unwrap();
    let sent = stack.send_chunk_to(clock.now(), vnic, socket, peer, chunk);
    assert_eq!(sent, Err(crate::CommandError::Stale));
}

#[test]
fn an_answer_leaves_with_the_address_any_datagram_would() {
    let clock = ManualClock::new();
    let second = Ipv4Addr::new(10, 0, 0, 3);
    let mut hosts = acquainted(&clock, |config| config.addresses.push((second.into(), 24)));
    let to_second = |hosts: &mut [Host; 2]| {
        let Host { stack, vnic, socket } = &mut hosts[1];
        stack.send_to(clock.now(), vnic, *socket, SocketAddr::new(second.into(), 7), b"anybody?").unwrap();
    };
    // Asked under its second address, by a socket for all: it answers with the first, remembered or not.
    for _ in 0..4 {
        to_second(&mut hosts);
        turn(&mut hosts[1], &clock);
        for event in turn(&mut hosts[0], &clock) {
            let sent = answer(&mut hosts, &clock, event, None);
            assert_eq!(sent[0][26..30], OWN.octets());
        }
        turn(&mut hosts[1], &clock);
    }
    assert!(hosts[0].stack.counters().udp_sent > 3);
}

#[test]
fn a_datagram_waits_for_what_came_before_it() {
    let clock = ManualClock::new();
    let mut hosts = acquainted(&clock, |_| {});
    let target = SocketAddr::new(OWN.into(), 7);
    for payload in [b"one", b"two", b"six"] {
        let Host { stack, vnic, socket } = &mut hosts[1];
        stack.send_to(clock.now(), vnic, *socket, target, payload).unwrap();
    }
    hosts[1].vnic.flush();
    let Host { stack, vnic, .. } = &mut hosts[0];
    /// From its first event on something waits.
    struct Taker {
        seen: Vec<Vec<u8>>,
    }
    impl Handler for Taker {
        fn datagram(
            &mut self,
            stack: &mut Stack,
            _: &mut dyn Vnic,
            socket: UdpSocketId,
            peer: SocketAddr,
            chunk: Chunk,
        ) {
            self.seen.push(chunk.bytes().to_vec());
            if self.seen.len() == 1 {
                stack.events.push_back(Event::Datagram { socket, peer, chunk });
            }
        }
    }
    let mut taker = Taker { seen: Vec::new() };
    let received = stack.counters().udp_received;
    let count = stack.receive_with(clock.now(), vnic, &mut taker);
    assert_eq!((count, taker.seen), (3, vec![b"one".to_vec()]));
    assert_eq!(stack.counters().udp_received, received + 3);
    let waiting = std::iter::from_fn(|| stack.next_event());
    let payloads = waiting.map(|event| match event {
        Event::Datagram { chunk, .. } => chunk.bytes().to_vec(),
        _ => Vec::new(),
    });
    assert_eq!(payloads.collect::<Vec<_>>(), [b"one", b"two", b"six"]);
}
