//! Datagrams longer than the MTU, both ways, lost, doubled, cut, overtaken: what arrives is whole.

use super::streams::config;
use qanat::Event;
use qanat_nic::Time;
use qanat_stack::tcp::TcpConfig;
use qanat_stack::{Stack, UdpSocketId, Usage};
use qanat_tests::random::Random;
use qanat_tests::sim::streams::own_address;
use qanat_tests::sim::{Device, Network, Node, World, pattern, seeds};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PORT: u16 = 9;
const DATAGRAMS: u64 = 40;
const LIMIT: Duration = Duration::from_secs(60);
/// Fragments that never meet are kept for so long.
const DRAIN: Duration = Duration::from_secs(120);

/// Sends numbered datagrams, and compares those that come.
struct Thrower {
    stack: Stack,
    socket: UdpSocketId,
    peer: SocketAddr,
    side: u64,
    random: Random,
    sent: u64,
    next_at: Time,
    received: u64,
}

/// The first bytes of a datagram say which it is; all else follows from that.
fn content(side: u64, number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    pattern::fill(side << 32 | number, 0, &mut bytes);
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

impl Node for Thrower {
    fn poll(&mut self, now: Time, device: &mut Device) -> bool {
        let moved = self.stack.receive(now, device) > 0;
        while let Some(event) = self.stack.next_event() {
            let Event::Datagram { chunk, .. } = event else { panic!("{event:?}") };
            let number = u64::from_be_bytes(chunk.bytes()[..8].try_into().unwrap());
            assert!(number < DATAGRAMS, "{number}");
            let expected = content(1 - self.side, number, chunk.len());
            let wrong = chunk.bytes().iter().zip(&expected).position(|(came, left)| came != left);
            assert_eq!(wrong, None, "datagram {number}, {} bytes", chunk.len());
            self.received += 1;
        }
        while self.sent < DATAGRAMS && now >= self.next_at {
            let length = self.random.pick(&[8, 1_000, 1_472, 1_473, 4_000, 20_000]) + self.random.between(0, 9);
            let bytes = content(self.side, self.sent, length as usize);
            // Without room for all of its fragments none leaves.
            let _ = self.stack.send_in_fragments(now, device, self.socket, self.peer, &bytes);
            self.sent += 1;
            self.next_at = now + Duration::from_micros(self.random.pick(&[0, 100, 20_000]));
        }
        self.stack.transmit(now, device);
        moved
    }

    fn next_deadline(&mut self, _now: Time) -> Option<Time> {
        let next = (self.sent < DATAGRAMS).then_some(self.next_at);
        next.into_iter().chain(self.stack.next_deadline()).min()
    }

    fn is_finished(&self) -> bool {
        self.sent == DATAGRAMS
    }

    fn leftovers(&self) -> Option<String> {
        let usage = self.stack.usage();
        let clean = Usage { neighbours: usage.neighbours, udp_sockets: 1, ..Usage::default() };
        (usage != clean).then(|| format!("{usage:?}"))
    }
}

#[test]
fn datagrams_in_fragments_under_faults() {
    let (arrived, fragments) = (AtomicU64::new(0), AtomicU64::new(0));
    seeds::for_each("datagrams_in_fragments_under_faults", 200, |run| {
        let mut random = Random::new(run.seed);
        let mut network = Network::any(&mut random);
        // Of a datagram's many fragments two may be changed, and the changes meet in its sum (they did, of seed 85).
        network.faults.iter_mut().for_each(|faults| faults.corrupt_ppm = 0);
        let second: IpAddr = random.pick(&["10.0.0.2", "fd00::2"]).parse().unwrap();
        let addresses = [own_address(second), second];
        let sources = [0, 1].map(|_| (random.entropy(), random.draw()));
        let thrower = |side: usize, device: &mut Device, now| {
            let (entropy, seed) = sources[side];
            let mut stack = Stack::new(config(addresses[side], TcpConfig::default()), entropy, device, now);
            let socket = stack.bind_udp(SocketAddr::new(addresses[side], PORT)).expect("a socket");
            let peer = SocketAddr::new(addresses[1 - side], PORT);
            let random = Random::new(seed);
            Thrower { stack, socket, peer, side: side as u64, random, sent: 0, next_at: now, received: 0 }
        };
        let start = Time::from_millis(random.between(0, 1 << 33));
        let mut world = World::new(
            run,
            start,
            &network,
            |device, now| thrower(0, device, now),
            |device, now| thrower(1, device, now),
        );
        world.run(world.now_plus(LIMIT), |_, _| false);
        world.drain(DRAIN);
        for end in [&world.a.node, &world.b.node] {
            arrived.fetch_add(end.received, Ordering::Relaxed);
            fragments.fetch_add(end.stack.counters().ip_fragments_sent, Ordering::Relaxed);
        }
        world.check_frames();
    });
    println!("{arrived:?} datagrams arrived, of {fragments:?} fragments and whole ones");
    let is_replay = std::env::var_os("QANAT_SEED").is_some();
    assert!(is_replay || arrived.into_inner() > DATAGRAMS * 100 && fragments.into_inner() > 10_000);
}
