//! A next hop that has gone silent: connections through it end by their own time-outs, with everything given back. One that has
//! got another card is found again.

use bytes::Bytes;
use qanat_nic::{
    Clock, ManualClock, MemoryPlan, Pair, PairConfig, PairPort, QueueShare, TransmitBuffer, TransmitOptions, Vnic, pair,
};
use qanat_stack::{CloseReason, Config, ConnectOptions, ConnectionId, Event, ListenOptions, Stack};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

struct Host {
    stack: Stack,
    vnic: Pair,
}

fn turn(host: &mut Host, clock: &ManualClock) -> Vec<Event> {
    host.stack.receive(clock.now(), &mut host.vnic);
    let events = std::iter::from_fn(|| host.stack.next_event()).collect();
    host.stack.transmit(clock.now(), &mut host.vnic);
    events
}

/// A client with an open connection to a server that nobody polls any more, and whose address has been forgotten.
fn stranded(clock: &ManualClock) -> (Host, ConnectionId) {
    let (near, far) = pair(PairConfig::default()).unwrap();
    let [mut client, mut server] = [(near, "10.0.0.1"), (far, "10.0.0.2")].map(|(port, address)| {
        let vnic = port.open(MemoryPlan::default()).unwrap();
        let mut config = Config::new(address.parse().unwrap(), 24);
        (config.connections_max, config.timers_max) = (8, 8);
        config.tcp.retransmissions_max = 4;
        Host { stack: Stack::new(config, [1; 32], &vnic, clock.now()), vnic }
    });
    let target = SocketAddr::new(IpAddr::from([10, 0, 0, 2]), 80);
    server.stack.listen(target, ListenOptions::default()).unwrap();
    let connection = client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    let mut connected = false;
    for _ in 0..20 {
        clock.advance(Duration::from_millis(1));
        connected |= turn(&mut client, clock).iter().any(|event| matches!(event, Event::Connected { .. }));
        turn(&mut server, clock);
    }
    assert!(connected);
    clock.advance(Duration::from_secs(3_600));
    (client, connection)
}

fn until_closed(host: &mut Host, clock: &ManualClock) -> CloseReason {
    for _ in 0..100_000 {
        for event in turn(host, clock) {
            if let Event::Closed { why, .. } = event {
                let usage = host.stack.usage();
                assert_eq!((usage.connections, usage.flows, usage.timers), (0, 0, 0));
                assert_eq!(host.vnic.transmit_pool().in_use_count(), 0);
                return why;
            }
        }
        let deadline = host.stack.next_deadline().expect("something is still to come");
        clock.advance(Duration::from_micros(1));
        clock.advance_to(deadline);
    }
    panic!("the connection never ends: {:?}", host.stack.usage());
}

#[test]
fn what_is_sent_times_out() {
    let clock = ManualClock::new();
    let (mut client, connection) = stranded(&clock);
    client.stack.send(clock.now(), connection, Bytes::from_static(b"anybody?")).unwrap();
    assert_eq!(until_closed(&mut client, &clock), CloseReason::TimedOut);
}

#[test]
fn an_abort_ends() {
    let clock = ManualClock::new();
    let (mut client, connection) = stranded(&clock);
    client.stack.abort(clock.now(), connection).unwrap();
    assert_eq!(until_closed(&mut client, &clock), CloseReason::Aborted);
}

/// Two hosts with a cable between them that sees to the second one's Ethernet address: as if it had got another card.
struct Replaced {
    client: Host,
    server: Host,
    near: Pair,
    far: Pair,
    /// The second one's address now.
    mac: [u8; 6],
    /// Frames that the first one has sent there.
    reached: usize,
}

const OLD: [u8; 6] = [2, 0, 0, 0, 0, 2];
const NEW: [u8; 6] = [2, 0, 0, 0, 0, 66];

impl Replaced {
    fn new(clock: &ManualClock, configure: impl Fn(&mut Config)) -> Replaced {
        let host = |port: PairPort, address: &str| {
            let vnic = port.open(MemoryPlan::default()).unwrap();
            let mut config = Config::new(address.parse().unwrap(), 24);
            configure(&mut config);
            Host { stack: Stack::new(config, [1; 32], &vnic, clock.now()), vnic }
        };
        let ((one, near), (far, other)) = (pair(PairConfig::default()).unwrap(), pair(PairConfig::default()).unwrap());
        let [near, far] = [near, far].map(|port| port.open(MemoryPlan::default()).unwrap());
        let (client, server) = (host(one, "10.0.0.1"), host(other, "10.0.0.2"));
        Replaced { client, server, near, far, mac: OLD, reached: 0 }
    }

    /// A millisecond; what each is told.
    fn step(&mut self, clock: &ManualClock) -> [Vec<Event>; 2] {
        clock.advance(Duration::from_millis(1));
        let told = [turn(&mut self.client, clock), turn(&mut self.server, clock)];
        let mut frames = Vec::new();
        self.near.receive(&mut frames, 64);
        for frame in frames.drain(..) {
            let mut bytes = frame.bytes().to_vec();
            if bytes[..6] != self.mac && bytes[..6] != [0xff; 6] {
                continue;
            }
            self.reached += usize::from(bytes[..6] == self.mac);
            bytes[..6].copy_from_slice(&OLD);
            put(&mut self.far, &bytes);
        }
        self.far.receive(&mut frames, 64);
        for frame in frames.drain(..) {
            let mut bytes = frame.bytes().to_vec();
            bytes[6..12].copy_from_slice(&self.mac);
            if bytes[12..14] == [8, 6] {
                bytes[22..28].copy_from_slice(&self.mac);
            }
            put(&mut self.near, &bytes);
        }
        told
    }

    /// Another card, without a word about it; milliseconds until something of the first one's reaches it. Each second `work` is
    /// done.
    fn replace(&mut self, clock: &ManualClock, mut work: impl FnMut(&mut Replaced)) -> usize {
        (self.mac, self.reached) = (NEW, 0);
        for elapsed in 0..60_000 {
            if elapsed % 1_000 == 0 {
                work(self);
            }
            self.step(clock);
            if self.reached > 0 {
                return elapsed;
            }
        }
        panic!("nothing reaches it");
    }

    /// A connection that has been open for two seconds, as each calls it.
    fn connected(&mut self, clock: &ManualClock) -> [ConnectionId; 2] {
        let target = SocketAddr::new(IpAddr::from([10, 0, 0, 2]), 80);
        self.server.stack.listen(target, ListenOptions::default()).unwrap();
        let connection = self.client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
        let mut accepted = None;
        for _ in 0..2_000 {
            for event in self.step(clock).into_iter().flatten() {
                if let Event::Accepted { connection, .. } = event {
                    accepted = Some(connection);
                }
            }
        }
        [connection, accepted.unwrap()]
    }
}

fn put(vnic: &mut Pair, bytes: &[u8]) {
    let mut frame = vnic.transmit_pool().allocate(0).unwrap();
    frame.append(bytes.len()).unwrap().copy_from_slice(bytes);
    vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
    vnic.flush();
}

fn send(host: &mut Host, clock: &ManualClock, connection: ConnectionId) {
    let _ = host.stack.send(clock.now(), connection, Bytes::from_static(b"anybody?"));
}

/// What is not acknowledged is a reason to ask (RFC 1122 section 2.3.2.1), whatever else has been heard meanwhile.
#[test]
fn a_neighbour_with_another_card_is_asked_when_it_acknowledges_nothing() {
    for is_one_of_several in [false, true] {
        let clock = ManualClock::new();
        let mut hosts = Replaced::new(&clock, |config| {
            config.neighbours_by_traffic = is_one_of_several;
            config.queue_share = is_one_of_several.then_some(QueueShare { queue: 0, queues: 1 });
        });
        let [connection, _] = hosts.connected(&clock);
        send(&mut hosts.client, &clock, connection);
        let elapsed = hosts.replace(&clock, |hosts| send(&mut hosts.client, &clock, connection));
        assert!(elapsed < 6_000, "{elapsed} ms");
    }
}

/// One of several stacks behind a card, which hears no announcement: the first one's queue has it.
#[test]
fn a_neighbour_with_another_card_is_known_by_the_segments_it_sends() {
    let clock = ManualClock::new();
    let mut hosts = Replaced::new(&clock, |config| config.neighbours_by_traffic = true);
    let [_, connection] = hosts.connected(&clock);
    let elapsed = hosts.replace(&clock, |hosts| send(&mut hosts.server, &clock, connection));
    assert!(elapsed < 100, "{elapsed} ms");
}

#[test]
fn a_neighbour_with_another_card_is_asked_by_each_of_several_stacks_though_nothing_is_answered() {
    let clock = ManualClock::new();
    let mut hosts = Replaced::new(&clock, |config| {
        config.neighbours_by_traffic = true;
        config.queue_share = Some(QueueShare { queue: 0, queues: 1 });
    });
    let peer = SocketAddr::new(IpAddr::from([10, 0, 0, 2]), 9);
    let socket = hosts.client.stack.bind_udp(SocketAddr::new(IpAddr::from([10, 0, 0, 1]), 9)).unwrap();
    let _sink = hosts.server.stack.bind_udp(peer).unwrap();
    let say = |hosts: &mut Replaced| {
        let Host { stack, vnic } = &mut hosts.client;
        let _ = stack.send_to(clock.now(), vnic, socket, peer, b"listen");
    };
    say(&mut hosts);
    for _ in 0..100 {
        hosts.step(&clock);
    }
    assert!(hosts.reached > 0);
    let elapsed = hosts.replace(&clock, say);
    assert!(elapsed < 35_000, "{elapsed} ms");
}
