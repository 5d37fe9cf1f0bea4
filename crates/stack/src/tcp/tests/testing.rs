//! Two connections over a virtual link with virtual time: loss, reordering, duplication and delay by seed.

use crate::tcp::{
    Connection, Counters, Disposition, Emitter, Env, HalfOpen, HalfOpenTimer, HalfOpenVerdict, OpenParameters,
    PieceRange, ReceiveMemory, SegmentIn, SegmentPayload, State, TcpConfig, TimeWait, TimeWaitVerdict, reset_for,
};
use bytes::Bytes;
use qanat_api::{Chunk, CloseReason, ConnectionId, Event};
use qanat_nic::{Pool, Random, Region, TRAIN_BYTES_MAX, TRAIN_PIECES_MAX, Time};
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::{Flags, Header, SequenceNumber};
use qanat_wire::tcp_options::{Options, Timestamps};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The surroundings of a host's connection.
macro_rules! env {
    ($host:expr, $now:expr) => {
        Env {
            now: $now,
            events: &mut $host.events,
            counters: &mut $host.counters,
            config: &$host.config,
            memory: &mut $host.memory,
            cookies: &mut $host.cookies,
        }
    };
}
pub(crate) use env;

/// A segment on the link.
#[derive(Clone, Debug)]
pub struct Packet {
    pub header: Header,
    pub payload: Vec<u8>,
    pub ecn: Ecn,
}

/// What the link does to packets. Chances are parts per thousand.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: u32,
    pub reorder: u32,
    pub duplicate: u32,
    pub mark: u32,
    pub delay: Duration,
    /// Extra delay of reordered packets, at most.
    pub jitter: Duration,
    /// Bytes per second; 0: unlimited.
    pub rate: u64,
    /// Packets the rate limiter queues.
    pub queue: usize,
    /// Packets with more TCP bytes (header included) vanish: a path MTU black hole.
    pub segment_max: usize,
}

impl Faults {
    pub fn none() -> Faults {
        Faults {
            loss: 0,
            reorder: 0,
            duplicate: 0,
            mark: 0,
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(15),
            rate: 0,
            queue: 1000,
            segment_max: usize::MAX,
        }
    }
}

/// Takes segments from `output`.
pub struct Capture<'a> {
    pub packets: &'a mut Vec<Packet>,
    pub room: usize,
    /// Trains are taken, and cut.
    pub trains: bool,
}

impl Emitter for Capture<'_> {
    fn room(&self) -> usize {
        self.room
    }
    fn emit(&mut self, header: &Header, payload: SegmentPayload<'_>, ecn: Ecn) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        let mut bytes = vec![0; payload.len()];
        match payload {
            SegmentPayload::None => {}
            SegmentPayload::Copy(range) | SegmentPayload::Ready { range, .. } => {
                range.fill(&mut bytes);
            }
        }
        let mut encoded = [0; 60];
        let length = header.emit(&mut encoded).expect("a header always fits");
        assert!(length <= 60 && length + bytes.len() <= 20 + 65_535);
        self.packets.push(Packet { header: *header, payload: bytes, ecn });
        true
    }
    fn begin_train(&mut self) -> u32 {
        if self.trains && self.room > 1 { TRAIN_BYTES_MAX } else { 0 }
    }
    fn emit_train(&mut self, header: &Header, range: PieceRange<'_>, segment_bytes: u16, ecn: Ecn) {
        assert!(range.len() <= TRAIN_BYTES_MAX as usize && !range.is_empty());
        let mut scratch = vec![0; range.len()];
        let mut pieces = [std::io::IoSlice::new(&[]); TRAIN_PIECES_MAX];
        let count = range.gather(&mut scratch, &mut pieces);
        let bytes: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
        let mut filled = vec![0; range.len()];
        range.fill(&mut filled);
        assert!(bytes == filled, "what is lent is what would be copied");
        let segments = bytes.chunks(usize::from(segment_bytes));
        self.room = self.room.checked_sub(segments.len()).expect("room for each");
        let last = segments.len() - 1;
        for (index, part) in segments.enumerate() {
            let mut header = *header;
            header.sequence += index as u32 * u32::from(segment_bytes);
            header.flags = if index < last { header.flags.without(Flags::PSH | Flags::FIN) } else { header.flags };
            self.packets.push(Packet { header, payload: part.to_vec(), ecn });
        }
    }
}

/// One end.
pub struct Host {
    pub config: TcpConfig,
    pub connection: Option<Connection>,
    pub half_open: Option<HalfOpen>,
    pub time_wait: Option<TimeWait>,
    pub listening: bool,
    pub events: VecDeque<Event>,
    pub counters: Counters,
    pub cookies: crate::tcp::CookieCache,
    pub memory: ReceiveMemory,
    pub pool: Pool,
    pub maximum_segment: u16,
    pub room: usize,
    pub trains: bool,
    // What the service saw and did.
    pub received: Vec<u8>,
    pub acked: u64,
    pub connected: bool,
    pub peer_closed: bool,
    pub closed: Option<CloseReason>,
    /// Where urgent bytes are in what is received.
    pub urgent: Vec<usize>,
    /// Chunks not yet consumed.
    pub held: VecDeque<Chunk>,
    /// Consume at once.
    pub eager: bool,
    /// Reply to the peer's FIN by closing.
    pub closes_back: bool,
    pub to_send: VecDeque<Bytes>,
    pub close_when_sent: bool,
}

pub fn open(host: &Host, initial: u32) -> OpenParameters {
    OpenParameters {
        id: ConnectionId::new(0, 0),
        local_port: 1,
        peer_port: 2,
        initial_sequence: SequenceNumber(initial),
        timestamp_offset: initial.wrapping_mul(31),
        maximum_segment: host.maximum_segment,
        receive_window: host.config.receive_window,
    }
}

impl Host {
    pub fn new(config: TcpConfig, maximum_segment: u16) -> Host {
        let frames = (config.receive_frames_max.min(2_048) * 2 + 64) as u32;
        Host {
            config,
            connection: None,
            half_open: None,
            time_wait: None,
            listening: false,
            events: VecDeque::new(),
            counters: Counters::default(),
            cookies: crate::tcp::CookieCache::default(),
            memory: ReceiveMemory::new(frames),
            pool: Region::new(frames, 16_384).unwrap().pool(frames).unwrap(),
            maximum_segment,
            room: usize::MAX,
            trains: true,
            received: Vec::new(),
            acked: 0,
            connected: false,
            peer_closed: false,
            closed: None,
            urgent: Vec::new(),
            held: VecDeque::new(),
            eager: true,
            closes_back: true,
            to_send: VecDeque::new(),
            close_when_sent: false,
        }
    }

    pub fn connect(&mut self, initial: u32, now: Time) {
        let open = open(self, initial);
        self.connection = Some(Connection::open_active(&open, &self.config, now));
    }

    fn settle(&mut self, disposition: Disposition, segment: Option<&SegmentIn<'_>>, now: Time, out: &mut Vec<Packet>) {
        match disposition {
            Disposition::Keep => {}
            Disposition::Remove => self.connection = None,
            Disposition::TimeWait(time_wait) => {
                self.connection = None;
                let header = time_wait.acknowledgment(&mut env!(self, now));
                out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
                self.time_wait = Some(time_wait);
            }
            Disposition::Reset | Disposition::ResetAndRemove => {
                if let Some(header) = segment.and_then(reset_for) {
                    out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
                }
            }
        }
        if self.connection.is_none() {
            assert!(
                self.events.iter().any(|event| matches!(event, Event::Closed { .. })) || self.closed.is_some(),
                "removed without Closed"
            );
        }
    }

    pub fn input(&mut self, packet: &Packet, now: Time, out: &mut Vec<Packet>) {
        let options: Options = packet.header.options;
        let segment = SegmentIn {
            sequence: packet.header.sequence,
            acknowledgment: packet.header.acknowledgment,
            flags: packet.header.flags,
            window: packet.header.window,
            urgent: packet.header.urgent,
            options: &options,
            payload_length: packet.payload.len() as u32,
            ecn: packet.ecn,
        };
        let payload = if packet.payload.is_empty() {
            None
        } else {
            let Some(mut frame) = self.pool.allocate(0) else { return };
            frame.append(packet.payload.len()).unwrap().copy_from_slice(&packet.payload);
            Some(Chunk::new(frame))
        };
        if self.connection.is_some() {
            self.input_connection(&segment, payload, now, out);
        } else if let Some(time_wait) = self.time_wait.as_mut() {
            match time_wait.input(&segment, &mut env!(self, now)) {
                TimeWaitVerdict::Acknowledge(header) => {
                    out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
                }
                TimeWaitVerdict::Ignore | TimeWaitVerdict::Reuse => {}
            }
        } else if let Some(half) = self.half_open.as_mut() {
            let verdict = half.input(&segment, &mut env!(self, now));
            match verdict {
                HalfOpenVerdict::Establish => {
                    let half = self.half_open.take().unwrap();
                    let open = OpenParameters { timestamp_offset: half.timestamp_offset, ..open(self, half.initial.0) };
                    let connection = Connection::from_half_open(&open, &half, &segment, &mut env!(self, now));
                    self.connection = Some(connection);
                    self.connected = true;
                    self.input_connection(&segment, payload, now, out);
                }
                HalfOpenVerdict::Repeat => {
                    let header = half.syn_ack(&mut env!(self, now));
                    out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
                }
                HalfOpenVerdict::Acknowledge => {
                    let header = half.acknowledgment(&mut env!(self, now));
                    out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
                }
                HalfOpenVerdict::Remove => self.half_open = None,
                HalfOpenVerdict::Reset => {
                    if let Some(header) = reset_for(&segment) {
                        out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
                    }
                }
                HalfOpenVerdict::Ignore => {}
            }
        } else if self.listening
            && segment.flags.contains(Flags::SYN)
            && !segment.flags.intersects(Flags::ACK | Flags::RST)
        {
            let parameters = open(self, segment.sequence.0 ^ 0x5555_5555);
            let mut half = HalfOpen::new(&parameters, &segment, &self.config, now);
            let header = half.syn_ack(&mut env!(self, now));
            self.half_open = Some(half);
            self.listening = false;
            out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
        } else if let Some(header) = reset_for(&segment) {
            out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
        }
    }

    fn input_connection(&mut self, segment: &SegmentIn<'_>, payload: Option<Chunk>, now: Time, out: &mut Vec<Packet>) {
        let Some(connection) = self.connection.as_mut() else { return };
        if payload.is_some() && connection.owes_ack_apart() {
            let mut capture = Capture { packets: out, room: self.room, trains: self.trains };
            connection.acknowledge_apart(&mut env!(self, now), &mut capture);
        }
        let disposition = connection.input(segment, payload, &mut env!(self, now));
        self.settle(disposition, Some(segment), now, out);
    }

    pub fn timers(&mut self, now: Time, out: &mut Vec<Packet>) {
        if let Some(connection) = self.connection.as_mut()
            && connection.next_deadline().is_some_and(|deadline| deadline <= now)
        {
            let disposition = connection.on_timer(&mut env!(self, now));
            self.settle(disposition, None, now, out);
        }
        if let Some(half) = self.half_open.as_mut()
            && half.deadline <= now
        {
            match half.on_timer(&mut env!(self, now)) {
                HalfOpenTimer::Repeat => {
                    let header = half.syn_ack(&mut env!(self, now));
                    out.push(Packet { header, payload: Vec::new(), ecn: Ecn::NotCapable });
                }
                HalfOpenTimer::GiveUp => self.half_open = None,
            }
        }
        if self.time_wait.is_some_and(|time_wait| time_wait.deadline <= now) {
            self.time_wait = None;
        }
    }

    /// The service's turn, then output.
    pub fn turn(&mut self, now: Time, out: &mut Vec<Packet>) {
        while let Some(event) = self.events.pop_front() {
            assert!(self.closed.is_none(), "{event:?} after Closed");
            match event {
                Event::Connected { .. } => self.connected = true,
                Event::Data { chunk, .. } => {
                    self.received.extend_from_slice(chunk.bytes());
                    self.held.push_back(chunk);
                }
                Event::Acked { bytes, .. } => self.acked += u64::from(bytes),
                Event::Urgent { ahead, .. } => self.urgent.push(self.received.len() + ahead as usize),
                Event::PeerClosed { .. } => {
                    assert!(!self.peer_closed, "PeerClosed twice");
                    self.peer_closed = true;
                }
                Event::Closed { why, .. } => self.closed = Some(why),
                Event::Accepted { .. }
                | Event::AddressConflict { .. }
                | Event::Datagram { .. }
                | Event::Timer { .. }
                | Event::Read { .. }
                | Event::Written { .. }
                | Event::Flushed { .. }
                | Event::Zeroed { .. } => unreachable!(),
            }
        }
        if self.eager {
            self.consume_all(now);
        }
        if self.connection.is_some() {
            while let Some(bytes) = self.to_send.pop_front() {
                self.connection.as_mut().unwrap().send(bytes, &self.config).unwrap();
            }
            if self.connected
                && ((self.close_when_sent) || (self.peer_closed && self.closes_back))
                && let Some(connection) = self.connection.as_mut()
            {
                let _ = connection.shutdown();
            }
            self.output(now, out);
        }
    }

    pub fn consume_all(&mut self, now: Time) {
        while !self.held.is_empty() {
            self.consume_one(now);
        }
    }

    pub fn consume_one(&mut self, now: Time) {
        if let Some(chunk) = self.held.pop_front()
            && let Some(connection) = self.connection.as_mut()
        {
            let bytes = chunk.len() as u32;
            drop(chunk);
            connection.consume(bytes, 1, &mut env!(self, now));
        }
    }

    pub fn output(&mut self, now: Time, out: &mut Vec<Packet>) {
        if let Some(connection) = self.connection.as_mut()
            && connection.needs_output()
        {
            let mut capture = Capture { packets: out, room: self.room, trains: self.trains };
            let disposition = connection.output(&mut env!(self, now), &mut capture);
            self.settle(disposition, None, now, out);
        }
        if !self.events.is_empty() {
            self.turn(now, out);
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        let connection = self.connection.as_ref().and_then(Connection::next_deadline);
        [connection, self.half_open.map(|half| half.deadline), self.time_wait.map(|wait| wait.deadline)]
            .into_iter()
            .flatten()
            .min()
    }

    pub fn state(&self) -> State {
        self.connection.as_ref().map_or(State::Closed, Connection::state)
    }
}

/// Says of the packets of a sender which vanish.
pub type Filter = Box<dyn FnMut(usize, &Packet) -> bool>;

/// Two hosts and the link.
pub struct Pair {
    pub now: Time,
    pub hosts: [Host; 2],
    pub faults: [Faults; 2],
    pub random: Random,
    flying: BTreeMap<(Time, u64), (usize, Packet)>,
    counter: u64,
    busy_until: [Time; 2],
    queued: [VecDeque<Time>; 2],
    /// Every packet sent, for assertions (sender, time, packet); only if asked for.
    pub log: Option<Vec<(usize, Time, Packet)>>,
    /// Drop the packets of this filter.
    pub drop: Option<Filter>,
}

impl Pair {
    pub fn new(a: Host, b: Host, faults: Faults, seed: u64) -> Pair {
        Pair {
            now: Time::from_millis(1_000),
            hosts: [a, b],
            faults: [faults; 2],
            random: Random::new(seed),
            flying: BTreeMap::new(),
            counter: 0,
            busy_until: [Time::ZERO; 2],
            queued: [VecDeque::new(), VecDeque::new()],
            log: None,
            drop: None,
        }
    }

    /// Host 0 connects, host 1 listens.
    pub fn handshake(mut self) -> Pair {
        self.start();
        self.run_until(Duration::from_secs(60), |pair| pair.hosts[0].connected && pair.hosts[1].connected);
        assert!(self.hosts[0].connected && self.hosts[1].connected, "no connection");
        self
    }

    pub fn start(&mut self) {
        let initial = self.random.next() as u32;
        self.hosts[1].listening = true;
        let now = self.now;
        self.hosts[0].connect(initial, now);
        self.turn(0);
    }

    pub fn send_packets(&mut self, from: usize, packets: Vec<Packet>) {
        for mut packet in packets {
            if let Some(log) = self.log.as_mut() {
                log.push((from, self.now, packet.clone()));
            }
            if self.drop.as_mut().is_some_and(|drop| drop(from, &packet)) {
                continue;
            }
            let faults = self.faults[from];
            let length = packet.payload.len() + packet.header.header_length();
            if length > faults.segment_max || self.random.chance(1_000 * faults.loss) {
                continue;
            }
            let mut at = self.now;
            if faults.rate > 0 {
                while self.queued[from].front().is_some_and(|done| *done <= self.now) {
                    self.queued[from].pop_front();
                }
                if self.queued[from].len() >= faults.queue {
                    continue;
                }
                let start = self.busy_until[from].max(self.now);
                at = start + Duration::from_secs_f64((length as f64 + 54.0) / faults.rate as f64);
                self.busy_until[from] = at;
                self.queued[from].push_back(at);
            }
            if packet.ecn == Ecn::Capable0 && self.random.chance(1_000 * faults.mark) {
                packet.ecn = Ecn::CongestionExperienced;
            }
            let copies = if self.random.chance(1_000 * faults.duplicate) { 2 } else { 1 };
            for _ in 0..copies {
                let mut arrival = at + faults.delay;
                if self.random.chance(1_000 * faults.reorder) {
                    arrival += Duration::from_nanos(self.random.below(faults.jitter.as_nanos() as u64));
                }
                self.counter += 1;
                self.flying.insert((arrival, self.counter), (1 - from, packet.clone()));
            }
        }
    }

    pub fn turn(&mut self, host: usize) {
        let mut out = Vec::new();
        self.hosts[host].turn(self.now, &mut out);
        self.send_packets(host, out);
    }

    pub fn next_time(&self) -> Option<Time> {
        let arrival = self.flying.keys().next().map(|(time, _)| *time);
        [arrival, self.hosts[0].deadline(), self.hosts[1].deadline()].into_iter().flatten().min()
    }

    /// One moment: everything due now, then both services. `false`: nothing left to happen.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next_time() else { return false };
        self.now = self.now.max(next);
        let mut touched = [false; 2];
        while let Some((&(time, counter), _)) = self.flying.iter().next() {
            if time > self.now {
                break;
            }
            let (to, packet) = self.flying.remove(&(time, counter)).unwrap();
            let mut out = Vec::new();
            self.hosts[to].input(&packet, self.now, &mut out);
            self.send_packets(to, out);
            touched[to] = true;
        }
        for (host, touched) in touched.into_iter().enumerate() {
            let due = self.hosts[host].deadline().is_some_and(|deadline| deadline <= self.now);
            if due {
                let mut out = Vec::new();
                self.hosts[host].timers(self.now, &mut out);
                self.send_packets(host, out);
            }
            if due || touched {
                self.turn(host);
            }
        }
        true
    }

    /// Runs until `done` or for `limit` of virtual time; whether `done` came true.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Pair) -> bool) -> bool {
        let end = self.now + limit;
        let mut steps = 0u64;
        while !done(self) {
            match self.next_time() {
                Some(next) if next <= end => {}
                _ => {
                    self.now = end;
                    return done(self);
                }
            }
            self.step();
            steps += 1;
            assert!(steps < 3_000_000, "no progress: {:?} {:?}", self.describe(0), self.describe(1));
        }
        true
    }

    pub fn run_for(&mut self, limit: Duration) {
        self.run_until(limit, |_| false);
    }

    pub fn describe(&self, host: usize) -> String {
        let host = &self.hosts[host];
        format!(
            "{:?} received {} acked {} closed {:?} {:?} {:?}",
            host.state(),
            host.received.len(),
            host.acked,
            host.closed,
            host.connection.as_ref().map(Connection::info),
            host.counters
        )
    }

    /// Everything has ended in order; all frames are back.
    pub fn check_conservation(&mut self) {
        for host in &mut self.hosts {
            host.held.clear();
            host.events.clear();
            if host.connection.is_none() {
                assert_eq!(host.pool.in_use_count(), 0, "frames leaked");
            }
        }
    }
}

/// Bytes that depend on position and seed, so that any misplacement shows.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|index| ((index ^ (index >> 8) ^ (index >> 16)).wrapping_mul(31).wrapping_add(seed)) as u8)
        .collect()
}

/// A segment to inject by hand.
pub fn segment(sequence: SequenceNumber, acknowledgment: SequenceNumber, flags: Flags, payload: &[u8]) -> Packet {
    Packet {
        header: Header { sequence, acknowledgment, flags, window: 1_000, ..Header::default() },
        payload: payload.to_vec(),
        ecn: Ecn::NotCapable,
    }
}

impl Pair {
    /// Gives a hand-made segment to `host` and returns what it answers at once. Nothing of it reaches the link.
    pub fn inject(&mut self, host: usize, packet: &Packet) -> Vec<Packet> {
        let mut out = Vec::new();
        self.hosts[host].input(packet, self.now, &mut out);
        self.hosts[host].turn(self.now, &mut out);
        out
    }

    /// A segment as the peer of `host` would send it next, with valid timestamps.
    pub fn next_for(&self, host: usize, flags: Flags, payload: &[u8]) -> Packet {
        let connection = self.hosts[host].connection.as_ref().expect("a connection");
        let mut packet = segment(connection.receive_next(), connection.send_next(), flags, payload);
        packet.header.options.timestamps = connection
            .info()
            .timestamps
            .then(|| Timestamps { value: connection.timestamps.recent(), echo: connection.timestamp_now(self.now) });
        packet
    }

    pub fn connection(&mut self, host: usize) -> &mut Connection {
        self.hosts[host].connection.as_mut().expect("a connection")
    }

    /// Packets with payload that `host` has sent, so far as logged.
    pub fn sent_data(&self, host: usize) -> Vec<&Packet> {
        let log = self.log.as_ref().expect("a log");
        log.iter().filter(|(from, _, packet)| *from == host && !packet.payload.is_empty()).map(|(_, _, p)| p).collect()
    }
}
