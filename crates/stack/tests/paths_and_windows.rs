//! What two connections to one host know of the path, what a small device lets them announce, and receive buffers that services
//! choose: as it shows in what leaves.

use bytes::Bytes;
use qanat_nic::{Clock, ManualClock, MemoryPlan, Pair, PairConfig, TransmitBuffer, TransmitOptions, Vnic, pair};
use qanat_stack::Setting;
use qanat_stack::{Config, ConnectOptions, ConnectionId, Event, ListenOptions, ListenerId, Stack};
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::tcp::{Flags, SequenceNumber};
use qanat_wire::tcp_options::Options;
use qanat_wire::{ethernet, icmpv4, ipv4, tcp};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Another address of the server's.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

struct Host {
    stack: Stack,
    vnic: Pair,
    events: Vec<Event>,
}

struct Link {
    clock: ManualClock,
    client: Host,
    server: Host,
    listener: ListenerId,
}

/// A segment on the link.
struct Sent {
    source: Ipv4Addr,
    ports: (u16, u16),
    sequence: SequenceNumber,
    flags: Flags,
    window: u16,
    options: Options,
    ip_length: usize,
    quoted: Vec<u8>,
}

fn parse(frame: &[u8]) -> Option<Sent> {
    if frame.get(12..14) != Some(&[8, 0]) {
        return None;
    }
    let packet = ipv4::Packet::parse(&frame[ethernet::HEADER_LENGTH..]).unwrap();
    let segment = tcp::Segment::parse(packet.payload()).unwrap();
    let quoted = frame[ethernet::HEADER_LENGTH..][..ipv4::HEADER_LENGTH + 8].to_vec();
    Some(Sent {
        source: packet.source(),
        ports: (segment.source_port(), segment.destination_port()),
        sequence: segment.sequence(),
        flags: segment.flags(),
        window: segment.window(),
        options: Options::parse(segment.options()).unwrap(),
        ip_length: packet.total_length(),
        quoted,
    })
}

impl Link {
    fn new(config: PairConfig) -> Link {
        let clock = ManualClock::new();
        let (near, far) = pair(config).unwrap();
        let host = |port: qanat_nic::PairPort, addresses: &[Ipv4Addr], seed: u8| {
            let vnic = port.open(MemoryPlan::default()).unwrap();
            let mut config = Config::new(addresses[0].into(), 24);
            config.addresses = addresses.iter().map(|address| ((*address).into(), 24)).collect();
            Host { stack: Stack::new(config, [seed; 32], &vnic, clock.now()), vnic, events: Vec::new() }
        };
        let (client, mut server) = (host(near, &[CLIENT], 1), host(far, &[SERVER, OTHER], 2));
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80));
        let listener = server.stack.listen(any, ListenOptions::default()).unwrap();
        Link { clock, client, server, listener }
    }

    /// Some milliseconds, in which all that leaves arrives; what left.
    fn run(&mut self, milliseconds: u32) -> Vec<Sent> {
        let mut seen = Vec::new();
        for _ in 0..milliseconds {
            self.clock.advance(Duration::from_millis(1));
            for host in [&mut self.client, &mut self.server] {
                let now = self.clock.now();
                host.stack.receive(now, &mut host.vnic);
                while let Some(event) = host.stack.next_event() {
                    match event {
                        Event::Data { connection, chunk } => host.stack.consume(now, connection, chunk),
                        event => host.events.push(event),
                    }
                }
            }
            for is_client in [true, false] {
                seen.extend(self.transmit(is_client));
            }
        }
        seen
    }

    /// One side's turn to send. What leaves is looked at on the way and sent on.
    fn transmit(&mut self, is_client: bool) -> Vec<Sent> {
        let (from, to) = match is_client {
            true => (&mut self.client, &mut self.server),
            false => (&mut self.server, &mut self.client),
        };
        from.stack.transmit(self.clock.now(), &mut from.vnic);
        let mut frames = Vec::new();
        while to.vnic.receive(&mut frames, 64) > 0 {}
        let seen = frames.iter().filter_map(|frame| parse(frame.bytes())).collect();
        for frame in frames {
            inject(&mut from.vnic, frame.bytes());
        }
        seen
    }

    fn connect(&mut self, server: Ipv4Addr, receive_window: Option<u32>) -> (ConnectionId, Vec<Sent>) {
        let options = ConnectOptions { receive_window, ..ConnectOptions::default() };
        let connection = self.client.stack.connect(self.clock.now(), (server, 80).into(), options).unwrap();
        let seen = self.run(10);
        assert!(self.client.events.iter().any(|event| matches!(event, Event::Connected { .. })));
        (connection, seen)
    }

    fn send(&mut self, connection: ConnectionId, length: usize) {
        self.client.stack.send(self.clock.now(), connection, Bytes::from(vec![7; length])).unwrap();
    }

    fn segment(&self, connection: ConnectionId) -> u16 {
        self.client.stack.connection_info(connection).unwrap().2.maximum_segment
    }
}

/// Puts a frame into the queue of the other end.
fn inject(vnic: &mut Pair, bytes: &[u8]) {
    let mut frame = vnic.transmit_pool().allocate(0).unwrap();
    frame.append_bytes(bytes).unwrap();
    assert!(vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).is_ok());
    vnic.flush();
}

/// The message of a router: what it quotes is too long for the next link.
fn too_big(to: &Sent, mac: [u8; 6], mtu: u16) -> Vec<u8> {
    let header = icmpv4::Header::DestinationUnreachable {
        code: icmpv4::UnreachableCode::FRAGMENTATION_NEEDED,
        next_hop_mtu: mtu,
    };
    let mut message = [0; 128];
    let length = header.emit(&mut message, &to.quoted).unwrap();
    let ip = ipv4::Header {
        source: OTHER,
        destination: to.source,
        protocol: Protocol::ICMPV4,
        payload_length: length,
        ttl: 60,
        identification: 0,
        dont_fragment: true,
        ecn: Ecn::NotCapable,
        dscp: 0,
    };
    let mut bytes = [&mac[..], &[2, 0, 0, 0, 0, 9, 8, 0], &[0; ipv4::HEADER_LENGTH]].concat();
    ip.emit(&mut bytes[ethernet::HEADER_LENGTH..]).unwrap();
    bytes.extend_from_slice(&message[..length]);
    bytes
}

/// RFC 8201 section 5.2, RFC 1191 section 3: what one connection has learnt of the path others to the same host know.
#[test]
fn a_path_mtu_is_the_hosts_not_the_connections() {
    let mut link = Link::new(PairConfig::default());
    let (first, _) = link.connect(SERVER, None);
    let (second, _) = link.connect(SERVER, None);
    let (elsewhere, _) = link.connect(OTHER, None);
    let before = link.segment(first);
    link.send(first, 1_000);
    let mut sent = link.transmit(true);
    let mac = link.client.vnic.capabilities().mac.0;
    // A message about what is not in flight is believed by nobody.
    let sequence = sent[0].sequence;
    let mut forged = too_big(&sent[0], mac, 900);
    let at = forged.len() - 4;
    forged[at..].copy_from_slice(&(sequence + 0x1000_0000).0.to_be_bytes());
    let (sum_at, end) = (ethernet::HEADER_LENGTH + ipv4::HEADER_LENGTH + 2, forged.len());
    forged[sum_at..sum_at + 2].fill(0);
    let sum = qanat_wire::checksum::finish(qanat_wire::checksum::sum(&forged[sum_at - 2..end]));
    forged[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    inject(&mut link.server.vnic, &forged);
    link.run(3);
    link.send(second, 10);
    link.run(3);
    assert_eq!((link.segment(first), link.segment(second)), (before, before));
    // The true one.
    link.send(first, 1_000);
    sent = link.transmit(true);
    let message = too_big(&sent[0], mac, 900);
    inject(&mut link.server.vnic, &message);
    link.run(3);
    assert_eq!(link.segment(first), 900 - 52);
    let longest = |seen: &[Sent], port: u16| {
        seen.iter().filter(|sent| sent.ports.0 == port).map(|sent| sent.ip_length).max().unwrap()
    };
    for (connection, expected) in [(second, 900), (elsewhere, 1_500)] {
        link.send(connection, 5_000);
        let port = link.client.stack.connection_info(connection).unwrap().0.port();
        assert_eq!(longest(&link.run(20), port), expected);
    }
    let (later, seen) = link.connect(SERVER, None);
    assert!(seen.iter().any(|sent| sent.flags == Flags::SYN.union(Flags::ECE).union(Flags::CWR) && sent.options.mss == Some(1_460)));
    link.send(later, 5_000);
    let port = link.client.stack.connection_info(later).unwrap().0.port();
    assert_eq!(longest(&link.run(20), port), 900);
    assert_eq!(link.client.stack.tcp_counters().path_mtus_shared, 2);
    // After ten minutes it is forgotten (RFC 8201 section 4).
    link.clock.advance(Duration::from_secs(601));
    let (fresh, _) = link.connect(SERVER, None);
    link.send(fresh, 5_000);
    let port = link.client.stack.connection_info(fresh).unwrap().0.port();
    assert_eq!(longest(&link.run(20), port), 1_500);
}

/// RFC 6691: the MSS announced is what the device takes, however little that is, and no packet is longer than it.
#[test]
fn a_small_device_announces_what_it_takes() {
    let mut link = Link::new(PairConfig { mtu: 72, ..PairConfig::default() });
    let (connection, mut seen) = link.connect(SERVER, None);
    link.send(connection, 500);
    seen.extend(link.run(200));
    let announced: Vec<u16> = seen.iter().filter_map(|sent| sent.options.mss).collect();
    assert_eq!(announced, [32, 32]);
    let longest = seen.iter().filter(|sent| !sent.flags.contains(Flags::SYN)).map(|sent| sent.ip_length).max();
    assert_eq!(longest, Some(72));
    assert_eq!(link.server.stack.tcp_counters().bytes_received, 500);
}

/// `SO_RCVBUF` of 10,000, as Linux has it: the windows of SYN and SYN-ACK, and their scales, are chosen for it.
#[test]
fn a_small_receive_buffer_shows_in_the_handshake() {
    let mut link = Link::new(PairConfig::default());
    let (large, seen) = link.connect(SERVER, None);
    let shown = |seen: &[Sent]| -> Vec<(u16, Option<u8>)> {
        let handshake = seen.iter().filter(|sent| sent.flags.contains(Flags::SYN));
        handshake.map(|sent| (sent.window, sent.options.window_scale)).collect()
    };
    assert_eq!(shown(&seen), [(65_535, Some(7)); 2]);
    link.server.stack.set_receive_window(link.listener, Some(10_000)).unwrap();
    let (small, seen) = link.connect(SERVER, Some(20_000));
    assert_eq!(shown(&seen), [(20_000, Some(0)), (10_000, Some(0))]);
    // Data comes through such a window, and it never grows.
    link.send(small, 200_000);
    let port = link.client.stack.connection_info(small).unwrap().0.port();
    let seen = link.run(500);
    let offered = seen.iter().filter(|sent| sent.ports == (80, port)).map(|sent| sent.window).max();
    assert!(offered.is_some_and(|offered| offered <= 10_000), "{offered:?}");
    assert_eq!(link.server.stack.tcp_counters().bytes_received, 200_000);
    // A connection under way keeps its scale, and its window grows no further.
    let accepted = link.server.events.iter().find_map(|event| match event {
        Event::Accepted { connection, .. } => Some(*connection),
        _ => None,
    });
    let accepted = accepted.unwrap();
    link.server.stack.set(link.clock.now(), accepted, Setting::ReceiveWindowMax(Some(70_000))).unwrap();
    link.send(large, 2_000_000);
    let port = link.client.stack.connection_info(large).unwrap().0.port();
    let seen = link.run(500);
    let offered = seen.iter().filter(|sent| sent.ports == (80, port)).map(|sent| u32::from(sent.window) << 7).max();
    assert!(offered.is_some_and(|offered| offered <= 70_016), "{offered:?}");
    assert_eq!(link.server.stack.tcp_counters().bytes_received, 2_200_000);
}
