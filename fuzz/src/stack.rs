//! The whole stack: arbitrary frames, segments close to what a connection expects, commands of a service, and time.
//!
//! What must hold: nothing panics; every frame sent is well-formed, has right checksums and fits the MTU; events come in
//! their order; no more is acknowledged than was sent; and after everything is closed and time has passed, every buffer,
//! slot and timer is back.

use crate::repair;
use crate::values::Values;
use bytes::Bytes;
use qanat_nic::{
    Clock, Frame, ManualClock, MemoryPlan, Pair, PairConfig, Pool, TransmitBuffer, TransmitOptions, Vnic, pair,
};
use qanat_stack::{Chunk, Config, ConnectOptions, ConnectionId, Event, ListenOptions, ListenerId, Stack, UdpSocketId};
use qanat_wire::ethernet::{EtherType, MacAddress};
use qanat_wire::ip::Protocol;
use qanat_wire::{checksum, ethernet, ipv4, ipv6, ipv6_extension, tcp};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const MTU: u16 = 1_500;
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 80;
const PEER_PORT: u16 = 4_000;
const RECEIVE_FRAMES: u32 = 96;
const HELD_MAX: usize = 24;
/// Turns until everything must be back: more than there are timers and retransmissions.
const TURNS_MAX: u32 = 20_000;

/// What the service knows of a connection.
#[derive(Default)]
struct Known {
    sent: u64,
    acked: u64,
    peer_closed: bool,
    /// The stack has told that it is there.
    has_begun: bool,
}

struct Bench {
    clock: ManualClock,
    stack: Stack,
    device: Pair,
    pools: [Pool; 2],
    /// The other end of the cable.
    wire: Pair,
    frames: Vec<Frame>,
    known: HashMap<ConnectionId, Known>,
    held: Vec<(ConnectionId, Chunk)>,
    listener: Option<ListenerId>,
    datagrams: UdpSocketId,
    /// What the peer's next segment should carry: its SEQ and ACK.
    sequence: u32,
    acknowledgment: u32,
}

impl Bench {
    fn new(flags: u8) -> Option<Bench> {
        let (near, far) = pair(PairConfig { mtu: MTU, slots: 64, ..PairConfig::default() }).ok()?;
        let plan = MemoryPlan { receive_frames: RECEIVE_FRAMES, transmit_frames: 96, ..MemoryPlan::default() };
        let (device, wire) = (near.open(plan).ok()?, far.open(plan).ok()?);
        let clock = ManualClock::new();
        // So that sequence numbers and timestamps wrap in some inputs.
        clock.advance(Duration::from_secs(1 + u64::from(flags >> 6) * 10_000));
        let mut config = Config::new(IpAddr::V4(OWN), 24);
        config.addresses.push(("fd00::2".parse().ok()?, 64));
        config.connections_max = 6;
        config.half_open_max = 3;
        config.time_wait_max = 3;
        config.listeners_max = 2;
        config.udp_sockets_max = 2;
        config.timers_max = 4;
        config.tcp.receive_frames_max = 24;
        config.tcp.send_pieces_max = 16;
        config.tcp.receive_window = if flags & 1 == 0 { 2_048 } else { 100_000 };
        config.tcp.sack = flags & 2 == 0;
        config.tcp.timestamps = flags & 4 != 0;
        config.tcp.pacing = flags & 8 != 0;
        config.tcp.no_delay = flags & 16 == 0;
        config.tcp.urgent_data = flags & 1 != 0;
        config.tcp.keepalive = (flags & 32 != 0).then(|| Duration::from_secs(10));
        let mut stack = Stack::new(config, [7; 32], &device, clock.now());
        let listener = stack.listen(SocketAddr::new(IpAddr::V4(OWN), PORT), ListenOptions::default()).ok();
        let datagrams = stack.bind_udp(SocketAddr::new(IpAddr::V4(OWN), 53)).ok()?;
        let pools = [device.receive_pool().clone(), device.transmit_pool().clone()];
        let (frames, known, held) = (Vec::new(), HashMap::new(), Vec::new());
        let (sequence, acknowledgment) = (1_000, 0);
        Some(Bench {
            datagrams,
            clock,
            stack,
            device,
            pools,
            wire,
            frames,
            known,
            held,
            listener,
            sequence,
            acknowledgment,
        })
    }

    fn inject(&mut self, bytes: &[u8]) {
        let Some(mut frame) = self.wire.transmit_pool().allocate(0) else { return };
        let Some(target) = frame.append(bytes.len()) else { return };
        target.copy_from_slice(bytes);
        // A full ring loses it, as wires do.
        drop(self.wire.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()));
        self.wire.flush();
    }

    /// One turn of the runtime.
    fn turn(&mut self) {
        let now = self.clock.now();
        self.stack.receive(now, &mut self.device);
        while let Some(event) = self.stack.next_event() {
            self.on_event(event);
        }
        self.stack.transmit(now, &mut self.device);
        let mut frames = std::mem::take(&mut self.frames);
        while self.wire.receive(&mut frames, 64) > 0 {
            for frame in frames.drain(..) {
                self.check_sent(frame.bytes());
            }
        }
        self.frames = frames;
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted { connection, .. } | Event::Connected { connection } => {
                // What was sent before leaves now.
                let known = self.known.entry(connection).or_default();
                assert!(!std::mem::replace(&mut known.has_begun, true), "a connection begins twice");
            }
            Event::Data { connection, chunk } => {
                let known = self.known.get(&connection).expect("data of an open connection");
                assert!(!known.peer_closed && !chunk.is_empty(), "data after the FIN, or none");
                self.held.push((connection, chunk));
                if self.held.len() > HELD_MAX {
                    self.consume();
                }
            }
            Event::Acked { connection, bytes } => {
                let known = self.known.get_mut(&connection).expect("Acked of an open connection");
                known.acked += u64::from(bytes);
                assert!(bytes > 0 && known.acked <= known.sent, "{} acked of {}", known.acked, known.sent);
            }
            Event::PeerClosed { connection } => {
                let known = self.known.get_mut(&connection).expect("PeerClosed of an open connection");
                assert!(!std::mem::replace(&mut known.peer_closed, true), "PeerClosed twice");
            }
            Event::Closed { connection, .. } => {
                assert!(self.known.remove(&connection).is_some(), "Closed twice, or never opened");
            }
            Event::Urgent { connection, ahead } => {
                assert!(self.known.contains_key(&connection), "urgent data of an open connection");
                assert!(ahead <= 100_000 + 65_535, "further ahead than window and pointer reach");
            }
            Event::Datagram { .. } | Event::Timer { .. } | Event::AddressConflict { .. } => {}
            Event::Read { .. } | Event::Written { .. } | Event::Flushed { .. } | Event::Zeroed { .. } => {
                panic!("a stack has no disks")
            }
        }
    }

    fn consume(&mut self) {
        for (connection, chunk) in self.held.drain(..) {
            self.stack.consume(self.clock.now(), connection, chunk);
        }
    }

    /// What the stack sends is right, and tells the peer what to say next.
    fn check_sent(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= usize::from(MTU) + ethernet::HEADER_LENGTH, "{} bytes in a frame", bytes.len());
        let frame = ethernet::Frame::parse(bytes).expect("a frame");
        match frame.ethertype() {
            EtherType::IPV4 => {
                let packet = ipv4::Packet::parse(frame.payload()).expect("an IPv4 packet");
                assert!(packet.checksum_is_valid(), "IPv4 checksum");
                if packet.protocol() == Protocol::TCP {
                    let segment = tcp::Segment::parse(packet.payload()).expect("a segment");
                    assert!(segment.checksum_is_valid(packet.pseudo_header_sum()), "TCP checksum");
                    self.follow(&segment);
                }
            }
            EtherType::IPV6 => {
                let packet = ipv6::Packet::parse(frame.payload()).expect("an IPv6 packet");
                let upper = ipv6_extension::walk(&packet).expect("sound extension headers");
                if upper.protocol == Protocol::TCP {
                    let length = upper.payload.len();
                    let pseudo =
                        checksum::pseudo_header_v6(packet.source(), packet.destination(), upper.protocol, length);
                    let segment = tcp::Segment::parse(upper.payload).expect("a segment");
                    assert!(segment.checksum_is_valid(pseudo), "TCP checksum over IPv6");
                }
            }
            EtherType::ARP => {
                qanat_wire::arp::Packet::parse(frame.payload()).expect("an ARP packet");
            }
            other => panic!("a frame of type {other:?}"),
        }
    }

    fn follow(&mut self, segment: &tcp::Segment<'_>) {
        if segment.destination_port() == PEER_PORT && !segment.flags().contains(tcp::Flags::RST) {
            self.acknowledgment = (segment.sequence() + segment.sequence_length()).0;
            self.sequence = segment.acknowledgment().0;
        }
    }

    /// A segment whose numbers are near those expected.
    fn segment(&mut self, values: &mut Values<'_>) {
        let flags = values.u8();
        let scale = values.u8();
        let offset = |value: u16, shift: u8| (i32::from(value as i16) << (shift % 17)) as u32;
        let (sequence_offset, acknowledgment_offset) = match scale & 0xc0 {
            0 => (0, 0),
            0x40 => (offset(values.u16(), scale & 31), 0),
            0x80 => (0, offset(values.u16(), scale & 31)),
            _ => (offset(values.u16(), scale & 31), offset(values.u16(), scale & 7)),
        };
        let window = values.u16();
        let options_length = usize::from(values.u8() % 11) * 4;
        let mut options = values.bytes(options_length).to_vec();
        options.resize(options_length, 1);
        let payload_length = usize::from(values.u16() % 1_460).min(1_460 - options_length);
        let mut body = Vec::with_capacity(60 + payload_length);
        body.extend(PEER_PORT.to_be_bytes());
        body.extend(PORT.to_be_bytes());
        body.extend(self.sequence.wrapping_add(sequence_offset).to_be_bytes());
        body.extend(self.acknowledgment.wrapping_add(acknowledgment_offset).to_be_bytes());
        body.extend([((20 + options_length) as u8 / 4) << 4, flags]);
        body.extend(window.to_be_bytes());
        body.extend([0; 4]);
        body.extend(options);
        body.resize(body.len() + payload_length, flags);
        let mut bytes = self.frame_head(0x0800);
        bytes.extend([0x45, 0]);
        bytes.extend(((20 + body.len()) as u16).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        bytes.extend(PEER.octets());
        bytes.extend(OWN.octets());
        bytes.extend(body);
        repair::frame(&mut bytes);
        self.inject(&bytes);
    }

    fn frame_head(&self, ethertype: u16) -> Vec<u8> {
        let mut bytes = Vec::from(self.device.capabilities().mac.0);
        let MacAddress(source) = self.wire.capabilities().mac;
        bytes.extend(source);
        bytes.extend(ethertype.to_be_bytes());
        bytes
    }

    /// Bytes as they are, but for their destination and their checksums.
    fn frame(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let MacAddress(own) = self.device.capabilities().mac;
        if let Some(destination) = bytes.get_mut(..6)
            && destination[0] & 1 == 0
        {
            destination.copy_from_slice(&own);
        }
        repair::frame(&mut bytes);
        self.inject(&bytes);
    }

    /// A command of the service.
    fn command(&mut self, values: &mut Values<'_>) {
        let now = self.clock.now();
        let choice = values.u8();
        let mut open: Vec<ConnectionId> = self.stack.connections().collect();
        open.sort();
        let chosen = open.get(usize::from(values.u8()) % open.len().max(1)).copied();
        match (choice % 8, chosen) {
            (0 | 1, Some(connection)) => {
                let length = values.u16() % 4_000 + 1;
                let result = self.stack.send(now, connection, Bytes::from(vec![choice; usize::from(length)]));
                if result.is_ok() {
                    if choice & 8 != 0 {
                        self.stack.mark_urgent(now, connection).expect("an open connection");
                    }
                    self.known.entry(connection).or_default().sent += u64::from(length);
                }
            }
            (2, Some(connection)) => drop(self.stack.shutdown(now, connection)),
            (3, Some(connection)) if choice & 8 == 0 => drop(self.stack.close(now, connection)),
            (3, Some(connection)) => drop(self.stack.abort(now, connection)),
            (4, _) => self.consume(),
            (5, _) => {
                let local = Some(SocketAddr::new(IpAddr::V4(OWN), PORT));
                let peer = SocketAddr::new(IpAddr::V4(PEER), PEER_PORT);
                let options = ConnectOptions { local: local.filter(|_| choice & 8 == 0), ..ConnectOptions::default() };
                if let Ok(connection) = self.stack.connect(now, peer, options) {
                    self.known.insert(connection, Known::default());
                }
            }
            (6, _) if choice & 8 != 0 => {
                let peer = SocketAddr::new(IpAddr::V4(PEER), PEER_PORT);
                let payload = vec![choice; usize::from(values.u16())];
                let _ = self.stack.send_in_fragments(now, &mut self.device, self.datagrams, peer, &payload);
            }
            (6, _) => drop(self.stack.set_timer(now, Duration::from_millis(u64::from(values.u16())), 1)),
            (7, _) if choice & 0xf8 == 0 => {
                if let Some(listener) = self.listener.take() {
                    self.stack.close_listener(listener).expect("an open listener");
                }
            }
            _ => {}
        }
    }

    /// SYN and ACK, so that most inputs have a connection to talk to.
    fn handshake(&mut self) {
        self.segment(&mut Values::new(&[2, 0, 255, 255, 2, 2, 4, 5, 0xb4, 1, 1, 4, 2, 0, 0]));
        self.turn();
        // ARP: the stack asks who the peer is, unless the SYN has told it.
        let mut reply = self.frame_head(0x0806);
        let MacAddress(peer) = self.wire.capabilities().mac;
        reply.extend([0, 1, 8, 0, 6, 4, 0, 2]);
        reply.extend(peer);
        reply.extend(PEER.octets());
        reply.extend(self.device.capabilities().mac.0);
        reply.extend(OWN.octets());
        self.inject(&reply);
        self.turn();
        self.segment(&mut Values::new(&[16, 0, 255, 255, 0, 0, 0]));
        self.turn();
    }

    /// Everything comes back once all is closed and all time-outs are over.
    fn finish(mut self) {
        self.held.clear();
        for _ in 0..TURNS_MAX {
            let open: Vec<ConnectionId> = self.stack.connections().collect();
            for connection in open {
                let _ = self.stack.abort(self.clock.now(), connection);
            }
            self.turn();
            self.held.clear();
            let now = self.clock.now();
            match self.stack.next_deadline() {
                None => break,
                Some(deadline) if deadline > now => self.clock.advance_to(deadline),
                Some(_) => self.clock.advance(Duration::from_micros(100)),
            }
            let usage = self.stack.usage();
            if usage.flows + usage.timers + usage.pending_frames + usage.events == 0 && self.frames_in_use() == [0, 0] {
                break;
            }
        }
        let usage = self.stack.usage();
        let held =
            (usage.connections, usage.half_open, usage.time_wait, usage.flows, usage.timers, usage.service_timers);
        assert_eq!(held, (0, 0, 0, 0, 0, 0), "left over: {usage:?}");
        assert_eq!((usage.pending_frames, usage.events), (0, 0), "left over: {usage:?}");
        assert!(self.known.is_empty(), "connections gone without Closed: {}", self.known.len());
        assert_eq!(self.frames_in_use(), [0, 0], "frames never given back (receive, transmit)");
    }

    fn frames_in_use(&self) -> [u32; 2] {
        self.pools.each_ref().map(Pool::in_use_count)
    }
}

/// Runs an input: the first byte configures, then commands follow, each led by a byte that says its kind.
pub fn stack(data: &[u8]) {
    let mut values = Values::new(data);
    let flags = values.u8();
    let Some(mut bench) = Bench::new(flags) else { return };
    if values.u8() & 3 != 0 {
        bench.handshake();
    }
    while !values.is_empty() {
        match values.u8() % 8 {
            0 => {
                let length = usize::from(values.u16() % 1_600);
                let bytes = values.bytes(length);
                bench.frame(bytes);
            }
            1..=3 => bench.segment(&mut values),
            4 | 5 => bench.command(&mut values),
            6 => {
                let shift = values.u8();
                bench.clock.advance(Duration::from_micros(u64::from(values.u8()) << (shift % 26)));
                bench.turn();
            }
            _ => bench.turn(),
        }
    }
    bench.turn();
    bench.finish();
}
