//! What an attacker sees that forges a peer's address: the same, whether its guess of that peer's port is right or wrong.
//!
//! One stack runs twice with the same secrets. In one run the forged packets hit what exists, in the other they miss it. All
//! that the stack sends to the attacker, byte for byte, must be the same in both. A few things can't be the same each time, for
//! instance how full a table is that all share. There the attacker's best verdict must be hardly better than a coin's.

use qanat_nic::{Clock, ManualClock, MemoryPlan, Pair, PairConfig, TransmitBuffer, TransmitOptions, Vnic, pair};
use qanat_stack::{Config, ListenOptions, Stack};
use qanat_wire::ethernet::{self, EtherType, MacAddress};
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::tcp::{Flags, SequenceNumber};
use qanat_wire::{arp, icmpv4, ipv4, tcp, udp};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ROUTER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
/// Who has a connection.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// Who would like to know its port.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const PORT: u16 = 80;
/// The client's port, and two guesses of it.
const RIGHT: u16 = 40_000;
const WRONG: u16 = 41_000;
/// The attacker's own connection comes from here.
const OWN: u16 = 50_000;

struct World {
    clock: ManualClock,
    stack: Stack,
    near: Pair,
    far: Pair,
    /// What came for the attacker: when, from the IP header on.
    seen: Vec<(u64, Vec<u8>)>,
    /// The last SYN-ACK's numbers, by the port it went to: SEG.SEQ.
    syn_acks: HashMap<(Ipv4Addr, u16), Vec<SequenceNumber>>,
}

fn header(source: Ipv4Addr, protocol: Protocol, payload_length: usize) -> ipv4::Header {
    ipv4::Header {
        source,
        destination: SERVER,
        protocol,
        payload_length,
        ttl: 60,
        identification: 0,
        dont_fragment: true,
        ecn: Ecn::NotCapable,
        dscp: 0,
    }
}

impl World {
    fn new(seed: u64, configure: impl Fn(&mut Config)) -> World {
        let clock = ManualClock::new();
        let (near, far) = pair(PairConfig::default()).unwrap();
        let [near, far] = [near, far].map(|port| port.open(MemoryPlan::default()).unwrap());
        let mut config = Config::new(SERVER.into(), 24);
        config.gateways = vec![ROUTER.into()];
        (config.connections_max, config.time_wait_max, config.timers_max) = (64, 64, 8);
        configure(&mut config);
        let mut entropy = [0x5a; 32];
        entropy.chunks_exact_mut(8).zip(1u64..).for_each(|(word, number)| {
            word.copy_from_slice(&seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(number as u32).to_le_bytes());
        });
        let mut stack = Stack::new(config, entropy, &near, clock.now());
        stack.listen((SERVER, PORT).into(), ListenOptions::default()).unwrap();
        stack.bind_udp((SERVER, RIGHT).into()).unwrap();
        let mut world = World { clock, stack, near, far, seen: Vec::new(), syn_acks: HashMap::new() };
        for (address, port) in [(CLIENT, RIGHT), (ATTACKER, OWN)] {
            world.connect(address, port);
        }
        world.seen.clear();
        world
    }

    fn inject(&mut self, ethertype: EtherType, packet: &[u8]) {
        let mut frame = self.far.transmit_pool().allocate(0).unwrap();
        let destination = self.near.capabilities().mac;
        let header = ethernet::Header { destination, source: ROUTER_MAC, ethertype };
        header.emit(frame.append(ethernet::HEADER_LENGTH).unwrap()).unwrap();
        frame.append_bytes(packet).unwrap();
        assert!(self.far.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).is_ok());
        self.far.flush();
    }

    fn packet(&mut self, source: Ipv4Addr, protocol: Protocol, payload: &[u8]) {
        let mut bytes = vec![0; ipv4::HEADER_LENGTH];
        header(source, protocol, payload.len()).emit(&mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        self.inject(EtherType::IPV4, &bytes);
    }

    fn segment(&mut self, source: (Ipv4Addr, u16), port: u16, segment: tcp::Header) {
        let segment = tcp::Header { source_port: source.1, destination_port: port, window: 1_000, ..segment };
        let mut bytes = vec![0; segment.header_length()];
        segment.emit(&mut bytes).unwrap();
        let pseudo = header(source.0, Protocol::TCP, bytes.len()).pseudo_header_sum();
        tcp::write_checksum(&mut bytes, pseudo, 0).unwrap();
        self.packet(source.0, Protocol::TCP, &bytes);
    }

    fn datagram(&mut self, source: (Ipv4Addr, u16), port: u16) {
        // Without a checksum.
        let mut bytes = Vec::new();
        for field in [source.1, port, udp::HEADER_LENGTH as u16 + 4, 0, 0, 0] {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
        self.packet(source.0, Protocol::UDP, &bytes);
    }

    /// A millisecond: the stack's turn, and what it sent.
    fn turn(&mut self) {
        self.clock.advance(Duration::from_millis(1));
        let now = self.clock.now();
        while self.stack.receive(now, &mut self.near) > 0 {}
        while self.stack.next_event().is_some() {}
        self.stack.transmit(now, &mut self.near);
        let mut frames = Vec::new();
        while self.far.receive(&mut frames, 64) > 0 {}
        for frame in frames {
            let bytes = frame.bytes().to_vec();
            let packet = &bytes[ethernet::HEADER_LENGTH..];
            if bytes[12..14] == [8, 6] {
                self.answer_arp();
            } else {
                self.note(packet);
            }
        }
    }

    fn answer_arp(&mut self) {
        let reply = arp::Header {
            operation: arp::Operation::REPLY,
            sender_hardware: ROUTER_MAC,
            sender_protocol: ROUTER,
            target_hardware: self.near.capabilities().mac,
            target_protocol: SERVER,
        };
        let mut bytes = vec![0; arp::PACKET_LENGTH];
        reply.emit(&mut bytes).unwrap();
        self.inject(EtherType::ARP, &bytes);
    }

    fn note(&mut self, bytes: &[u8]) {
        let packet = ipv4::Packet::parse(bytes).unwrap();
        if packet.protocol() == Protocol::TCP {
            let segment = tcp::Segment::parse(packet.payload()).unwrap();
            if segment.flags().contains(Flags::SYN | Flags::ACK) {
                let to = (packet.destination(), segment.destination_port());
                self.syn_acks.entry(to).or_default().push(segment.sequence());
            }
        }
        if packet.destination() == ATTACKER {
            self.seen.push((self.clock.now().as_millis(), bytes.to_vec()));
        }
    }

    fn syn(&mut self, source: (Ipv4Addr, u16), port: u16) {
        let syn = tcp::Header { sequence: SequenceNumber(1_000), flags: Flags::SYN, ..tcp::Header::default() };
        self.segment(source, port, syn);
    }

    fn connect(&mut self, address: Ipv4Addr, port: u16) {
        self.syn((address, port), PORT);
        for _ in 0..3 {
            self.turn();
        }
        let theirs = self.syn_acks[&(address, port)][0];
        let (sequence, flags) = (SequenceNumber(1_001), Flags::ACK);
        let ack = tcp::Header { sequence, acknowledgment: theirs + 1, flags, ..tcp::Header::default() };
        self.segment((address, port), PORT, ack);
        self.turn();
    }
}

/// What is forged in the client's name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Forged {
    Syn,
    /// In the window, but not at its start.
    Reset,
    /// Acknowledges what was never sent.
    Ack,
    /// To a port that a socket may have.
    Datagram,
    Echo,
}

/// A second and a half of forged packets, with the attacker's own among them, which draw every kind of answer.
fn observe(seed: u64, forged: Forged, is_right: bool) -> (World, Vec<(u64, Vec<u8>)>) {
    let mut world = World::new(seed, |_| ());
    let guess = if is_right { RIGHT } else { WRONG };
    for step in 0..1_500u32 {
        for _ in 0..2 {
            let sequence = SequenceNumber(1_100 + step);
            match forged {
                Forged::Syn => world.syn((CLIENT, guess), PORT),
                Forged::Reset => {
                    let reset = tcp::Header { sequence, flags: Flags::RST, ..tcp::Header::default() };
                    world.segment((CLIENT, guess), PORT, reset);
                }
                Forged::Ack => {
                    let (acknowledgment, flags) = (SequenceNumber(step), Flags::ACK);
                    let ack = tcp::Header { sequence, acknowledgment, flags, ..tcp::Header::default() };
                    world.segment((CLIENT, guess), PORT, ack);
                }
                Forged::Datagram => world.datagram((CLIENT, 53), guess),
                Forged::Echo => {
                    let mut bytes = [0; 64];
                    let request = icmpv4::Header::EchoRequest { identifier: guess, sequence: step as u16 };
                    let length = request.emit(&mut bytes, b"ping").unwrap();
                    world.packet(CLIENT, Protocol::ICMPV4, &bytes[..length]);
                }
            }
        }
        probe(&mut world, step);
        world.turn();
    }
    let seen = std::mem::take(&mut world.seen);
    (world, seen)
}

fn probe(world: &mut World, step: u32) {
    // A challenge on the own connection, a reset, an unreachable port, an echo, a half-open connection.
    world.syn((ATTACKER, OWN), PORT);
    world.syn((ATTACKER, 60_000), 81);
    let stray = tcp::Header { sequence: SequenceNumber(step), flags: Flags::ACK, ..tcp::Header::default() };
    world.segment((ATTACKER, 60_001), PORT, stray);
    world.datagram((ATTACKER, 53), 9);
    let mut bytes = [0; 64];
    let request = icmpv4::Header::EchoRequest { identifier: 1, sequence: step as u16 };
    let length = request.emit(&mut bytes, b"ping").unwrap();
    world.packet(ATTACKER, Protocol::ICMPV4, &bytes[..length]);
    if step.is_multiple_of(10) {
        world.syn((ATTACKER, 20_000 + step as u16), PORT);
    }
}

fn is_the_same(forged: Forged) {
    for seed in 1..4 {
        let (world, right) = observe(seed, forged, true);
        let (_, wrong) = observe(seed, forged, false);
        let counters = world.stack.counters();
        assert!(right.len() > 500, "the attacker sees {} answers only", right.len());
        // The limits were reached, so they would have told.
        assert!(counters.icmp_rate_limited > 0 && counters.tcp_resets_rate_limited > 0, "{counters:?}");
        assert!(world.stack.tcp_counters().challenge_acks_suppressed > 1_000);
        let differs = right.iter().zip(&wrong).position(|(one, other)| one != other);
        let (right, wrong, is_same) = (right.len(), wrong.len(), right == wrong);
        assert!(is_same, "seed {seed}: {right} answers or {wrong}, the first that differs: {differs:?}");
    }
}

// Attack: side channels: forged SYNs, and the challenges and resets that are missing elsewhere
#[test]
fn forged_syns_tell_nothing() {
    is_the_same(Forged::Syn);
}

// Attack: side channels: forged resets in the window, and the challenges that are missing elsewhere
#[test]
fn forged_resets_tell_nothing() {
    is_the_same(Forged::Reset);
}

// Attack: side channels: forged acknowledgements, and the resets that are missing elsewhere
#[test]
fn forged_acknowledgements_tell_nothing() {
    is_the_same(Forged::Ack);
}

// Attack: side channels: forged datagrams, and the ICMP errors that are missing elsewhere
#[test]
fn forged_datagrams_tell_nothing() {
    is_the_same(Forged::Datagram);
}

// Attack: side channels: forged echo requests, and the ICMP messages that are missing elsewhere
#[test]
fn forged_echo_requests_tell_nothing() {
    is_the_same(Forged::Echo);
}

/// Whether the attacker's last SYN, after it has filled the table but for one place and has forged the client's SYN, was kept
/// (and is answered again), and not answered with a cookie.
fn last_place(seed: u64, is_right: bool) -> bool {
    const PLACES: u16 = 32;
    let mut world = World::new(seed, |config| config.half_open_max = PLACES.into());
    // From so many addresses that none of them has used up its share.
    let address = |number: u16| Ipv4Addr::new(203, 0, 113, 10 + (number / 8) as u8);
    for number in 0..PLACES - 1 {
        world.syn((address(number), 1_000 + number), PORT);
    }
    world.turn();
    world.syn((CLIENT, if is_right { RIGHT } else { WRONG }), PORT);
    world.turn();
    let last = (address(PLACES + 8), 9_999);
    world.syn(last, PORT);
    for _ in 0..4_000 {
        world.turn();
    }
    world.syn_acks.get(&last).is_some_and(|answers| answers.len() > 1)
}

// Attack: side channels: whether a forged SYN took the last place of a half-open connection
#[test]
fn the_last_place_for_half_open_connections_tells_little() {
    const TRIALS: u64 = 150;
    let kept = |is_right| (0..TRIALS).filter(|seed| last_place(*seed, is_right)).count();
    let (right, wrong) = (kept(true), kept(false));
    let advantage = right.abs_diff(wrong) as f64 / TRIALS as f64;
    assert!(advantage < 0.25, "kept {right} of {TRIALS} if the guess is right, {wrong} if it is wrong");
    assert!(right > 10 && right < TRIALS as usize - 10);
}

/// Whoever makes connections from ephemeral ports tells each server nothing of its connections to others.
// Attack: side channels: how many connections to others were made, by the ports of one's own
#[test]
fn ephemeral_ports_tell_nothing_of_other_connections() {
    let ports = |others: u16| {
        let mut world = World::new(7, |config| config.connections_max = 4_096);
        let mut ports = Vec::new();
        for number in 0..100u16 {
            let connection = world.stack.connect(world.clock.now(), (ATTACKER, 443).into(), <_>::default()).unwrap();
            ports.push(world.stack.connection_info(connection).unwrap().0.port());
            for other in 0..others {
                let peer = (Ipv4Addr::new(192, 0, 2, other as u8), 1_000 + number);
                world.stack.connect(world.clock.now(), peer.into(), <_>::default()).unwrap();
            }
        }
        ports
    };
    for others in [0, 1, 10] {
        let ports = ports(others);
        let step = |two: &[u16]| two[1].wrapping_sub(two[0]);
        let small = ports.windows(2).filter(|two| step(two) <= 200).count();
        assert!(small < 6, "{small} of 99 steps are small with {others} connections between: {ports:?}");
    }
}
