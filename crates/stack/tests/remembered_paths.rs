//! Remembered paths decide nothing: a stack that remembers sends, delivers and counts exactly what one does that decides
//! everything anew, whatever frames come and whatever changes between them.

use proptest::prelude::*;
use qanat_nic::{
    Clock, Frame, ManualClock, MemoryPlan, Pair, PairConfig, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic,
    pair,
};
use qanat_stack::{Config, Counters, Event, Stack, UdpSocketId};
use qanat_wire::ethernet::{EtherType, MacAddress};
use qanat_wire::ip::Protocol;
use qanat_wire::{arp, checksum, ethernet, ipv4, udp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const OWN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// Ours, ours too, nobody's.
const LOCALS: [Ipv4Addr; 3] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3), Ipv4Addr::new(10, 0, 0, 9)];
/// Two neighbours, one behind the gateway, the gateway, and two that nobody can be.
const REMOTES: [Ipv4Addr; 6] = [
    Ipv4Addr::new(10, 0, 0, 5),
    Ipv4Addr::new(10, 0, 0, 6),
    Ipv4Addr::new(192, 0, 2, 1),
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv4Addr::new(10, 0, 0, 255),
    Ipv4Addr::new(127, 0, 0, 1),
];
const PORTS: [u16; 3] = [7, 53, 99];
const MTU: u16 = 600;

fn mac(number: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 1, number])
}

/// A datagram as a peer, or a forger, sends it.
#[derive(Clone, Debug)]
struct Datagram {
    remote: Ipv4Addr,
    local: Ipv4Addr,
    source_mac: u8,
    ports: (u16, u16),
    payload: Vec<u8>,
    odd: Odd,
}

/// What is unusual about it.
#[derive(Clone, Copy, Debug)]
enum Odd {
    Nothing,
    NoChecksum,
    /// As from a socket of this machine: only the pseudo-header's sum.
    PartialChecksum,
    Options,
    Padding,
    Tagged(u16),
    ToMac([u8; 6]),
    /// One byte of the finished frame is another.
    Flip(usize, u8),
    /// Only so much of it.
    Cut(usize),
}

impl Datagram {
    fn frame(&self) -> Vec<u8> {
        let pseudo_length = udp::HEADER_LENGTH + self.payload.len();
        let mut packet = vec![0; ipv4::HEADER_LENGTH + udp::HEADER_LENGTH];
        let header = ipv4::Header {
            source: self.remote,
            destination: self.local,
            protocol: Protocol::UDP,
            payload_length: pseudo_length,
            ttl: 60,
            identification: 7,
            dont_fragment: true,
            ecn: ipv4::Ecn::NotCapable,
            dscp: 0,
        };
        header.emit(&mut packet).unwrap();
        let (source_port, destination_port) = self.ports;
        let upper = udp::Header { source_port, destination_port, payload_length: self.payload.len() };
        upper.emit(&mut packet[20..]).unwrap();
        let pseudo = checksum::pseudo_header_v4(self.remote, self.local, Protocol::UDP, pseudo_length);
        match self.odd {
            Odd::NoChecksum => {}
            Odd::PartialChecksum => packet[26..28].copy_from_slice(&pseudo.to_be_bytes()),
            _ => udp::write_checksum(&mut packet[20..], pseudo, checksum::sum(&self.payload)).unwrap(),
        }
        packet.extend(&self.payload);
        if let Odd::Options = self.odd {
            packet.splice(20..20, [1, 1, 1, 0]);
            packet[0] = 0x46;
            let total = packet.len() as u16;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            packet[10..12].fill(0);
            let checksum = checksum::finish(checksum::sum(&packet[..24]));
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        let mut frame = vec![0; ethernet::HEADER_LENGTH];
        let destination = if let Odd::ToMac(bytes) = self.odd { MacAddress(bytes) } else { OWN_MAC };
        let header = ethernet::Header { destination, source: mac(self.source_mac), ethertype: EtherType::IPV4 };
        header.emit(&mut frame).unwrap();
        frame.extend(packet);
        match self.odd {
            Odd::Padding => frame.extend([0xee; 18]),
            Odd::Tagged(identifier) => {
                let [high, low] = identifier.to_be_bytes();
                frame.splice(12..12, [0x81, 0, high, low]);
            }
            Odd::Flip(place, by) => {
                let place = place % frame.len();
                frame[place] ^= by;
            }
            Odd::Cut(length) => frame.truncate(length),
            _ => {}
        }
        frame
    }
}

#[derive(Clone, Debug)]
enum Step {
    Datagrams(Vec<Datagram>),
    /// An ARP packet: operation, sender, sender's Ethernet address, target.
    Arp(u16, Ipv4Addr, u8, Ipv4Addr),
    Wait(Duration),
    Bind(Option<Ipv4Addr>, u16),
    Close(usize),
    /// A datagram of our own accord.
    Send(Ipv4Addr, usize),
}

fn odd() -> impl Strategy<Value = Odd> {
    prop_oneof![
        12 => Just(Odd::Nothing),
        1 => Just(Odd::NoChecksum),
        1 => Just(Odd::PartialChecksum),
        1 => Just(Odd::Options),
        1 => Just(Odd::Padding),
        1 => prop_oneof![Just(0u16), Just(5), Just(6)].prop_map(Odd::Tagged),
        1 => prop_oneof![Just([0xff; 6]), Just([2, 9, 9, 9, 9, 9])].prop_map(Odd::ToMac),
        4 => (prop_oneof![0usize..42, 0usize..700], 1u8..).prop_map(|(place, by)| Odd::Flip(place, by)),
        1 => (0usize..60).prop_map(Odd::Cut),
    ]
}

fn datagram() -> impl Strategy<Value = Datagram> {
    let payload =
        prop_oneof![8 => prop::collection::vec(any::<u8>(), 0..24), 1 => prop::collection::vec(any::<u8>(), 0..600)];
    let remote = prop_oneof![6 => Just(REMOTES[0]), 3 => Just(REMOTES[1]), 3 => Just(REMOTES[2]), 1 => prop::sample::select(&REMOTES[3..])];
    let local = prop_oneof![6 => Just(LOCALS[0]), 2 => Just(LOCALS[1]), 1 => Just(LOCALS[2])];
    let destination = prop_oneof![6 => Just(PORTS[0]), 2 => Just(PORTS[1]), 1 => Just(PORTS[2])];
    let source_mac = prop_oneof![6 => Just(5u8), 2 => Just(6u8), 1 => Just(7u8)];
    (remote, local, source_mac, 4_000u16..4_003, destination, payload, odd()).prop_map(
        |(remote, local, source_mac, source_port, destination_port, payload, odd)| Datagram {
            remote,
            local,
            source_mac,
            ports: (source_port, destination_port),
            payload,
            odd,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let any_remote = || prop::sample::select(&REMOTES[..4]);
    prop_oneof![
        10 => prop::collection::vec(datagram(), 1..6).prop_map(Step::Datagrams),
        4 => (1u16..3, any_remote(), 5u8..8, prop::sample::select(vec![LOCALS[0], LOCALS[1], REMOTES[0], REMOTES[1]]))
            .prop_map(|(operation, sender, mac, target)| Step::Arp(operation, sender, mac, target)),
        2 => (1u64..1_200).prop_map(|millis| Step::Wait(Duration::from_millis(millis))),
        1 => (1u64..40).prop_map(|seconds| Step::Wait(Duration::from_secs(seconds))),
        1 => (prop::option::of(prop::sample::select(&LOCALS[..])), prop::sample::select(&PORTS[..]))
            .prop_map(|(local, port)| Step::Bind(local, port)),
        1 => (0usize..3).prop_map(Step::Close),
        2 => (any_remote(), 0usize..620).prop_map(|(remote, length)| Step::Send(remote, length)),
    ]
}

/// What kind of host and device.
#[derive(Clone, Debug)]
struct Kind {
    shared_address: bool,
    vlan: Option<u16>,
    receive_checksum: ReceiveChecksum,
    transmit_checksum: bool,
    addresses: usize,
    /// The service answers in the frame it got, or copies.
    in_place: bool,
    paths: usize,
}

fn kind() -> impl Strategy<Value = Kind> {
    let receive = prop_oneof![
        2 => Just(ReceiveChecksum::Verify),
        1 => Just(ReceiveChecksum::AcceptPartial),
        1 => Just(ReceiveChecksum::Trust)
    ];
    let paths = prop_oneof![1 => Just(1usize), 2 => Just(64)];
    let vlan = prop_oneof![4 => Just(None), 1 => Just(Some(5u16))];
    (prop::bool::weighted(0.3), vlan, receive, any::<bool>(), 1usize..3, any::<bool>(), paths).prop_map(
        |(shared_address, vlan, receive_checksum, transmit_checksum, addresses, in_place, paths)| Kind {
            shared_address,
            vlan,
            receive_checksum,
            transmit_checksum,
            addresses,
            in_place,
            paths,
        },
    )
}

struct Host {
    stack: Stack,
    vnic: Pair,
    wire: Pair,
    sockets: Vec<UdpSocketId>,
    in_place: bool,
}

/// What can be seen of a step from outside.
#[derive(Debug, PartialEq, Default)]
struct Seen {
    frames: Vec<Vec<u8>>,
    events: Vec<(UdpSocketId, SocketAddr, Vec<u8>)>,
    results: Vec<String>,
}

impl Host {
    fn new(kind: &Kind, paths: usize, clock: &ManualClock) -> Host {
        let pair_config = PairConfig {
            mtu: MTU,
            macs: [OWN_MAC, mac(0)],
            transmit_checksum: kind.transmit_checksum,
            receive_checksum: kind.receive_checksum,
            ..PairConfig::default()
        };
        let (near, far) = pair(pair_config).unwrap();
        let plan = MemoryPlan { receive_frames: 64, transmit_frames: 64, ..MemoryPlan::default() };
        let (vnic, wire) = (near.open(plan).unwrap(), far.open(plan).unwrap());
        let mut config = Config::new(LOCALS[0].into(), 24);
        config.addresses.extend(LOCALS[1..kind.addresses].iter().map(|address| (IpAddr::V4(*address), 24)));
        config.gateways.push(REMOTES[3].into());
        (config.connections_max, config.timers_max, config.udp_sockets_max) = (4, 4, 4);
        (config.half_open_max, config.time_wait_max) = (4, 4);
        (config.shared_address, config.vlan, config.remembered_paths_max) = (kind.shared_address, kind.vlan, paths);
        let mut stack = Stack::new(config, [9; 32], &vnic, clock.now());
        let socket = stack.bind_udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORTS[0])).unwrap();
        Host { stack, vnic, wire, sockets: vec![socket], in_place: kind.in_place }
    }

    fn inject(&mut self, bytes: &[u8]) {
        let mut frame = self.wire.transmit_pool().allocate(0).unwrap();
        frame.append(bytes.len()).unwrap().copy_from_slice(bytes);
        // Longer than the device takes: lost on the wire, for both.
        drop(self.wire.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()));
    }

    fn turn(&mut self, clock: &ManualClock, seen: &mut Seen) {
        let now = clock.now();
        self.wire.flush();
        self.stack.receive(now, &mut self.vnic);
        while let Some(event) = self.stack.next_event() {
            let Event::Datagram { socket, peer, chunk } = event else { continue };
            seen.events.push((socket, peer, chunk.bytes().to_vec()));
            let result = if self.in_place {
                self.stack.send_chunk_to(now, &mut self.vnic, socket, peer, chunk)
            } else {
                self.stack.send_to(now, &mut self.vnic, socket, peer, chunk.bytes())
            };
            seen.results.push(format!("{result:?}"));
        }
        self.stack.transmit(now, &mut self.vnic);
        let mut frames: Vec<Frame> = Vec::new();
        self.wire.receive(&mut frames, 64);
        seen.frames.extend(frames.iter().map(|frame| frame.bytes().to_vec()));
    }

    fn step(&mut self, clock: &ManualClock, step: &Step) -> Seen {
        let mut seen = Seen::default();
        match step {
            Step::Datagrams(datagrams) => datagrams.iter().for_each(|datagram| self.inject(&datagram.frame())),
            Step::Arp(operation, sender, sender_mac, target) => {
                let packet = arp::Header {
                    operation: arp::Operation(*operation),
                    sender_hardware: mac(*sender_mac),
                    sender_protocol: *sender,
                    target_hardware: MacAddress::default(),
                    target_protocol: *target,
                };
                let mut bytes = [0; ethernet::HEADER_LENGTH + arp::PACKET_LENGTH];
                let header = ethernet::Header {
                    destination: MacAddress::BROADCAST,
                    source: mac(*sender_mac),
                    ethertype: EtherType::ARP,
                };
                header.emit(&mut bytes).unwrap();
                packet.emit(&mut bytes[ethernet::HEADER_LENGTH..]).unwrap();
                self.inject(&bytes);
            }
            Step::Wait(_) => {}
            Step::Bind(local, port) => {
                let local = SocketAddr::new(local.unwrap_or(Ipv4Addr::UNSPECIFIED).into(), *port);
                let result = self.stack.bind_udp(local);
                seen.results.push(format!("{result:?}"));
                self.sockets.extend(result.ok());
            }
            Step::Close(index) => {
                if *index < self.sockets.len() {
                    let socket = self.sockets.remove(*index);
                    seen.results.push(format!("{:?}", self.stack.close_udp(socket)));
                }
            }
            Step::Send(remote, length) => {
                if let Some(&socket) = self.sockets.first() {
                    let peer = SocketAddr::new((*remote).into(), 4_000);
                    let result = self.stack.send_to(clock.now(), &mut self.vnic, socket, peer, &vec![3; *length]);
                    seen.results.push(format!("{result:?}"));
                }
            }
        }
        self.turn(clock, &mut seen);
        seen
    }

    fn neighbours(&self) -> Vec<(IpAddr, Option<MacAddress>)> {
        let mut neighbours: Vec<_> = self.stack.neighbours().collect();
        neighbours.sort();
        neighbours
    }

    fn counters(&self) -> Counters {
        *self.stack.counters()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn remembering_changes_nothing(kind in kind(), steps in prop::collection::vec(step(), 1..60)) {
        let clock = ManualClock::new();
        let [mut remembers, mut decides] = [kind.paths, 0].map(|paths| Host::new(&kind, paths, &clock));
        for step in &steps {
            if let Step::Wait(duration) = step {
                clock.advance(*duration);
            }
            // Some wrong things look different after a moment.
            clock.advance(Duration::from_micros(10));
            let (ours, theirs) = (remembers.step(&clock, step), decides.step(&clock, step));
            prop_assert_eq!(ours, theirs, "{:?}", step);
            prop_assert_eq!(remembers.counters(), decides.counters(), "{:?}", step);
            prop_assert_eq!(remembers.neighbours(), decides.neighbours(), "{:?}", step);
        }
        for host in [&remembers, &decides] {
            let in_use = host.vnic.receive_pool().in_use_count() + host.vnic.transmit_pool().in_use_count();
            prop_assert_eq!(in_use as usize, host.stack.usage().pending_frames);
        }
    }
}
