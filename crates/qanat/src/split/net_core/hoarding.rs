//! What a sharer's credits are good for: one service gives nothing back of what it is lent, with credits and without. In one
//! thread, by a clock of its own.

use crate::split::memory::Extent;
use crate::split::net_core::accept::AcceptPolicy;
use crate::split::net_core::tenancy::Tenancy;
use crate::split::net_core::tenant::Tenant;
use qanat_abi::{Command, Consumer, ControlMemory, Event as AbiEvent, Message, Producer, Rings};
use qanat_nic::{MemoryPlan, PairConfig, Time, pair};
use qanat_stack::{Config, ConnectOptions, Event, Stack};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2_048, receive_frames: 256, transmit_frames: 1_024, prepared_frames: 0 };
/// Half of them each service's.
const CONNECTIONS: usize = 32;
const BYTES: usize = 100_000;
const TURNS: u32 = 40_000;

struct Service {
    commands: Producer<ControlMemory>,
    events: Consumer<ControlMemory>,
    connections: usize,
    received: usize,
    _socket: OwnedFd,
}

impl Service {
    fn enter(tenancy: &mut Tenancy) -> Service {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (its, ours) = pair.expect("a pair of sockets");
        let extent = Extent { ring_messages: 4_096, ..Extent::usual(PLAN.receive_frames) };
        let (tenant, handed) = Tenant::new(its, (String::new(), 0, 0), extent, None).expect("memory");
        tenancy.enter(tenant);
        let rings = Rings::open(handed.control.as_fd()).expect("rings");
        let (commands, events) = (Producer::new(rings.commands), Consumer::new(rings.events));
        Service { commands, events, connections: 0, received: 0, _socket: ours }
    }

    fn say(&mut self, command: Command) {
        assert!(self.commands.push(command.encode()).expect("an honest net core"));
        self.commands.publish();
    }

    /// Takes its events, and gives back what it was lent, or not.
    fn turn(&mut self, gives_back: bool) {
        while let Some(words) = self.events.pop() {
            match AbiEvent::decode(words).expect("an event") {
                AbiEvent::Accepted { .. } => self.connections += 1,
                AbiEvent::Data { connection, window, .. } => {
                    self.received += usize::from(window.length);
                    if gives_back {
                        self.say(Command::Consume { connection, frame: window.frame });
                    }
                }
                _ => {}
            }
        }
        self.events.release();
    }
}

/// Connections of an honest service beside one that hoards, how many bytes of them it got, and how many frames the other has.
fn beside_a_hoarder(has_credits: bool) -> (usize, usize, u32) {
    let (client, server) = pair(PairConfig::default()).expect("memory");
    let (memory, _files) = PLAN.allocate_lendable().expect("memory");
    let mut card = server.open_over(PLAN, memory).expect("a card");
    let mut device = client.open(MemoryPlan::default()).expect("a card");
    let mut now = Time::ZERO;
    let mut peer = Stack::new(Config::new(CLIENT, 24), [1; 32], &device, now);
    let stack = Stack::new(Config::new(SERVER, 24), [2; 32], &card, now);
    let mut tenancy = Tenancy::new(stack, AcceptPolicy::RoundRobin);
    let (mut honest, mut hoarder) = (Service::enter(&mut tenancy), Service::enter(&mut tenancy));
    if !has_credits {
        tenancy.without_credits();
    }
    let local = SocketAddr::new(SERVER, 7);
    for service in [&mut honest, &mut hoarder] {
        service.say(Command::Listen { request: 1, local, backlog: 0 });
    }
    hoarder.say(Command::BindUdp { request: 2, local });
    let mut offences = Vec::new();
    tenancy.turn(now, &mut card, &mut offences);
    for _ in 0..CONNECTIONS {
        peer.connect(now, local, ConnectOptions::default()).expect("a connection");
    }
    let from = peer.bind_udp(SocketAddr::new(CLIENT, 5_000)).expect("a socket");
    for _ in 0..TURNS {
        now += Duration::from_micros(50);
        // Of streams the stack itself lets nobody have everything: datagrams are what a hoarder can have without end.
        for _ in 0..4 {
            peer.send_to(now, &mut device, from, local, b"hoard me").expect("a datagram");
        }
        peer.receive(now, &mut device);
        while let Some(event) = peer.next_event() {
            if let Event::Connected { connection } = event {
                peer.send(now, connection, vec![7; BYTES].into()).expect("bytes to send");
            }
        }
        peer.transmit(now, &mut device);
        tenancy.turn(now, &mut card, &mut offences);
        honest.turn(true);
        hoarder.turn(false);
    }
    assert!(offences.is_empty(), "{offences:?}");
    (honest.connections, honest.received, tenancy.lent_to(1))
}

#[test]
fn credits_keep_a_hoarder_from_what_is_its_neighbours() {
    let (connections, received, hoarded) = beside_a_hoarder(true);
    assert_eq!((connections, received), (CONNECTIONS / 2, CONNECTIONS / 2 * BYTES), "the neighbour has all");
    // What was under way when it had its share is lent to it, too.
    assert!(hoarded > 0 && hoarded < PLAN.receive_frames * 3 / 4, "{hoarded} are held back");
}

#[test]
fn without_credits_the_neighbour_starves() {
    let (connections, received, hoarded) = beside_a_hoarder(false);
    assert!(received < CONNECTIONS / 2 * BYTES, "the neighbour has {received} bytes on {connections} connections");
    assert_eq!(hoarded, PLAN.receive_frames, "all are held back");
}
