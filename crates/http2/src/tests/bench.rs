//! [`Bench`]: the layer between a double of the stack and a small service, and a client that speaks HTTP/2.

use crate::frame::{Frame, HEADER_BYTES, Header, flag, kind, parse, write};
use crate::hpack::{Decoder, encode};
use crate::layer::{Http2Layer, Http2Limits, Over};
use crate::settings::PREFACE;
use bytes::Bytes;
use qanat_api::double::{Double, Sent, Told};
use qanat_api::{Chunk, CloseReason, CommandError, Commands, ConnectionId, Event, ListenerId, Source};
use qanat_nic::{Pool, Region, Time};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Each byte is made of its offset.
pub struct Offsets;

impl Offsets {
    pub fn byte(offset: u64) -> u8 {
        (offset ^ offset >> 8) as u8
    }
}

impl Source for Offsets {
    fn fill(&self, _: u64, offset: u64, target: &mut [u8]) -> qanat_api::Fill {
        target.iter_mut().zip(offset..).for_each(|(byte, offset)| *byte = Offsets::byte(offset));
        qanat_api::Fill::default()
    }
}

/// What the client has of a response.
#[derive(Default, PartialEq, Eq, Debug, Clone)]
pub struct Response {
    pub fields: String,
    pub content: Vec<u8>,
    pub is_ended: bool,
    pub reset: Option<u32>,
}

/// What a service has of a connection.
#[derive(Default)]
pub struct Heard {
    pub head: String,
    pub given: u64,
    pub acknowledged: u64,
    pub closed: Option<CloseReason>,
}

pub struct Bench {
    pub layer: Http2Layer,
    pub stack: Double,
    pub id: ConnectionId,
    receive: Pool,
    /// Bytes that come at once.
    pub cut: usize,
    /// The service answers no request.
    pub is_silent: bool,
    pub heard: BTreeMap<ConnectionId, Heard>,
    /// The service's handle of the whole connection.
    pub whole: Option<ConnectionId>,
    decoder: Decoder,
    block: Vec<u8>,
    pub responses: BTreeMap<u32, Response>,
    /// The code, and the last stream.
    pub goodbye: Option<(u32, u32)>,
    pub pings: usize,
    unread: Vec<u8>,
    /// What the client lets come, and opens again by itself.
    pub windows_are_kept_open: bool,
}

pub const LIMITS: Http2Limits = Http2Limits { streams_max: 128, head_bytes_max: 4_096, requests_max: 0 };

impl Bench {
    pub fn new(limits: Http2Limits) -> Bench {
        let region = Region::new(64, 2_048).unwrap();
        let mut stack = Double::new(Time::ZERO, region.pool(1).unwrap());
        let id = ConnectionId::new(5, 1);
        stack.connections.insert(id, Told::default());
        let receive = region.pool(60).unwrap();
        let mut bench = Bench {
            layer: Http2Layer::new(limits).unwrap(),
            stack,
            id,
            receive,
            cut: 1_448,
            is_silent: false,
            heard: BTreeMap::new(),
            whole: None,
            decoder: Decoder::default(),
            block: Vec::new(),
            responses: BTreeMap::new(),
            goodbye: None,
            pings: 0,
            unread: Vec::new(),
            windows_are_kept_open: true,
        };
        let peer = "192.0.2.7:4711".parse().unwrap();
        bench.event(Event::Accepted { connection: id, listener: ListenerId::new(0, 0), peer });
        bench
    }

    /// With a client that has begun.
    pub fn begun() -> Bench {
        let mut bench = Bench::new(LIMITS);
        bench.begin(&[]);
        bench
    }

    pub fn begin(&mut self, settings: &[u8]) {
        self.data(PREFACE);
        self.frame(kind::SETTINGS, 0, 0, settings);
        self.run();
    }

    pub fn event(&mut self, event: Event) {
        self.layer.take(event, &mut self.stack);
        self.settle();
    }

    pub fn settle(&mut self) {
        while let Some(event) = self.layer.next(&mut self.stack) {
            self.serve(event);
        }
    }

    pub fn command(&mut self, give: impl FnOnce(&mut Over<'_, Double>)) {
        give(&mut self.layer.over(&mut self.stack));
        self.settle();
    }

    /// The service: `/name/length` is answered with so many bytes, by a name that says how.
    fn serve(&mut self, event: Event) {
        let mut commands = self.layer.over(&mut self.stack);
        match event {
            Event::Accepted { connection, .. } => {
                self.whole.get_or_insert(connection);
                assert!(self.heard.insert(connection, Heard::default()).is_none(), "a handle is not used twice");
            }
            Event::Data { connection, chunk } => {
                let heard = self.heard.get_mut(&connection).expect("it was accepted");
                assert!(heard.closed.is_none() && !chunk.is_empty());
                heard.head += std::str::from_utf8(chunk.bytes()).unwrap();
                commands.consume(connection, chunk);
                if heard.head.ends_with("\r\n\r\n") && !self.is_silent {
                    match answer(connection, &heard.head, &mut commands) {
                        Ok(given) => heard.given += given,
                        Err(why) => assert_eq!(why, CommandError::Stale),
                    }
                }
            }
            Event::Acked { connection, bytes } => {
                let heard = self.heard.get_mut(&connection).expect("it was accepted");
                assert!(heard.closed.is_none());
                heard.acknowledged += u64::from(bytes);
                assert!(heard.acknowledged <= heard.given);
            }
            Event::Closed { connection, why } => {
                let heard = self.heard.get_mut(&connection).expect("it was accepted");
                assert!(heard.closed.replace(why).is_none(), "an end is told once");
                if why == CloseReason::Finished {
                    assert_eq!(heard.acknowledged, heard.given);
                }
            }
            _ => {}
        }
    }

    /// Bytes come from the peer.
    pub fn data(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.cut) {
            let mut frame = self.receive.allocate(0).expect("a frame: the layer gives them back");
            frame.append_bytes(part).unwrap();
            self.event(Event::Data { connection: self.id, chunk: Chunk::new(frame) });
            assert_eq!(self.receive.in_use_count(), 0, "nothing is held: what is below lends only so much");
        }
    }

    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, content: &[u8]) {
        let mut bytes = Vec::new();
        write(kind, flags, stream, content, &mut bytes);
        self.data(&bytes);
    }

    /// A request without content.
    pub fn get(&mut self, stream: u32, path: &str) {
        self.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(path, &[]));
    }

    /// Takes what was sent and acknowledges it, until nothing more comes.
    pub fn run(&mut self) {
        while self.take_some(usize::MAX) > 0 {}
    }

    /// Takes up to so many bytes.
    pub fn take_some(&mut self, most: usize) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(told) = self.stack.connections.get_mut(&self.id)
            && !told.sent.is_empty()
        {
            let bytes = match told.sent.remove(0) {
                Sent::Bytes(bytes) => bytes.to_vec(),
                Sent::Prepared { source, stamp, offset, length } => {
                    let mut bytes = vec![0; length as usize];
                    source.fill(stamp, offset, &mut bytes);
                    bytes
                }
            };
            taken += bytes.len();
            self.unread.extend_from_slice(&bytes);
            // In two parts: what is acknowledged ends anywhere.
            for part in [bytes.len() / 2, bytes.len() - bytes.len() / 2].into_iter().filter(|part| *part > 0) {
                self.event(Event::Acked { connection: self.id, bytes: part as u32 });
            }
            self.read();
        }
        taken
    }

    fn read(&mut self) {
        let mut unread = std::mem::take(&mut self.unread);
        while let Some(header) = Header::read(&unread)
            && unread.len() >= HEADER_BYTES + header.length
        {
            let rest = unread.split_off(HEADER_BYTES + header.length);
            let payload = unread.split_off(HEADER_BYTES);
            unread = rest;
            self.read_frame(header, &payload);
        }
        assert!(self.unread.is_empty(), "one frame at a time");
        self.unread = unread;
    }

    fn read_frame(&mut self, header: Header, payload: &[u8]) {
        assert!(header.length <= 16_384);
        match header.kind {
            kind::GOAWAY => {
                let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
                self.goodbye = Some((word(4), word(0)));
                return;
            }
            kind::PING => return self.pings += 1,
            kind::RST_STREAM => {
                let code = u32::from_be_bytes(payload.try_into().unwrap());
                let response = self.responses.entry(header.stream).or_default();
                assert!(response.reset.replace(code).is_none(), "once");
                return;
            }
            _ => {}
        }
        match parse(header, payload).unwrap() {
            Frame::Headers { stream, block, is_last, ends_block: true } => self.read_head(stream, block, is_last),
            Frame::Headers { stream, block, is_last: false, ends_block: false } => {
                assert_eq!(stream, header.stream);
                self.block = block.to_vec();
            }
            Frame::Continuation { stream, block, ends_block } => {
                self.block.extend_from_slice(block);
                if ends_block {
                    let block = std::mem::take(&mut self.block);
                    self.read_head(stream, &block, false);
                }
            }
            Frame::Data { stream, content, is_last, .. } => {
                let response = self.responses.get_mut(&stream).expect("its head came first");
                assert!(!response.is_ended && response.reset.is_none());
                response.content.extend_from_slice(content);
                response.is_ended = is_last;
                if self.windows_are_kept_open && !content.is_empty() {
                    for stream in [0, stream] {
                        self.frame(kind::WINDOW_UPDATE, 0, stream, &(content.len() as u32).to_be_bytes());
                    }
                }
            }
            _ => {}
        }
    }

    fn read_head(&mut self, stream: u32, block: &[u8], is_last: bool) {
        let response = self.responses.entry(stream).or_default();
        let field = |name: &[u8], value: &[u8]| {
            response.fields += &format!("{}={};", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        };
        self.decoder.decode(block, field).unwrap();
        response.is_ended = is_last;
    }

    /// The connection is gone, and nothing of it is left.
    pub fn end(&mut self) {
        self.event(Event::Closed { connection: self.id, why: CloseReason::ResetByPeer });
        self.stack.connections.remove(&self.id);
        for (id, heard) in &self.heard {
            assert!(heard.closed.is_some(), "{id:?} is told of its end");
        }
        assert_eq!((self.receive.in_use_count(), self.layer.frames_in_use()), (0, 0), "everything is given back");
    }

    pub fn told(&self) -> &Told {
        &self.stack.connections[&self.id]
    }

    /// The heads that the service got.
    pub fn heads(&self) -> Vec<&str> {
        self.heard.values().map(|heard| heard.head.as_str()).filter(|head| !head.is_empty()).collect()
    }
}

/// A block of a request.
pub fn block(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", path)];
    for (name, value) in fields.iter().chain(more) {
        encode(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

/// Answers as the path says; how many bytes were given. A stream may be gone already: its end is on its way.
fn answer(id: ConnectionId, head: &str, commands: &mut impl Commands) -> Result<u64, CommandError> {
    let mut words = head.split(' ').nth(1).unwrap().split('/').skip(1);
    let (how, length) =
        (words.next().unwrap_or_default(), words.next().and_then(|text| text.parse().ok()).unwrap_or(0));
    let said = match how {
        "endless" => String::new(),
        "short" => format!("Content-Length: {}\r\n", length + 1),
        _ => format!("Content-Length: {length}\r\n"),
    };
    let long = if how == "wide" { "x".repeat(20_000) } else { String::new() };
    let head = format!("HTTP/1.1 200 OK\r\nServer: a\r\nConnection: close\r\nEarly: {long}\r\n{said}\r\n");
    let given = head.len() as u64 + length;
    commands.send(id, Bytes::from(head))?;
    let bytes = |range: std::ops::Range<u64>| Bytes::from(range.map(Offsets::byte).collect::<Vec<_>>());
    match how {
        "prepared" => commands.send_prepared(id, Rc::new(Offsets), 0, 0, length)?,
        "block" => {
            let mut block = commands.block(length as usize);
            block.append(&bytes(0..length));
            commands.send_block(id, block.filled())?;
        }
        "pieces" => (0..length).try_for_each(|at| commands.send(id, bytes(at..at + 1)))?,
        "open" => return Ok(given),
        "abort" => return commands.abort(id).map(|()| 0),
        _ => commands.send(id, bytes(0..length))?,
    }
    commands.close(id)?;
    Ok(given)
}
