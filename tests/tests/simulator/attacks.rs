//! Attacks: connections under way go on, and memory stays within its bounds, by number.

use super::raw::{CLIENT, RawNode, SERVER, Segment, inject, packet, segment};
use super::siege::{
    ACK, FIN, HALF_OPEN_MAX, LIVE, MILLISECOND, RST, SYN, anyone, besiege, blank, config, network, under_attack,
};
use qanat::CloseReason;
use qanat_nic::Time;
use qanat_stack::tcp::TcpConfig;
use qanat_tests::random::Random;
use qanat_tests::sim::streams::{Drain, FlowPlan, PORT, Streams, client_port, own_address};
use qanat_tests::sim::{Network, Outcome, Run, StackNode, World, pattern};
use std::net::IpAddr;
use std::time::Duration;

/// A million SYNs per second while 1,000 connections are open, or opened: they are served as if nothing were.
#[test]
fn syn_flood() {
    const PER_MILLISECOND: u64 = 1_000;
    let quiet = besiege(1_000, 100_000, |_, _, _| ()).milliseconds;
    let mut sent = 0u64;
    let flooded = besiege(1_000, 100_000, |random, device, _| {
        for _ in 0..PER_MILLISECOND {
            sent += 1;
            let source = anyone(random);
            let options = &[2, 4, 5, 0xb4][..];
            let syn = Segment { sequence: random.draw() as u32, flags: SYN, options, ..blank(source) };
            inject(device, &segment(&syn));
        }
    });
    let counters = flooded.server.stack.counters();
    println!("{sent} SYNs in {} ms, {quiet} ms without; {counters:?}", flooded.milliseconds);
    assert!(flooded.connections_peak >= 950, "only {} connections at once", flooded.connections_peak);
    assert!(flooded.milliseconds <= 2 * quiet, "{} ms with the flood, {quiet} ms without", flooded.milliseconds);
    assert!(counters.tcp_syns_received >= sent);
    assert!(counters.tcp_cookies_sent > sent - 10 * HALF_OPEN_MAX as u64);
    assert!(counters.tcp_cookies_accepted > 0, "nobody came in by cookie while the table was full");
}

#[test]
fn acknowledgement_flood() {
    let server = under_attack(LIVE, |random, device, _| {
        for index in 0..200 {
            // To the listener, to closed ports, and into live connections with numbers made up.
            let source = match index % 3 {
                0 | 1 => anyone(random),
                _ => (CLIENT, client_port(random.between(0, LIVE as u64 - 1) as usize)),
            };
            let port = if index % 3 == 1 { 99 } else { PORT };
            let (sequence, acknowledgment) = (random.draw() as u32, random.draw() as u32);
            let ack = Segment { sequence, acknowledgment, destination: (SERVER, port), ..blank(source) };
            inject(device, &segment(&ack));
        }
    })
    .server;
    let counters = server.stack.counters();
    println!("{counters:?}\n{:?}", server.stack.tcp_counters());
    assert!(counters.tcp_no_connection > 10_000 && counters.tcp_resets_rate_limited > 0);
    // At most 255 to each of 256 places of the table in a period of a second; the attack lasts less than two.
    assert!(counters.tcp_resets_sent < 2 * 256 * 255, "resets aren't limited: {}", counters.tcp_resets_sent);
}

/// RFC 5961: blind resets, SYNs and data. RFC 5927: blind ICMP.
#[test]
fn blind_segments() {
    let server = under_attack(LIVE, |random, device, milliseconds| {
        // Connections that are open: whoever guesses the ports of one to come can always be there first.
        let count = if milliseconds < 50 { 0 } else { 120 };
        for index in 0..count {
            let source = (CLIENT, client_port(random.between(0, LIVE as u64 / 2 - 1) as usize));
            let flags = [RST, RST | ACK, SYN, SYN | ACK, ACK, FIN | ACK][index % 6];
            let payload = if index % 6 >= 4 { &[0x55; 100][..] } else { &[] };
            let (sequence, acknowledgment) = (random.draw() as u32, random.draw() as u32);
            let blind = Segment { sequence, acknowledgment, flags, payload, ..blank(source) };
            inject(device, &segment(&blind));
            // What the server would have sent, quoted with a sequence number made up.
            let quoted = Segment {
                source: (SERVER, PORT),
                destination: source,
                sequence: random.draw() as u32,
                ..blank(source)
            };
            let (kind, code, mtu) = [(3, 1, 0), (3, 2, 0), (3, 3, 0), (3, 4, 68), (11, 0, 0), (3, 4, 300)][index % 6];
            inject(device, &icmp(kind, code, mtu, &segment(&quoted)[14..14 + 28]));
        }
    })
    .server;
    let counters = server.stack.counters();
    println!("{counters:?}\n{:?}", server.stack.tcp_counters());
    assert!(counters.icmp_errors_received > 1_000);
    assert!(server.stack.tcp_counters().challenge_acks_sent > 0);
}

fn icmp(kind: u8, code: u8, mtu: u16, quoted: &[u8]) -> Vec<u8> {
    let mut body = vec![kind, code, 0, 0, 0, 0];
    body.extend(mtu.to_be_bytes());
    body.extend(quoted);
    let sum = qanat_wire::checksum::finish(qanat_wire::checksum::sum(&body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    packet(CLIENT, SERVER, 1, &body)
}

/// Frames that are no packets, packets that are no segments.
#[test]
fn garbage() {
    under_attack(LIVE, |random, device, _| {
        for index in 0..100 {
            let mut bytes = segment(&Segment { payload: &[1; 64], ..blank((CLIENT, client_port(index % LIVE))) });
            for _ in 0..random.between(1, 8) {
                let at = random.between(12, bytes.len() as u64 - 1) as usize;
                bytes[at] = random.draw() as u8;
            }
            bytes.truncate(random.between(14, bytes.len() as u64) as usize);
            inject(device, &bytes);
        }
    });
}

/// The raw client's connection to the server.
pub struct RawPeer {
    world: World<RawNode, StackNode<Streams>>,
    /// SND.NXT of the raw side, after the handshake.
    pub send_next: u32,
    /// RCV.NXT.
    pub receive_next: u32,
}

impl RawPeer {
    /// Connects with `options` in the SYN.
    pub fn connect(plan: FlowPlan, tcp: TcpConfig, options: &[u8]) -> RawPeer {
        RawPeer::try_connect(plan, tcp, options).expect("a SYN-ACK")
    }

    /// The same; `None` if the SYN is not answered.
    pub fn try_connect(plan: FlowPlan, tcp: TcpConfig, options: &[u8]) -> Option<RawPeer> {
        let server = IpAddr::V4(SERVER);
        let mut world = World::new(
            &Run { seed: 3, pcap: None },
            Time::from_millis(1_000),
            &Network::default(),
            |_, _| RawNode::default(),
            |device, now| {
                let config = config(SERVER, None, tcp);
                StackNode::new(config, [5; 32], Streams::new(1, server, &[plan]), device, now)
            },
        );
        let send_next = 0xffff_ff00u32;
        let syn =
            Segment { sequence: send_next, flags: SYN, window: 65_535, options, ..blank((CLIENT, client_port(0))) };
        inject(&mut world.a.device, &segment(&syn));
        world.run(world.now_plus(MILLISECOND), |_, _| false);
        let answer = world.a.node.segments.pop()?;
        assert_eq!(answer.flags & (SYN | ACK), SYN | ACK);
        assert_eq!(answer.acknowledgment, send_next.wrapping_add(1));
        let mut peer =
            RawPeer { world, send_next: send_next.wrapping_add(1), receive_next: answer.sequence.wrapping_add(1) };
        peer.send(ACK, peer.send_next, peer.receive_next, 65_535, &[], &[]);
        Some(peer)
    }

    /// What the server's TCP counted.
    pub fn counters(&self) -> &qanat_stack::tcp::Counters {
        self.world.b.node.stack.tcp_counters()
    }

    /// Lets go of what has come.
    pub fn forget_segments(&mut self) {
        self.world.a.node.segments.clear();
    }

    /// Sends a segment.
    pub fn send(&mut self, flags: u8, sequence: u32, acknowledgment: u32, window: u16, options: &[u8], payload: &[u8]) {
        let made =
            Segment { sequence, acknowledgment, flags, window, options, payload, ..blank((CLIENT, client_port(0))) };
        inject(&mut self.world.a.device, &segment(&made));
    }

    /// Lets `duration` pass.
    pub fn step(&mut self, duration: Duration) {
        self.world.run(self.world.now_plus(duration), |_, _| false);
    }

    /// Bytes the server's connections hold, frames not counted.
    pub fn memory(&self) -> usize {
        let stack = &self.world.b.node.stack;
        stack.connections().filter_map(|connection| stack.connection_memory(connection)).sum()
    }

    /// Acknowledges honestly, every `every` milliseconds, until the server's stream is complete; segments that took.
    pub fn finish(&mut self, start: u32, length: u64, every: u32) -> u64 {
        let mut segments = 0;
        for _ in 0..100_000 {
            let mut edge = self.receive_next.wrapping_add(65_535);
            segments += self.world.a.node.segments.len() as u64;
            self.take(start, &mut edge);
            self.send(ACK, self.send_next, self.receive_next, 65_535, &[], &[]);
            self.step(MILLISECOND * every);
            if self.receive_next == start.wrapping_add(length as u32 + 1) {
                self.send(FIN | ACK, self.send_next, self.receive_next, 65_535, &[], &[]);
                self.step(Duration::from_millis(10));
                let flow = &self.world.b.node.service.flows[0];
                assert_eq!((flow.closed, flow.acked()), (Some(CloseReason::Finished), length));
                return segments;
            }
        }
        let stack = &self.world.b.node.stack;
        let info = stack.connections().next().and_then(|connection| stack.connection_info(connection));
        panic!("the server's stream stands at {} of {length}: {info:?}", self.receive_next.wrapping_sub(start));
    }

    /// Takes what has come, checks it against the server's stream, and moves RCV.NXT over what is in order.
    fn take(&mut self, start: u32, edge: &mut u32) {
        for got in std::mem::take(&mut self.world.a.node.segments) {
            assert_eq!(got.flags & RST, 0, "the server resets");
            let end = got.sequence.wrapping_add(got.payload.len() as u32);
            let offset = got.sequence.wrapping_sub(start);
            if !got.payload.is_empty() {
                let difference = pattern::first_difference(FlowPlan::salt(0, 1), u64::from(offset), &got.payload);
                assert_eq!(difference, None, "at {offset}");
                // One byte over the edge would be a window probe of the old kind.
                assert!(end.wrapping_sub(*edge) as i32 <= 1, "{} bytes over the window", end.wrapping_sub(*edge));
            }
            if got.sequence.wrapping_sub(self.receive_next) as i32 <= 0
                && end.wrapping_sub(self.receive_next) as i32 >= 0
            {
                self.receive_next = end.wrapping_add(u32::from(got.flags & FIN != 0));
            }
        }
    }
}

/// Random SACK blocks: inverted, of nothing, over everything, of single bytes; with the smallest segments (CVE-2019-11477).
#[test]
fn sack_abuse() {
    let length = 60_000;
    let options = [2, 4, 0, 48, 1, 1, 4, 2];
    let mut peer = RawPeer::connect(FlowPlan::plain([0, length]), TcpConfig::default(), &options);
    let start = peer.receive_next;
    let mut random = Random::new(11);
    let mut memory_peak = 0;
    for round in 0..20_000u32 {
        let mut sack = vec![1, 1, 5, 34];
        for _ in 0..4 {
            let first = match random.between(0, 3) {
                0 => random.draw() as u32,
                _ => start.wrapping_add(random.between(0, length + 100) as u32),
            };
            let size = random.pick(&[0, 1, 2, 48, 1_000, 70_000, u32::MAX]);
            sack.extend(first.to_be_bytes());
            sack.extend(first.wrapping_add(size).to_be_bytes());
        }
        // Slowly, the honest part goes on.
        let acknowledgment = peer.receive_next;
        peer.send(ACK, peer.send_next, acknowledgment, 65_535, &sack, &[]);
        if round % 8 == 0 {
            peer.step(MILLISECOND);
            memory_peak = memory_peak.max(peer.memory());
            if round % 400 == 0 {
                let mut edge = peer.receive_next.wrapping_add(65_535);
                peer.take(start, &mut edge);
            } else {
                peer.world.a.node.segments.clear();
            }
        }
    }
    println!("at most {memory_peak} bytes; {:?}", peer.world.b.node.stack.tcp_counters());
    assert!(memory_peak < 256 * 1024, "{memory_peak} bytes for one connection's scoreboard");
    peer.finish(start, length, 1);
}

/// The window shrinks, closes and opens at random, against RFC 9293's advice; the server stays within every offer.
#[test]
fn window_shrinks() {
    let length = 200_000;
    let mut peer = RawPeer::connect(FlowPlan::plain([0, length]), TcpConfig::default(), &[2, 4, 5, 0xb4]);
    let start = peer.receive_next;
    let mut random = Random::new(5);
    // The largest right edge ever offered: what was sent before a window shrank may come again.
    let mut edge = start.wrapping_add(65_535);
    for _ in 0..4_000 {
        peer.take(start, &mut edge);
        let window = random.pick(&[0, 1, 100, 536, 1_460, 3_000, 20_000]);
        let acknowledgment = peer.receive_next;
        let offered = acknowledgment.wrapping_add(u32::from(window));
        if offered.wrapping_sub(edge) as i32 > 0 {
            edge = offered;
        }
        peer.send(ACK, peer.send_next, acknowledgment, window, &[], &[]);
        peer.step(Duration::from_millis(random.pick(&[1, 5, 250])));
        if peer.receive_next == start.wrapping_add(length as u32 + 1) {
            break;
        }
    }
    peer.finish(start, length, 1);
}

/// Random pieces of the client's stream, overlapping every way, until all has been sent once; wrong bytes where the right
/// ones have been delivered, and outside of the window.
#[test]
fn overlapping_segments() {
    let length = 150_000u64;
    let tcp = TcpConfig { receive_window: 32_768, receive_frames_max: 64, ..TcpConfig::default() };
    let mut peer = RawPeer::connect(FlowPlan::plain([length, 0]), tcp, &[2, 4, 5, 0xb4, 1, 1, 4, 2]);
    let start = peer.send_next;
    let mut random = Random::new(9);
    let mut frames_peak = 0;
    let received = |peer: &RawPeer| peer.world.b.node.service.flows[0].received();
    for round in 0..200_000u64 {
        let at = received(&peer);
        let first = if random.one_in(8) { at } else { at + random.between(0, 40_000) };
        let first = first.saturating_sub(random.between(0, 2_000)).min(length);
        let size = random.between(1, 1_460).min(length - first) as usize;
        let mut bytes = vec![0; size];
        pattern::fill(FlowPlan::salt(0, 0), first, &mut bytes);
        if first + size as u64 <= at && random.one_in(2) {
            bytes.fill(0xee);
        }
        peer.send(ACK, start.wrapping_add(first as u32), peer.receive_next, 65_535, &[], &bytes);
        if round % 16 == 0 {
            peer.step(MILLISECOND);
            frames_peak = frames_peak.max(peer.world.b.pools.receive.in_use_count());
        }
        if received(&peer) == length {
            println!("{round} segments, at most {frames_peak} frames held");
            assert!(frames_peak <= 64 + 16, "{frames_peak} frames for a limit of 64");
            peer.send(
                FIN | ACK,
                start.wrapping_add(length as u32),
                peer.receive_next.wrapping_add(1),
                65_535,
                &[],
                &[],
            );
            peer.step(Duration::from_secs(1));
            assert_eq!(peer.world.b.node.service.flows[0].closed, Some(CloseReason::Finished));
            return;
        }
    }
    panic!("the stream stands at {}", received(&peer));
}

/// Readers that never read hold no more than their windows; others are served.
#[test]
fn slow_readers() {
    let mut plans: Vec<FlowPlan> = (0..60).map(|_| FlowPlan::plain([500_000, 0])).collect();
    for plan in plans.iter_mut().take(50) {
        plan.drains[1] = Drain::Hold { bytes: u64::MAX, time: Duration::from_secs(100_000) };
    }
    let server = IpAddr::V4(SERVER);
    let tcp = TcpConfig { receive_window: 64 * 1024, ..TcpConfig::default() };
    let mut world = World::new(
        &Run { seed: 1, pcap: None },
        Time::from_millis(1_000),
        &network(),
        |device, now| {
            let config = config(CLIENT, None, TcpConfig::default());
            StackNode::new(config, [1; 32], Streams::new(0, server, &plans), device, now)
        },
        |device, now| StackNode::new(config(SERVER, None, tcp), [2; 32], Streams::new(1, server, &plans), device, now),
    );
    let outcome = world.run(world.now_plus(Duration::from_secs(60)), |a, b| {
        let done = |node: &StackNode<Streams>| node.service.flows[50..].iter().all(|flow| flow.closed.is_some());
        done(a) && done(b)
    });
    let held = world.b.pools.receive.in_use_count();
    println!("{held} of {} receive frames held", world.b.pools.receive.frame_count());
    assert!(held <= 50 * (64 * 1024 / 1_448 + 1), "{held} frames for 50 windows of 64 KiB");
    assert_eq!(outcome, Outcome::Stopped, "the prompt readers starve");
    for flow in &world.b.node.service.flows[..50] {
        assert!(flow.received() <= 64 * 1024 + 1_460, "{} bytes for a window of 64 KiB", flow.received());
    }
}

/// A stack's first SYN at `start`: its sequence number and timestamp.
fn first_syn(start: Time) -> (u32, u32) {
    let server = IpAddr::V4(SERVER);
    let plan = FlowPlan::plain([1, 0]);
    let streams = Streams::new(0, server, &[plan]);
    let mut world = World::new(
        &Run { seed: 1, pcap: None },
        start,
        &Network::default(),
        |device, now| StackNode::new(config(CLIENT, None, TcpConfig::default()), [9; 32], streams, device, now),
        |_, _| RawNode::default(),
    );
    world.run(world.now_plus(MILLISECOND), |_, _| false);
    let syn = world.b.node.segments.first().expect("a SYN");
    (syn.sequence, syn.timestamp.expect("timestamps"))
}

/// A transfer over a bad path that begins at `start`: segments the server refused as too old or acknowledging too much,
/// and its time-outs.
fn transfer(start: Time) -> [u64; 3] {
    let server = IpAddr::V4(SERVER);
    let plans = [FlowPlan::plain([400_000, 400_000]); 1];
    let mut network = network();
    network.faults = [qanat_nic::FaultRates { loss_ppm: 20_000, reorder_ppm: 20_000, ..Default::default() }; 2];
    let streams = |side| Streams::new(side, server, &plans);
    assert_eq!(own_address(server), IpAddr::V4(CLIENT));
    let mut world = World::new(
        &Run { seed: 1, pcap: None },
        start,
        &network,
        |device, now| StackNode::new(config(CLIENT, None, TcpConfig::default()), [9; 32], streams(0), device, now),
        |device, now| StackNode::new(config(SERVER, None, TcpConfig::default()), [8; 32], streams(1), device, now),
    );
    world.run_to_end(Duration::from_secs(120), Duration::from_secs(600));
    let counters = *world.b.node.stack.tcp_counters();
    assert_eq!(counters.acknowledgements_of_unsent, 0, "{counters:?}");
    world.check_frames();
    // A reordered acknowledgement is too old once data that came after it is in (RFC 7323 section 5.3, R1).
    assert!(counters.paws_rejected <= counters.old_acknowledgements, "{counters:?}");
    [counters.paws_rejected, counters.acknowledgements_of_unsent, counters.timeouts]
}

/// A transfer during which something wraps is like any other.
fn wrap(start: Time) {
    assert_eq!(transfer(start), transfer(start + Duration::from_secs(3_600)));
}

#[test]
fn sequence_numbers_wrap() {
    let (sequence, _) = first_syn(Time::from_millis(0));
    // The ISN clock ticks every 4 µs: the time at which it is 100,000 short of the wrap.
    let ticks = u64::from(0u32.wrapping_sub(100_000).wrapping_sub(sequence));
    let start = Time::from_micros(ticks * 4);
    let (sequence, _) = first_syn(start);
    assert!(sequence > u32::MAX - 100_001, "{sequence}");
    wrap(start);
}

#[test]
fn timestamps_wrap() {
    let (_, timestamp) = first_syn(Time::from_millis(0));
    let start = Time::from_millis(u64::from(0u32.wrapping_sub(200).wrapping_sub(timestamp)));
    let (_, timestamp) = first_syn(start);
    assert!(timestamp > u32::MAX - 201, "{timestamp}");
    wrap(start);
}
