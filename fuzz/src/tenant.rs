//! What a service says to its net core: arbitrary commands, nearly right ones, and a peer that talks to it meanwhile.
//!
//! A model of what the service holds says of each command whether it cuts the service off: both must agree. What is lent was
//! not lent before; and in the end, whether the service was cut off, went away, or gave everything back and closed all,
//! every frame, connection and timer is home.

use crate::values::Values;
use qanat::split::harness::{COPIES, Harness, TRANSMIT_BYTES};
use qanat_abi::message::{RELEASES_MAX, Range, Window};
use qanat_abi::{Command, Event, Id, Message};
use qanat_api::{Setting, SettingWords};
use qanat_nic::{Clock, ManualClock, MemoryPlan, Pair, PairConfig, Vnic, pair};
use qanat_stack::{Config, ConnectOptions, Event as PeerEvent, ListenOptions, Stack, UdpSocketId};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVE_FRAMES: u32 = 64;
/// Steps of one input.
const STEPS_MAX: usize = 512;
/// Turns until everything must be back: more than there are timers and retransmissions.
const TURNS_MAX: u32 = 20_000;

/// A window the service was lent, and of which connection.
type Held = (Window, Option<Id>);

struct Bench {
    clock: ManualClock,
    service: Harness,
    device: Pair,
    peer: Stack,
    peers_socket: UdpSocketId,
    wire: Pair,
    held: BTreeMap<u32, Held>,
    /// As accepted or connected.
    connections: Vec<Id>,
    /// Sockets and listeners, as answered.
    opened: Vec<Id>,
}

fn stack(address: Ipv4Addr, device: &Pair, clock: &ManualClock) -> Stack {
    let mut config = Config::new(IpAddr::V4(address), 24);
    (config.connections_max, config.half_open_max, config.time_wait_max) = (8, 4, 4);
    (config.listeners_max, config.udp_sockets_max, config.timers_max) = (4, 4, 4);
    Stack::new(config, [7; 32], device, clock.now())
}

impl Bench {
    fn new() -> Option<Bench> {
        let (near, far) = pair(PairConfig { slots: 64, ..PairConfig::default() }).ok()?;
        let plan = MemoryPlan { receive_frames: RECEIVE_FRAMES, transmit_frames: 96, ..MemoryPlan::default() };
        let (device, wire) = (near.open(plan).ok()?, far.open(plan).ok()?);
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1));
        let service = Harness::new(stack(OWN, &device, &clock), RECEIVE_FRAMES).ok()?;
        let mut peer = stack(PEER, &wire, &clock);
        peer.listen(SocketAddr::new(PEER.into(), 9), ListenOptions::default()).ok()?;
        let peers_socket = peer.bind_udp(SocketAddr::new(PEER.into(), 9)).ok()?;
        let (held, connections, opened) = (BTreeMap::new(), Vec::new(), Vec::new());
        Some(Bench { clock, service, device, peer, peers_socket, wire, held, connections, opened })
    }

    /// Whether an honest service could not have said it, by what it holds.
    fn is_offence(&self, words: [u64; 4]) -> bool {
        let Ok(command) = Command::decode(words) else { return true };
        let (small, large) = TRANSMIT_BYTES;
        let is_outside = |offset: u32, length: u32| {
            let end = u64::from(offset) + u64::from(length);
            if offset < small { end > small.into() } else { end > u64::from(small) + u64::from(large) }
        };
        match command {
            Command::Send { connection, range, consumed } => {
                let is_held = |frame: u32| self.held.get(&frame).is_some_and(|(_, of)| *of == Some(connection));
                is_outside(range.offset, range.length) || consumed.is_some_and(|frame| !is_held(frame))
            }
            Command::SendTo { offset, length, .. } => is_outside(offset, length.into()),
            Command::Consume { connection, frame } => {
                self.held.get(&frame).is_none_or(|(_, of)| *of != Some(connection))
            }
            Command::Release { count, frames } => {
                let named = &frames[..usize::from(count)];
                (0..named.len()).any(|at| !self.held.contains_key(&named[at]) || named[..at].contains(&named[at]))
            }
            Command::SendChunkTo { window, .. } => self.held.get(&window.frame).is_none_or(|(lent, _)| {
                window.start < lent.start
                    || u32::from(window.start) + u32::from(window.length)
                        > u32::from(lent.start) + u32::from(lent.length)
            }),
            _ => false,
        }
    }

    /// Says it, and does the turn; false: it is cut off.
    fn say(&mut self, mut words: [u64; 4]) -> bool {
        // The ring's own bit.
        words[0] &= !qanat_abi::ring::LAP;
        let is_offence = self.is_offence(words);
        assert!(self.service.say(words), "each turn takes all");
        if !is_offence {
            match Command::decode(words) {
                Ok(
                    Command::Consume { frame, .. }
                    | Command::Send { consumed: Some(frame), .. }
                    | Command::SendChunkTo { window: Window { frame, .. }, .. },
                ) => {
                    self.held.remove(&frame);
                }
                Ok(Command::Release { count, frames }) => {
                    frames.iter().take(count.into()).for_each(|frame| {
                        self.held.remove(frame);
                    });
                }
                // What was lent of it is taken back.
                Ok(Command::Yield { connection }) => self.held.retain(|_, (_, of)| *of != Some(connection)),
                _ => {}
            }
        }
        let outcome = self.turn();
        assert_eq!(outcome.is_err(), is_offence, "{outcome:?}: {:?}", Command::decode(words));
        outcome.is_ok()
    }

    /// One turn of everybody's.
    fn turn(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        self.service.turn(now, &mut self.device).map_err(|cut_off| cut_off.to_string())?;
        while let Some(event) = self.service.hear() {
            self.on_event(event);
        }
        assert_eq!(self.service.usage().0 as usize, self.held.len(), "credits");
        self.peer.receive(now, &mut self.wire);
        while let Some(event) = self.peer.next_event() {
            match event {
                PeerEvent::Accepted { connection, .. } | PeerEvent::Connected { connection } => {
                    let _ = self.peer.send(now, connection, vec![7; 3_000].into());
                }
                PeerEvent::Data { connection, chunk } => self.peer.consume(now, connection, chunk),
                PeerEvent::PeerClosed { connection } => drop(self.peer.close(now, connection)),
                _ => {}
            }
        }
        self.peer.transmit(now, &mut self.wire);
        Ok(())
    }

    fn on_event(&mut self, event: Event) {
        let mut lent = |window: Window, of| {
            let is_copy = window.frame >= RECEIVE_FRAMES;
            let size = if is_copy { COPIES.1 } else { 2_048 };
            assert!(window.frame < RECEIVE_FRAMES + COPIES.0);
            assert!(u32::from(window.start) + u32::from(window.length) <= size);
            let frames = self.held.keys().filter(|frame| **frame < RECEIVE_FRAMES).count() as u32;
            assert!(!is_copy || frames >= RECEIVE_FRAMES / 4, "a copy for who has {frames} frames");
            assert!(self.held.insert(window.frame, (window, of)).is_none(), "frame {} lent twice", window.frame);
        };
        match event {
            Event::Data { connection, window, .. } => lent(window, Some(connection)),
            Event::Datagram { window, .. } => lent(window, None),
            Event::Accepted { connection, .. } => self.connections.push(connection),
            Event::Closed { connection, .. } => self.connections.retain(|open| *open != connection),
            Event::Answer { error: 0, id, .. } => {
                self.opened.push(id);
                self.connections.push(id);
            }
            _ => {}
        }
    }

    fn address(values: &mut Values<'_>) -> SocketAddr {
        match values.u8() % 4 {
            0 => SocketAddr::new(OWN.into(), u16::from(values.u8() % 4) + 7),
            1 => SocketAddr::new(PEER.into(), 9),
            2 => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), u16::from(values.u8() % 4)),
            _ => SocketAddr::new(Ipv4Addr::from_bits(values.u32()).into(), values.u16()),
        }
    }

    /// A command of what there is, mostly right.
    fn likely(&self, values: &mut Values<'_>) -> Command {
        let choice = values.u8();
        let pick = usize::from(values.u8());
        let of = |all: &[Id]| all.get(pick % all.len().max(1)).copied().unwrap_or_default();
        let (connection, opened) = (of(&self.connections), of(&self.opened));
        let held = self.held.values().nth(pick % self.held.len().max(1)).copied();
        let (mut window, lent_of) = held.unwrap_or((Window { frame: 0, start: 0, length: 1 }, None));
        let (offset, length) = (values.u32() % 150_000, u32::from(values.u16()));
        match choice % 20 {
            0 => Command::Listen { request: 1, local: Self::address(values), backlog: values.u8().into() },
            1 => Command::BindUdp { request: 2, local: Self::address(values) },
            2 => Command::ConnectFrom { local: Self::address(values) },
            3 => Command::Connect { request: 3, peer: Self::address(values) },
            4 => Command::CloseListener { listener: opened },
            5 => Command::CloseUdp { socket: opened },
            6 => Command::Send { connection, range: Range { offset, length }, consumed: None },
            7 => {
                let connection = lent_of.unwrap_or(connection);
                Command::Send { connection, range: Range { offset, length }, consumed: Some(window.frame) }
            }
            8 => {
                let length = length.min(1_472) as u16;
                Command::SendTo { socket: opened.slot as u16, peer: Self::address(values), offset, length }
            }
            9 => {
                window.start = window.start.wrapping_add(u16::from(values.u8() % 3));
                window.length = window.length.wrapping_sub(u16::from(values.u8() % 4));
                Command::SendChunkTo { socket: opened.slot as u16, peer: Self::address(values), window }
            }
            10 | 11 => Command::Consume { connection: lent_of.unwrap_or(connection), frame: window.frame },
            12 => {
                let mut frames = [0; RELEASES_MAX];
                let named = self.held.keys().zip(&mut frames).map(|(held, frame)| *frame = *held).count();
                Command::Release { count: named.min(1 + pick % RELEASES_MAX) as u8, frames }
            }
            13 => Command::Shutdown { connection },
            14 => Command::Close { connection },
            15 => Command::Abort { connection },
            16 => Command::Yield { connection },
            _ => {
                let words = SettingWords {
                    kind: (pick % 8) as u16,
                    flag: offset & 1 == 0,
                    values: [u64::from(offset) | u64::from(length) << 32, 0],
                };
                // Most numbers say something of most kinds.
                let setting = Setting::from_words(words).unwrap_or(Setting::NoDelay(offset & 1 == 0));
                Command::Set { connection, setting }
            }
        }
    }

    fn step(&mut self, values: &mut Values<'_>) -> bool {
        match values.u8() % 8 {
            0 => {
                let words = std::array::from_fn(|_| u64::from(values.u32()) << 32 | u64::from(values.u32()));
                self.say(words)
            }
            1 => {
                // One byte of a likely one is another.
                let mut words = self.likely(values).encode();
                words[usize::from(values.u8() % 4)] ^= u64::from(values.u8()) << (values.u8() % 57);
                self.say(words)
            }
            2 => {
                let (now, to) = (self.clock.now(), SocketAddr::new(OWN.into(), u16::from(values.u8() % 4) + 7));
                let _ = self.peer.connect(now, to, ConnectOptions::default());
                self.turn().is_ok()
            }
            3 => {
                self.clock.advance(Duration::from_millis(values.u16().into()));
                self.turn().is_ok()
            }
            4 => {
                // Messages, most of them small, for a service that may keep them.
                let (now, to) = (self.clock.now(), SocketAddr::new(OWN.into(), 7));
                let length = usize::from(values.u8()) * 3;
                for _ in 0..values.u8() % 16 {
                    let _ = self.peer.send_to(now, &mut self.wire, self.peers_socket, to, &[7; 765][..length]);
                }
                self.turn().is_ok()
            }
            _ => {
                let command = self.likely(values);
                self.say(command.encode())
            }
        }
    }

    /// An honest end: everything given back, everything closed, and time.
    fn wind_down(&mut self) {
        let open = std::mem::take(&mut self.opened);
        for id in open {
            // Which of the two it was is not remembered: of what never was, there is no offence.
            assert!(self.say(Command::CloseListener { listener: id }.encode()));
            assert!(self.say(Command::CloseUdp { socket: id }.encode()));
        }
        for _ in 0..TURNS_MAX {
            for connection in self.connections.clone() {
                assert!(self.say(Command::Abort { connection }.encode()));
            }
            while let Some(frame) = self.held.keys().next().copied() {
                assert!(self.say(Command::Release { count: 1, frames: [frame; RELEASES_MAX] }.encode()));
            }
            let (lent, usage) = self.service.usage();
            let left = usage.connections + usage.half_open + usage.time_wait + usage.flows + usage.udp_sockets;
            if (lent as usize, left, usage.pending_frames, usage.events) == (0, 0, 0, 0) {
                return;
            }
            self.clock.advance(Duration::from_millis(200));
            self.turn().expect("an honest end");
        }
        panic!("something is held for ever: {:?}", self.service.usage());
    }

    fn finish(mut self, cut_off: bool, honest: bool) {
        if honest && !cut_off {
            self.wind_down();
        }
        let Bench { clock, service, mut device, mut wire, .. } = self;
        let pools = [device.receive_pool().clone(), device.transmit_pool().clone()];
        service.end(clock.now(), &mut device);
        let mut frames = Vec::new();
        while wire.receive(&mut frames, 64) > 0 {
            frames.clear();
        }
        while device.receive(&mut frames, 64) > 0 {
            frames.clear();
        }
        device.flush();
        assert_eq!(pools.map(|pool| pool.in_use_count()), [0, 0], "frames in use after the service's end");
    }
}

/// Commands, a peer's traffic and time; then an end of one kind or another.
pub fn tenant(data: &[u8]) {
    let mut values = Values::new(data);
    let honest = values.u8() & 1 == 0;
    let Some(mut bench) = Bench::new() else { return };
    let local = SocketAddr::new(OWN.into(), 7);
    bench.say(Command::Listen { request: 1, local, backlog: 4 }.encode());
    bench.say(Command::BindUdp { request: 2, local }.encode());
    let mut cut_off = false;
    for _ in 0..STEPS_MAX {
        if values.is_empty() || cut_off {
            break;
        }
        cut_off = !bench.step(&mut values);
    }
    bench.finish(cut_off, honest);
}
