//! [`http2`]: a peer that says anything to the layer of HTTP/2, below a service that does anything. [`hpack`]: blocks of fields, read by
//! our decoder and by another one.
//!
//! Each step is a byte that says what is done, one that says how long what follows is, and that. All is done twice: with what comes in one
//! piece, and cut into small ones. What the service hears, and what the peer is told of the whole connection, is the same.

use bytes::Bytes;
use fluke_hpack::decoder::DecoderError;
use qanat_api::double::{Double, Sent, Told};
use qanat_api::{Chunk, CloseReason, CommandError, Commands, ConnectionId, Event, ListenerId};
use qanat_http2::{Decoder, Http2Layer, Http2Limits, PREFACE, encode};
use qanat_nic::{Pool, Region, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of an input that are taken.
const STEPS_MAX: usize = 96;
/// There are as many streams as an input can begin. How many are open at once would depend on how it is cut.
const LIMITS: Http2Limits = Http2Limits { streams_max: 1_024, head_bytes_max: 1_024, requests_max: 20 };
const HEADER_BYTES: usize = 9;

/// What both runs of an input have in common.
#[derive(PartialEq, Eq, Debug, Default)]
struct Outcome {
    /// What the service got, connection by connection in the order in which they began.
    heard: Vec<Vec<u8>>,
    /// Types and content of frames of the whole connection.
    told: Vec<(u8, Vec<u8>)>,
}

#[derive(Default)]
struct Heard {
    place: usize,
    given: u64,
    acknowledged: u64,
}

struct Bench {
    layer: Http2Layer,
    stack: Double,
    id: ConnectionId,
    receive: Pool,
    cut: usize,
    /// Connections of the service, by their handles, until they end.
    connections: BTreeMap<ConnectionId, Heard>,
    /// Of those, the streams, in order.
    streams: Vec<ConnectionId>,
    outcome: Outcome,
    decoder: Decoder,
    unread: Vec<u8>,
    /// Streams on which nothing more may come.
    ended: BTreeSet<u32>,
}

impl Bench {
    fn new(cut: usize) -> Bench {
        let region = Region::new(2, 65_536).expect("memory");
        let mut stack = Double::new(Time::ZERO, region.pool(1).expect("it has them"));
        let id = ConnectionId::new(0, 0);
        stack.connections.insert(id, Told::default());
        let mut bench = Bench {
            layer: Http2Layer::new(LIMITS).expect("memory"),
            stack,
            id,
            receive: region.pool(1).expect("it has them"),
            cut,
            connections: BTreeMap::new(),
            streams: Vec::new(),
            outcome: Outcome::default(),
            decoder: Decoder::default(),
            unread: Vec::new(),
            ended: BTreeSet::new(),
        };
        let peer = "192.0.2.7:4711".parse().expect("an address");
        bench.event(Event::Accepted { connection: id, listener: ListenerId::new(0, 0), peer });
        bench
    }

    fn event(&mut self, event: Event) {
        self.layer.take(event, &mut self.stack);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.layer.next(&mut self.stack) {
            match event {
                Event::Accepted { connection, .. } => {
                    let heard = Heard { place: self.outcome.heard.len(), ..Heard::default() };
                    self.outcome.heard.push(Vec::new());
                    assert!(self.connections.insert(connection, heard).is_none(), "a handle is not used twice");
                    // It may be gone already: its end follows.
                    if self.outcome.heard.len() > 1 {
                        self.streams.push(connection);
                    }
                }
                Event::Data { connection, chunk } => {
                    let place = self.connections[&connection].place;
                    self.outcome.heard[place].extend_from_slice(chunk.bytes());
                    self.layer.over(&mut self.stack).consume(connection, chunk);
                }
                Event::Acked { connection, bytes } => {
                    let heard = self.connections.get_mut(&connection).expect("it is not over");
                    heard.acknowledged += u64::from(bytes);
                    assert!(heard.acknowledged <= heard.given, "no more than was given");
                }
                Event::Closed { connection, .. } => {
                    assert!(self.connections.remove(&connection).is_some(), "an end is told once");
                    self.streams.retain(|stream| *stream != connection);
                }
                _ => {}
            }
        }
    }

    fn command(&mut self, give: impl FnOnce(&mut dyn Commands) -> Result<(), CommandError>) -> bool {
        let is_taken = give(&mut self.layer.over(&mut self.stack)).is_ok();
        self.settle();
        is_taken
    }

    fn data(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.cut) {
            let mut frame = self.receive.allocate(0).expect("nothing is held");
            frame.append_bytes(part).expect("short");
            self.event(Event::Data { connection: self.id, chunk: Chunk::new(frame) });
        }
    }

    /// What the stack was given, which is acknowledged.
    fn sent(&mut self) {
        while let Some(told) = self.stack.connections.get_mut(&self.id)
            && !told.sent.is_empty()
        {
            let bytes = match told.sent.remove(0) {
                Sent::Bytes(bytes) => bytes,
                Sent::Prepared { .. } => panic!("nothing was prepared"),
            };
            self.event(Event::Acked { connection: self.id, bytes: bytes.len() as u32 });
            self.unread.extend_from_slice(&bytes);
        }
        let unread = std::mem::take(&mut self.unread);
        let mut rest = unread.as_slice();
        while let Some((header, more)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [a, b, c, kind, flags, stream @ ..] = *header;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            assert!(length <= 16_384, "a frame that every peer takes");
            let Some((content, more)) = more.split_at_checked(length) else { break };
            rest = more;
            self.read(kind, flags, u32::from_be_bytes(stream), content);
        }
        self.unread = rest.to_vec();
    }

    fn read(&mut self, kind: u8, flags: u8, stream: u32, content: &[u8]) {
        match kind {
            0 | 1 => {
                assert!(!self.ended.contains(&stream), "nothing comes behind an end");
                if kind == 1 {
                    assert!(flags & 4 != 0, "short heads are one frame");
                    self.decoder.decode(content, |_, _| {}).expect("a block");
                }
                if flags & 1 != 0 {
                    self.ended.insert(stream);
                }
            }
            3 => {
                // An end, and that no more of the request is wanted; or an end by itself.
                self.ended.insert(stream);
            }
            4 | 6 | 7 | 8 => {
                assert_eq!(stream, 0);
                self.outcome.told.push((kind, content.to_vec()));
            }
            other => panic!("frames of type {other} are not sent"),
        }
    }
}

/// A frame, as it is sent.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (content.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags], &stream.to_be_bytes()[..], content].concat()
}

fn block(more: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":method", &b"GET"[..]), (":scheme", b"https"), (":authority", b"a"), (":path", b"/")] {
        encode(name.as_bytes(), value, &mut block);
    }
    encode(b"more", more, &mut block);
    block
}

fn run(data: &[u8], cut: usize) -> Outcome {
    let mut bench = Bench::new(cut);
    let (mut rest, mut next_stream) = (data, 1);
    for _ in 0..STEPS_MAX {
        let Some((step, more)) = rest.split_first() else { break };
        let (count, more) = more.split_first().map_or((0, more), |(count, more)| (usize::from(*count), more));
        let (bytes, after) = more.split_at(more.len().min(count));
        rest = after;
        let newest = bench.streams.last().copied();
        match step % 12 {
            0 => bench.data(bytes),
            1 => bench.data(&[PREFACE, &frame(4, 0, 0, &bytes[..bytes.len() / 6 * 6])].concat()),
            // A frame of any type, on a stream that there may be.
            2 | 3 => {
                if let Some(([kind, flags, stream], content)) = bytes.split_first_chunk::<3>() {
                    let content = content.repeat(if step & 0x80 != 0 { 1 + 16_000 / content.len().max(1) } else { 1 });
                    bench.data(&frame(kind % 11, *flags, u32::from(*stream % 32), &content));
                }
            }
            4 | 5 => {
                let flags = if step & 0x80 != 0 { 4 } else { 5 };
                bench.data(&frame(1, flags, next_stream, &block(bytes)));
                next_stream += 2;
            }
            6 => bench.sent(),
            7 => {
                if let Some(id) = newest {
                    let promised = count * 100 + usize::from(step & 0x80 != 0);
                    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {promised}\r\n\r\n");
                    let text = [text.as_bytes(), &vec![b'x'; count * 100]].concat();
                    let given = text.len() as u64;
                    if bench.command(|commands| commands.send(id, Bytes::from(text)))
                        && let Some(heard) = bench.connections.get_mut(&id)
                    {
                        heard.given += given;
                    }
                }
            }
            8 => {
                if let Some(id) = newest {
                    bench.command(|commands| match count % 4 {
                        0 => commands.abort(id),
                        1 => commands.refuse(id),
                        _ => commands.close(id),
                    });
                    bench.streams.retain(|stream| *stream != id);
                }
            }
            9 => bench.stack.window = Some(count as i64 * 100),
            10 => {
                let whole = bench.connections.keys().next().copied().expect("the whole connection");
                bench.command(|commands| match count % 3 {
                    0 => commands.close(whole),
                    _ => Ok(()),
                });
            }
            _ => bench.event(Event::PeerClosed { connection: bench.id }),
        }
    }
    bench.sent();
    bench.event(Event::Closed { connection: bench.id, why: CloseReason::ResetByPeer });
    bench.stack.connections.clear();
    assert!(bench.connections.is_empty(), "everybody is told of the end");
    assert_eq!((bench.receive.in_use_count(), bench.layer.frames_in_use()), (0, 0), "everything is given back");
    bench.outcome
}

/// See the module.
pub fn http2(data: &[u8]) {
    let Some((cut, rest)) = data.split_first() else { return };
    let whole = run(rest, 60_000);
    assert_eq!(run(rest, 1 + usize::from(*cut)), whole, "however it is cut");
}

/// See the module.
pub fn hpack(data: &[u8]) {
    let (mut ours, mut theirs) = (Decoder::default(), fluke_hpack::Decoder::new());
    let mut rest = data;
    while let Some((count, more)) = rest.split_first() {
        let (block, after) = more.split_at(more.len().min(usize::from(*count)));
        rest = after;
        let mut read = Vec::new();
        let outcome = ours.decode(block, |name, value| read.push((name.to_vec(), value.to_vec())));
        // The other one takes more: sizes of the table at any place, integers of any length.
        if outcome.is_err() {
            return;
        }
        match theirs.decode(block) {
            Ok(fields) => assert_eq!(fields, read),
            // It takes no block that says nothing but how large the table is.
            Err(why) => assert!(read.is_empty() && why == DecoderError::SizeUpdateAtEnd, "what ours takes: {why:?}"),
        }
    }
}
