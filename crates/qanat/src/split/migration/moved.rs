//! A card's stack and its service moved back and forth at many points, in one thread and by a clock of its own: nothing is lost,
//! nothing comes twice, and in the end everything is home.

use crate::split::memory::Extent;
use crate::split::migration::export::{read_tenancy, write_tenancy};
use crate::split::net_core::accept::AcceptPolicy;
use crate::split::net_core::lending::{COPIES, COPY_BYTES, Copies};
use crate::split::net_core::tenancy::Tenancy;
use crate::split::net_core::tenant::Tenant;
use crate::split::net_core::tenant::export::Belongings;
use qanat_abi::message::Range;
use qanat_abi::{Command, Consumer, ControlMemory, Event as AbiEvent, Message, Producer, Rings};
use qanat_nic::{FrameMemory, LentFrames, MemoryPlan, PairConfig, Pool, Random, Time, Vnic, pair, snapshot as frames};
use qanat_stack::{Config, ConnectOptions, Event, Stack};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2_048, receive_frames: 256, transmit_frames: 1_024, prepared_frames: 0 };
const CONNECTIONS: usize = 12;
const BYTES: usize = 60_000;
/// Frames it keeps for a while before it looks at them.
const HELD: usize = 40;

/// An echo that sends from its transmit memory, each byte from a place of its own, and keeps frames for a while.
struct Service {
    commands: Producer<ControlMemory>,
    events: Consumer<ControlMemory>,
    received: LentFrames,
    copies: LentFrames,
    memory: File,
    next: u32,
    held: Vec<AbiEvent>,
    _socket: OwnedFd,
}

impl Service {
    fn say(&mut self, command: Command) {
        assert!(self.commands.push(command.encode()).expect("an honest net core"));
        self.commands.publish();
    }

    fn turn(&mut self) {
        while let Some(words) = self.events.pop() {
            match AbiEvent::decode(words).expect("an event") {
                said @ (AbiEvent::Data { .. } | AbiEvent::Datagram { .. }) => self.held.push(said),
                AbiEvent::PeerClosed { connection } => {
                    self.look(usize::MAX);
                    self.say(Command::Close { connection });
                }
                _ => {}
            }
        }
        self.events.release();
        self.look(self.held.len().saturating_sub(HELD));
    }

    /// Answers the oldest of what it holds.
    fn look(&mut self, count: usize) {
        let count = count.min(self.held.len());
        for said in Vec::from_iter(self.held.drain(..count)) {
            match said {
                AbiEvent::Data { connection, window, .. } => {
                    let (start, length) = (window.start.into(), window.length.into());
                    let (lent, index) = match window.frame.checked_sub(PLAN.receive_frames) {
                        Some(copy) => (&mut self.copies, copy),
                        None => (&mut self.received, window.frame),
                    };
                    let frame = lent.take(index, start, length).expect("lent once");
                    // Behind the small blocks: large ones.
                    let offset = self.next;
                    self.memory.write_all_at(frame.bytes(), offset.into()).expect("transmit memory");
                    assert!(lent.give_back(frame).is_some());
                    self.next += u32::from(window.length);
                    let small = Extent::usual(0).block_bytes()[0] as u32;
                    let range = Range { offset: small + offset, length: window.length.into() };
                    self.say(Command::Send { connection, range, consumed: Some(window.frame) });
                }
                AbiEvent::Datagram { socket, peer, window } => self.say(Command::SendChunkTo { socket, peer, window }),
                _ => {}
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.held.is_empty()
    }
}

/// Moves a tenancy as if to another process: all is written, let go of, and read. Damaged copies are read before that, and
/// must leave nothing behind.
fn moved(tenancy: Tenancy, memory: &FrameMemory, copies: &Copies, noise: &mut Random) -> Tenancy {
    let pools = [&memory.receive, &memory.transmit, &memory.prepared, copies.pool()];
    let bytes = frames::writing(&pools, |_| write_tenancy(&tenancy)).expect("it can be written");
    let tenant = tenancy.tenants().next().expect("a service");
    let own: Vec<OwnedFd> =
        tenant.descriptors().into_iter().map(|fd| fd.try_clone_to_owned().expect("a descriptor")).collect();
    let lengths = tenant.memories().map(|memory| memory.len());
    tenant.files().set_anothers(true);
    drop(tenancy);
    let free = || pools.map(Pool::free_count);
    let before = free();
    let read = |bytes: &[u8]| {
        let own = own.iter().map(|fd| fd.try_clone().expect("a descriptor")).collect();
        let own = Belongings::open(own, lengths).expect("its memory");
        let read = || read_tenancy(bytes, &[true], vec![own], PLAN.receive_frames, copies);
        frames::reading(&pools, || read().map(|(read, rest)| (read, rest.len())))
    };
    for _ in 0..2 {
        let mut wrong = bytes.clone();
        for _ in 0..=noise.below(3) {
            let at = noise.below(wrong.len() as u64) as usize;
            wrong[at] ^= 1 << noise.below(8);
        }
        wrong.truncate(if noise.below(4) == 0 { noise.below(wrong.len() as u64) as usize } else { wrong.len() });
        // It may be read, as something else. Nobody has a frame of it twice, and all come home.
        drop(read(&wrong));
        assert_eq!(free(), before);
    }
    let (tenancy, rest) = read(&bytes).expect("what was written can be read");
    assert_eq!(rest, 0);
    tenancy.tenants().for_each(|tenant| tenant.files().set_anothers(false));
    tenancy
}

fn byte(connection: usize, at: usize) -> u8 {
    (connection * 31 + at * 7 + at / 251) as u8
}

/// What comes back to the client.
struct Client {
    peer: Stack,
    back: Vec<Vec<u8>>,
    sent: Vec<bool>,
    finished: usize,
    datagrams: usize,
}

impl Client {
    fn turn(&mut self, now: Time, device: &mut dyn Vnic) {
        self.peer.receive(now, device);
        while let Some(event) = self.peer.next_event() {
            match event {
                Event::Connected { connection } => {
                    let bytes: Vec<u8> = (0..BYTES).map(|at| byte(connection.index(), at)).collect();
                    self.peer.send(now, connection, bytes.into()).expect("bytes to send");
                }
                Event::Data { connection, chunk } => {
                    let back = &mut self.back[connection.index()];
                    back.extend_from_slice(chunk.bytes());
                    let is_all = back.len() == BYTES;
                    self.peer.consume(now, connection, chunk);
                    if is_all && !std::mem::replace(&mut self.sent[connection.index()], true) {
                        self.peer.shutdown(now, connection).expect("an open connection");
                    }
                }
                Event::Closed { .. } => self.finished += 1,
                Event::Datagram { chunk, .. } => {
                    assert_eq!(chunk.bytes(), b"and back");
                    self.datagrams += 1;
                }
                _ => {}
            }
        }
        self.peer.transmit(now, device);
    }
}

/// Echoes until all connections have ended; moves after so many turns each. How often it has moved.
fn echoed(every: Option<u32>) -> u32 {
    let (client, server) = pair(PairConfig::default()).expect("memory");
    let (memory, files) = PLAN.allocate_lendable().expect("memory");
    let kept = memory.clone();
    let mut card = server.open_over(PLAN, memory).expect("a card");
    let mut device = client.open(MemoryPlan::default()).expect("a card");
    let mut now = Time::from_millis(1);
    let peer = Stack::new(Config::new(CLIENT, 24), [1; 32], &device, now);
    let stack = Stack::new(Config::new(SERVER, 24), [2; 32], &card, now);
    let at_first = kept.receive.in_use_count();
    let copies = Copies::new(COPIES).expect("memory");
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (its, ours) = pair.expect("a pair of sockets");
    let who = ("echo".to_owned(), 1, 2);
    let (mut tenant, handed) = Tenant::new(its, who, Extent::usual(PLAN.receive_frames), None).expect("memory");
    tenant.use_copies(&copies);
    let rings = Rings::open(handed.control.as_fd()).expect("rings");
    let mut service = Service {
        commands: Producer::new(rings.commands),
        events: Consumer::new(rings.events),
        received: LentFrames::map(files.receive.as_fd(), PLAN.receive_frames, PLAN.frame_size).expect("frames"),
        copies: LentFrames::map(copies.file(), COPIES, COPY_BYTES).expect("copies"),
        memory: handed.large.into(),
        next: 0,
        held: Vec::new(),
        _socket: ours,
    };
    let mut tenancy = Tenancy::new(stack, AcceptPolicy::default());
    tenancy.enter(tenant);
    let local = SocketAddr::new(SERVER, 7);
    service.say(Command::Listen { request: 1, local, backlog: 0 });
    service.say(Command::BindUdp { request: 2, local });
    let (back, sent) = (vec![Vec::new(); CONNECTIONS], vec![false; CONNECTIONS]);
    let mut client = Client { peer, back, sent, finished: 0, datagrams: 0 };
    let from = client.peer.bind_udp(SocketAddr::new(CLIENT, 5_000)).expect("a socket");
    for _ in 0..CONNECTIONS {
        client.peer.connect(now, local, ConnectOptions::default()).expect("a connection");
    }
    let (mut moves, mut offences, mut noise) = (0, Vec::new(), Random::new(7));
    let mut turns = 0;
    // TIME-WAIT is a minute.
    while turns < 20_000 || tenancy.stack().usage().timers > 0 {
        (turns, now) = (turns + 1, now + Duration::from_micros(if turns < 20_000 { 100 } else { 100_000 }));
        assert!(turns < 40_000, "{:?}", tenancy.stack().usage());
        if turns % 500 == 0 && turns < 10_000 {
            client.peer.send_to(now, &mut device, from, local, b"and back").expect("a datagram");
        }
        client.turn(now, &mut device);
        tenancy.turn(now, &mut card, &mut offences);
        // Half of the time what it says waits in its ring while the card moves, half of it what it is told does.
        if turns % 2 == 0 {
            service.turn();
        }
        if moves < 300 && every.is_some_and(|every| turns % every == 0) {
            tenancy = moved(tenancy, &kept, &copies, &mut noise);
            moves += 1;
        }
        if turns % 3 == 0 {
            service.turn();
        }
        if turns > 10_000 {
            service.look(usize::MAX);
        }
    }
    assert!(offences.is_empty(), "{offences:?}");
    for (connection, back) in client.back.iter().enumerate() {
        let is_right = back.iter().enumerate().all(|(at, own)| *own == byte(connection, at));
        assert!(back.len() == BYTES && is_right, "connection {connection}: {} bytes", back.len());
    }
    assert_eq!((client.finished, client.datagrams), (CONNECTIONS, 19));
    assert!(service.is_idle());
    let usage = tenancy.stack().usage();
    let held = (usage.connections, usage.half_open, usage.time_wait, usage.flows, usage.timers, usage.events);
    assert_eq!((held, tenancy.lent_to(0)), ((0, 0, 0, 0, 0, 0), 0), "all is given back");
    assert_eq!((kept.receive.in_use_count(), kept.transmit.in_use_count()), (at_first, 0), "frames are home");
    assert_eq!(copies.pool().in_use_count(), 0);
    moves
}

#[test]
fn a_card_that_moves_back_and_forth_loses_nothing_and_keeps_nothing() {
    assert_eq!(echoed(None), 0);
    // At first each turn; then so often that what moves has ended.
    for every in [1, 67] {
        assert!(echoed(Some(every)) > 200);
    }
}
