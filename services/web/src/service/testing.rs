//! A service over a stack that remembers, and a peer that reads what it was given to send as a real one would, at
//! arbitrary segmentations, through ready frames and through copies, and again in any order.

use super::WebService;
use crate::config::{WallClock, WebConfig};
use qanat::double::{Double, Sent, Told};
use qanat::nic::Region;
use qanat::wire::checksum;
use qanat::{Chunk, CloseReason, ConnectionId, Event, ListenerId, Pool, Source, Time, TimerId};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// 1994-11-06 08:49:37.
pub const START_SECONDS: u64 = 784_111_777;

/// The client: it reads what was given to send.
pub struct Peer {
    /// What each connection's has read.
    pub streams: HashMap<ConnectionId, Vec<u8>>,
    random: u64,
}

impl Peer {
    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below.max(1) as u64) as usize
    }

    /// Reads everything given to send as segments of random sizes, then each again in random order; returns its length.
    fn transmit(&mut self, stack: &mut Double, id: ConnectionId) -> u64 {
        let sent = std::mem::take(&mut stack.connections.get_mut(&id).unwrap().sent);
        let mut total = 0;
        for piece in &sent {
            total += piece.length();
            let bytes = match piece {
                Sent::Bytes(bytes) => bytes.to_vec(),
                Sent::Prepared { source, stamp, offset, length } => self.read_source(source, *stamp, *offset, *length),
            };
            assert_eq!(bytes.len() as u64, piece.length());
            self.streams.entry(id).or_default().extend_from_slice(&bytes);
        }
        total
    }

    fn read_source(&mut self, source: &Rc<dyn Source>, stamp: u64, offset: u64, length: u64) -> Vec<u8> {
        let mss = 500 + self.random(1000);
        let mut segments = BTreeMap::new();
        let mut bytes = Vec::new();
        let mut held = Vec::new();
        while (bytes.len() as u64) < length {
            let at = offset + bytes.len() as u64;
            let left = (length - bytes.len() as u64) as usize;
            let boundary = source.boundary(stamp, at).unwrap_or(mss).min(left);
            let size = if self.random(3) > 0 { boundary } else { (1 + self.random(mss)).min(left) };
            let segment = self.segment(source, stamp, at, size, &mut held);
            bytes.extend_from_slice(&segment);
            segments.insert(at, segment);
        }
        let mut places: Vec<u64> = segments.keys().copied().collect();
        while !places.is_empty() {
            let place = places.swap_remove(self.random(places.len()));
            let again = self.segment(source, stamp, place, segments[&place].len(), &mut held);
            assert!(again == segments[&place], "a retransmission differs");
        }
        bytes
    }

    fn segment(
        &mut self,
        source: &Rc<dyn Source>,
        stamp: u64,
        at: u64,
        size: usize,
        held: &mut Vec<Rc<qanat::Frame>>,
    ) -> Vec<u8> {
        if source.boundary(stamp, at) == Some(size) && self.random(4) > 0 {
            let mut payload = Vec::new();
            let frame = source.ready(stamp, at, &mut |frame, sum| {
                assert_eq!(sum, checksum::sum(frame.bytes()), "sum of a ready frame");
                assert!(frame.headroom() >= 128);
                payload = frame.bytes().to_vec();
                frame.prepend(66).unwrap().fill(0xee);
            });
            if let Some(frame) = frame {
                assert_eq!(payload.len(), size);
                held.push(frame);
                if held.len() > 6 {
                    let index = self.random(held.len());
                    held.swap_remove(index);
                }
                return payload;
            }
        }
        let mut target = vec![0xaa; size];
        if let Some(sum) = source.fill(stamp, at, &mut target).sum {
            assert_eq!(sum, checksum::sum(&target), "sum of a copy");
        }
        target
    }
}

/// A response as a client sees it.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} twice");
        value
    }
}

/// Splits a stream into responses; `heads_only` tells for each whether it answers HEAD.
pub fn responses(mut stream: &[u8], heads_only: &[bool]) -> Vec<Response> {
    let mut all = Vec::new();
    while !stream.is_empty() {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut parsed = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(length) = parsed.parse(stream).expect("a response") else {
            panic!("cut short: {}", String::from_utf8_lossy(stream))
        };
        let status = parsed.code.unwrap();
        let fields: Vec<(String, String)> = parsed
            .headers
            .iter()
            .map(|field| (field.name.to_owned(), String::from_utf8(field.value.to_vec()).unwrap().trim().to_owned()))
            .collect();
        let mut response = Response { status, fields, body: Vec::new() };
        let headless = heads_only.get(all.len()).copied().unwrap_or(false) || matches!(status, 204 | 304);
        let body_length = match response.field("content-length") {
            Some(_) if headless => 0,
            Some(text) => text.parse().unwrap(),
            None => {
                assert!(headless, "no length");
                0
            }
        };
        response.body = stream[length..length + body_length].to_vec();
        stream = &stream[length + body_length..];
        all.push(response);
    }
    all
}

/// A service over a [`Double`].
pub struct Bench {
    pub service: WebService,
    pub stack: Double,
    pub peer: Peer,
    pub receive: Pool,
    next: u32,
}

impl Bench {
    pub fn new(root: &Path, change: impl FnOnce(&mut WebConfig)) -> Bench {
        let mut config = WebConfig::new(root);
        config.wall_clock = WallClock::FromZero(START_SECONDS);
        change(&mut config);
        Bench::of(WebService::new(config).unwrap())
    }

    /// Over this service, which starts.
    pub fn of(mut service: WebService) -> Bench {
        let region = Region::new(1024, 2048).unwrap();
        let mut stack = Double::new(Time::ZERO, region.pool(256).unwrap());
        stack.pieces_max = 64;
        let receive = region.pool(256).unwrap();
        let peer = Peer { streams: HashMap::new(), random: 88_172_645_463_325_252 };
        service.on_start(&mut stack).unwrap();
        Bench { service, stack, peer, receive, next: 0 }
    }

    pub fn open(&mut self) -> ConnectionId {
        self.open_from("192.0.2.7:4711")
    }

    pub fn open_from(&mut self, peer: &str) -> ConnectionId {
        let connection = ConnectionId::new(self.next % 64, self.next);
        self.next += 1;
        self.stack.connections.insert(connection, Told::default());
        let peer = peer.parse().unwrap();
        self.event(Event::Accepted { connection, listener: ListenerId::new(0, 0), peer });
        connection
    }

    pub fn event(&mut self, event: Event) {
        self.service.on_event(event, &mut self.stack);
    }

    /// Bytes arrive, in chunks of at most a frame.
    pub fn data(&mut self, connection: ConnectionId, bytes: impl AsRef<[u8]>) {
        for part in bytes.as_ref().chunks(1448) {
            let mut frame = self.receive.allocate(0).expect("a receive frame");
            frame.append(part.len()).unwrap().copy_from_slice(part);
            self.event(Event::Data { connection, chunk: Chunk::new(frame) });
        }
    }

    /// The peer reads and acknowledges all there is, and readers finish, until nothing happens any more.
    pub fn run(&mut self, id: ConnectionId) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            self.service.on_doorbell(&mut self.stack);
            let bytes = self.peer.transmit(&mut self.stack, id);
            if bytes > 0 {
                self.event(Event::Acked { connection: id, bytes: bytes as u32 });
                continue;
            }
            if !self.is_busy(id) {
                return;
            }
            assert!(Instant::now() < deadline, "stuck");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// The peer reads all that was sent; how many bytes.
    pub fn transmit(&mut self, id: ConnectionId) -> u64 {
        if self.stack.connections.contains_key(&id) { self.peer.transmit(&mut self.stack, id) } else { 0 }
    }

    pub fn is_busy(&mut self, id: ConnectionId) -> bool {
        use super::connection::Phase;
        self.service
            .connections
            .get(id)
            .is_some_and(|connection| matches!(connection.phase, Phase::Waiting | Phase::Output))
    }

    /// Sends `request` and returns everything that came back on the connection since its start.
    pub fn stream(&mut self, id: ConnectionId, request: impl AsRef<[u8]>) -> Vec<u8> {
        self.data(id, request);
        self.run(id);
        self.peer.streams.get(&id).cloned().unwrap_or_default()
    }

    /// One request on a new connection, one response.
    pub fn ask(&mut self, request: impl AsRef<str>) -> Response {
        let id = self.open();
        let headless = request.as_ref().starts_with("HEAD");
        let stream = self.stream(id, request.as_ref());
        let mut all = responses(&stream, &[headless]);
        assert_eq!(all.len(), 1, "{}", String::from_utf8_lossy(&stream));
        self.end(id);
        all.remove(0)
    }

    pub fn get(&mut self, path: &str, fields: &str) -> Response {
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: example\r\n{fields}\r\n"))
    }

    /// The connection goes.
    pub fn end(&mut self, connection: ConnectionId) {
        self.event(Event::Closed { connection, why: CloseReason::Finished });
        self.stack.connections.remove(&connection);
        self.peer.streams.remove(&connection);
    }

    /// Time passes, tick by tick.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.stack.now + duration;
        while let Some(index) = self.stack.timers.iter().position(|(when, ..)| *when <= end) {
            let (when, _, token) = self.stack.timers.remove(index);
            self.stack.now = self.stack.now.max(when);
            self.event(Event::Timer { id: TimerId::new(0, 0), token });
        }
        self.stack.now = end;
    }
}
