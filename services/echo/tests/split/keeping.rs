//! Services that keep what they receive: small messages then lie in small buffers, and are what they were, whatever is done with
//! them later.

use crate::support::{Client, Core, Serving, run_until, stream_byte};
use qanat::split::{SplitOptions, SplitRuntime};
use qanat::{Chunk, Commands, ConnectionId, Context, Event, ListenOptions, Service, Setting, StartError, UdpSocketId};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// More than a quarter of the card's 1,024 frames, so that most are copies; and less than half, which is for datagrams alone.
const DATAGRAMS: usize = 480;
const SEGMENT: usize = 100;
const SEGMENTS: usize = 600;

/// Keeps everything until it is enough, then sends it back: datagrams in their own buffers, streams by copying.
#[derive(Default)]
struct Keeper {
    datagrams: Vec<(UdpSocketId, SocketAddr, Chunk)>,
    pieces: Vec<Chunk>,
    bytes: usize,
}

impl Keeper {
    fn give_back(&mut self, connection: ConnectionId, context: &mut Context<'_>) {
        for (number, piece) in self.pieces.drain(..).enumerate() {
            context.send(connection, piece.bytes().to_vec().into()).expect("sending");
            // Given back by hand, or dropped: both are.
            if number % 8 != 0 {
                context.consume(connection, piece);
            }
        }
        context.shutdown(connection).expect("a FIN");
    }
}

impl Service for Keeper {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 7);
        context.bind_udp(local)?;
        context.listen(local, ListenOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Datagram { socket, peer, chunk } => {
                self.datagrams.push((socket, peer, chunk));
                if self.datagrams.len() < DATAGRAMS {
                    return;
                }
                for (number, (socket, peer, mut chunk)) in self.datagrams.drain(..).enumerate() {
                    let outcome = match number % 3 {
                        // As it is, shorter, and copied by the service.
                        0 => context.send_chunk_to(socket, peer, chunk),
                        1 => {
                            chunk.trim_front(1);
                            context.send_chunk_to(socket, peer, chunk)
                        }
                        _ => context.send_to(socket, peer, chunk.bytes()),
                    };
                    outcome.expect("an answer");
                }
            }
            Event::Data { connection, chunk } => {
                self.bytes += chunk.len();
                self.pieces.push(chunk);
                if self.bytes == SEGMENT * SEGMENTS {
                    self.give_back(connection, context);
                }
            }
            _ => {}
        }
    }
}

fn keeping(core: &Core) -> Serving {
    let path = core.path.clone();
    let attach = move || SplitRuntime::attach(SplitRuntime::at(path), SplitOptions::new("keeper")).expect("a net core");
    Serving::start(attach, Keeper::default)
}

#[test]
fn datagrams_kept_take_small_buffers_and_come_back_as_they_were() {
    let core = Core::start(1);
    let mut side = core.client(0);
    let serving = keeping(&core);
    let mut client = Client::new(0, 0);
    side.with_context(|context| client.start(context)).unwrap();
    let status = || core.status().cards[0].service.clone().unwrap_or_default();
    let mut most = (0, 0);
    let (mut sent, mut held) = (0u32, 0);
    // One at a time, so that none is lost, and none comes back before the last.
    while held + 1 < DATAGRAMS as u32 {
        side.turn(&mut client);
        let now = status();
        held = now.credits_used + now.copies_used;
        most = most.max((now.copies_used, now.credits_used));
        if held == sent {
            client.send_datagram(&mut side, &sent.to_be_bytes().repeat(25));
            sent += 1;
        }
    }
    let again =
        |side: &mut qanat::Runtime, client: &mut Client| client.send_datagram(side, &sent.to_be_bytes().repeat(25));
    run_until(&mut side, &mut client, "all of them", again, |client| client.datagrams.len() >= DATAGRAMS);
    for number in 0..DATAGRAMS as u32 - 1 {
        let whole = number.to_be_bytes().repeat(25);
        assert!(client.datagrams.contains(&whole) || client.datagrams.contains(&whole[1..]), "{number}");
    }
    let (copies, frames) = most;
    assert!(frames <= 256 + 1 && copies >= 220, "{frames} frames and {copies} copies");
    let pinned = u64::from(frames) * 2_048 + u64::from(copies) * 512;
    eprintln!(
        "{} messages of 100 bytes kept: {pinned} bytes, {} each",
        frames + copies,
        pinned / u64::from(frames + copies)
    );
    serving.end();
}

/// A client that sends nothing by itself.
struct Silent(Client);

impl Service for Silent {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        self.0.start(context)
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => context.set(connection, Setting::NoDelay(true)).expect("a connection"),
            event => self.0.handle(event, context),
        }
    }
}

#[test]
fn a_stream_kept_in_small_buffers_is_whole_and_in_order() {
    let core = Core::start(1);
    let mut side = core.client(0);
    let serving = keeping(&core);
    let mut sender = Silent(Client::new(0, SEGMENT * SEGMENTS));
    side.with_context(|context| sender.start(context)).unwrap();
    sender.0.start_stream(&mut side);
    let connection = sender.0.connection.expect("a connection");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let (mut most, mut sent) = (0, 0);
    while sender.0.over.is_none() {
        assert!(std::time::Instant::now() < deadline, "{} bytes came back", sender.0.received);
        side.turn(&mut sender);
        if sent < SEGMENT * SEGMENTS {
            // A segment each.
            let bytes: Vec<u8> = (sent..sent + SEGMENT).map(stream_byte).collect();
            if side.with_context(|context| context.send(connection, bytes.into())).is_ok() {
                sent += SEGMENT;
            }
            most = most.max(core.status().cards[0].service.clone().unwrap_or_default().copies_used);
        }
    }
    assert_eq!(sender.0.received, SEGMENT * SEGMENTS, "every byte, in order");
    assert!(most > 200, "{most} in small buffers");
    let home = || {
        let service = core.status().cards[0].service.clone().unwrap_or_default();
        (service.credits_used, service.copies_used, service.connections) == (0, 0, 0)
    };
    while !home() {
        assert!(std::time::Instant::now() < deadline, "all is home");
        side.turn(&mut sender);
    }
    serving.end();
}
