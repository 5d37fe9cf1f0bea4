//! Attacks while the net core is under load: a neighbour's echo is driven as hard as its client can on a thread of its own,
//! and each of its bytes is looked at.

use crate::attacker::{Attacker, Neighbour, card_is_good, serve};
use crate::support::{Client, Core, Serving, report, server, stream_returns};
use qanat::{Commands, Runtime, Service, Setting, StartError};
use qanat_abi::message::{RELEASES_MAX, Range, Window};
use qanat_abi::{Command, Event, Id, Message};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A neighbour under load: streams there and back, one after the other.
struct Load {
    stop: Arc<AtomicBool>,
    streams: Arc<AtomicU64>,
    thread: Option<JoinHandle<Vec<Duration>>>,
    _serving: Serving,
}

impl Load {
    fn start(core: &Core, card: u8, client: impl FnOnce() -> Runtime + Send + 'static) -> Load {
        let (stop, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (its_stop, its_streams) = (Arc::clone(&stop), Arc::clone(&streams));
        let (connected, is_connected) = std::sync::mpsc::channel();
        let (serves, is_served) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let (mut runtime, mut client) = (client(), Client::new(card, 200_000));
            connected.send(()).expect("the test");
            // Before it listens it refuses.
            is_served.recv_timeout(PATIENCE).expect("the neighbour");
            runtime.with_context(|context| client.start(context)).expect("a start");
            let mut times = Vec::new();
            while !its_stop.load(Ordering::Acquire) {
                let started = std::time::Instant::now();
                // Each byte is compared.
                stream_returns(&mut runtime, &mut client);
                times.push(started.elapsed());
                its_streams.fetch_add(1, Ordering::Release);
            }
            times
        });
        // The net core opens its cards first, which takes each card's client.
        is_connected.recv_timeout(PATIENCE).expect("the neighbour's client");
        let serving = serve(&core.path, card);
        serves.send(()).expect("the neighbour's client");
        Load { stop, streams, thread: Some(thread), _serving: serving }
    }

    /// Streams go on coming back: two that both end after this was called, so one that began, too.
    fn goes_on(&self) {
        let (before, deadline) = (self.streams.load(Ordering::Acquire), std::time::Instant::now() + PATIENCE);
        while self.streams.load(Ordering::Acquire) < before + 2 {
            let running = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
            assert!(running && std::time::Instant::now() < deadline, "the neighbour's streams stand still");
            std::thread::yield_now();
        }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let mut alone = thread.join().expect("every byte as it was sent");
            let meanwhile = alone.split_off(alone.len().min(ALONE));
            report("streams of 200 KB before", alone);
            report("streams of 200 KB meanwhile", meanwhile);
        }
    }
}

/// Streams before any attack, to compare with.
const ALONE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(30);

/// Card 0: the attacker's; card 1: the neighbour's.
fn scene() -> (Core, Runtime, Load) {
    let core = Core::start(2);
    let peer = core.client(0);
    // Made where it is used: a runtime does not move between threads.
    let connect = core.connect(1);
    let load = Load::start(&core, 1, connect);
    let deadline = std::time::Instant::now() + PATIENCE;
    while load.streams.load(Ordering::Acquire) < ALONE as u64 && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    (core, peer, load)
}

/// One message of each kind, as an honest service might say it.
fn honest() -> Vec<Command> {
    let (connection, local) = (Id { slot: 0, generation: 0 }, SocketAddr::new(server(0), 99));
    vec![
        Command::Listen { request: 1, local, backlog: 16 },
        Command::BindUdp { request: 2, local },
        Command::ConnectFrom { local },
        Command::Connect { request: 3, peer: SocketAddr::from(([10, 9, 0, 1], 9)) },
        Command::CloseListener { listener: Id { slot: 1, generation: 0 } },
        Command::CloseUdp { socket: Id { slot: 1, generation: 0 } },
        Command::Send { connection, range: Range { offset: 0, length: 64 }, consumed: None },
        Command::Send { connection, range: Range { offset: 0, length: 64 }, consumed: Some(0) },
        Command::SendTo { socket: 0, peer: local, offset: 0, length: 64 },
        Command::SendChunkTo { socket: 0, peer: local, window: Window { frame: 0, start: 64, length: 64 } },
        Command::Consume { connection, frame: 0 },
        Command::Release { count: 1, frames: [0; RELEASES_MAX] },
        Command::Shutdown { connection },
        Command::Close { connection },
        Command::Abort { connection },
        Command::Set { connection, setting: Setting::NoDelay(true) },
        Command::Set { connection, setting: Setting::Cork(true) },
        Command::Set { connection, setting: Setting::Keepalive(None) },
        Command::Set { connection, setting: Setting::UserTimeout(Some(Duration::from_millis(1))) },
        Command::Set { connection, setting: Setting::AdvertisedUserTimeout(Duration::from_secs(60)) },
        Command::Set { connection, setting: Setting::PacingRate(Some(1)) },
        Command::Set { connection, setting: Setting::SynRetransmissions(Some(1)) },
        Command::Set { connection, setting: Setting::ReceiveWindowMax(Some(1)) },
    ]
}

/// Offsets of a message's fields in its 256 bits, and their widths: kind, flags, short, word; the three words after them as
/// halves.
const FIELDS: [(u32, u32); 10] =
    [(0, 8), (8, 8), (16, 16), (32, 32), (64, 32), (96, 32), (128, 32), (160, 32), (192, 32), (224, 32)];

fn with_field(mut words: [u64; 4], (offset, width): (u32, u32), value: u64) -> [u64; 4] {
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let (word, shift) = ((offset / 64) as usize, offset % 64);
    words[word] = words[word] & !(mask << shift) | (value & mask) << shift;
    words
}

// Attack: fields and memory: every field of every message to a net core at its edges
#[test]
fn every_field_of_every_message_at_its_edges() {
    let (core, mut peer, load) = scene();
    let edges = [0, 1, 255, 4_096, 65_535, 1 << 31, u64::MAX];
    let mut random = qanat::nic::Random::new(11);
    let mut attacker = Attacker::new(&core.path, 0);
    let (mut borne, mut cut_off) = (0u64, 0u64);
    for command in honest() {
        for field in FIELDS {
            for value in edges.into_iter().chain([random.next()]) {
                if attacker.say_words(with_field(command.encode(), field, value)) && attacker.is_heard() {
                    borne += 1;
                } else {
                    cut_off += 1;
                    attacker = Attacker::new(&core.path, 0);
                }
            }
        }
        load.goes_on();
    }
    assert!(cut_off > 100 && borne > 100, "both happen: {cut_off} cut off, {borne} borne");
    assert_eq!(core.status().cut_off, cut_off);
    drop(attacker);
    card_is_good(&core, &mut peer);
    load.end();
}

/// Gets a datagram of the peer's on a socket of its own: the window it is lent.
fn lent_datagram(attacker: &mut Attacker, peer: &mut Runtime, client: &mut Client) -> Window {
    loop {
        client.send_datagram(peer, b"some bytes to lend");
        peer.turn(client);
        attacker.ring();
        if let Some(Event::Datagram { window, .. }) = attacker.hear() {
            return window;
        }
        std::thread::yield_now();
    }
}

// Attack: fields and memory: frames given back twice, used after, or as more than was lent
#[test]
fn frames_given_back_twice_used_after_or_as_more_than_was_lent() {
    let (core, mut peer, load) = scene();
    let mut client = Client::new(0, 0);
    peer.with_context(|context| client.start(context)).expect("a start");
    let to = SocketAddr::from(([10, 9, 0, 1], 5_000));
    let release = |frame| Command::Release { count: 1, frames: [frame; RELEASES_MAX] };
    let send_on = |window| Command::SendChunkTo { socket: 0, peer: to, window };
    type Attack = fn(Window) -> Window;
    let widened: [Attack; 5] = [
        |window| Window { start: window.start - 1, ..window },
        |window| Window { length: window.length + 1, ..window },
        |window| Window { start: 0, length: u16::MAX, ..window },
        |window| Window { start: window.start + window.length, length: 1, ..window },
        |window| Window { start: u16::MAX, length: u16::MAX, ..window },
    ];
    let attacks = 4 + widened.len();
    for attack in 0..attacks {
        let mut attacker = Attacker::new(&core.path, 0);
        attacker.say(Command::BindUdp { request: 1, local: SocketAddr::new(server(0), 7) });
        let mut lent = || lent_datagram(&mut attacker, &mut peer, &mut client);
        let (first, second, third) = (lent(), lent(), lent());
        // The control: given back once, sent on once, as much or less of it than was lent.
        assert!(attacker.say(release(first.frame)) && attacker.say(send_on(second)));
        let shorter = Window { start: third.start + 1, length: third.length - 2, ..third };
        let kept = lent_datagram(&mut attacker, &mut peer, &mut client);
        assert!(attacker.say(send_on(shorter)));
        assert!(attacker.say(Command::Set { connection: Id { slot: 9, generation: 9 }, setting: Setting::Cork(true) }));
        let before = core.status().cut_off;
        let lie = match attack {
            0 => Command::Release { count: 2, frames: [kept.frame; RELEASES_MAX] },
            1 => {
                attacker.say(release(kept.frame));
                send_on(kept)
            }
            2 => {
                attacker.say(send_on(kept));
                release(kept.frame)
            }
            3 => Command::Consume { connection: Id { slot: 0, generation: 0 }, frame: kept.frame },
            other => send_on(widened[other - 4](kept)),
        };
        attacker.say(lie);
        attacker.wait_until_cut_off();
        assert_eq!(core.status().cut_off, before + 1, "attack {attack}");
        load.goes_on();
    }
    peer.with_context(|context| context.close_udp(client.socket())).expect("a socket");
    card_is_good(&core, &mut peer);
    load.end();
}

/// Bytes of a stream that is never consumed stop at its window; those of one whose memory changes under way are wrong, and
/// nothing else is.
// Attack: fields and memory: bytes changed after they were submitted
#[test]
fn bytes_changed_after_they_were_submitted_and_bytes_never_consumed_are_the_senders_affair() {
    let (core, mut peer, load) = scene();
    let mut attacker = Attacker::new(&core.path, 0);
    let small = std::fs::File::from(attacker.files[2].try_clone().expect("a descriptor"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let scribbling = std::thread::spawn(move || {
        let mut random = qanat::nic::Random::new(3);
        while !stopped.load(Ordering::Acquire) {
            small.write_at(&random.next().to_le_bytes(), random.next() % 60_000).expect("its own memory");
        }
    });
    attacker.say(Command::BindUdp { request: 1, local: SocketAddr::new(server(0), 7) });
    attacker.say(Command::Listen { request: 2, local: SocketAddr::new(server(0), 7), backlog: 16 });
    let mut client = Wordy::default();
    peer.with_context(|context| client.start(context)).expect("a start");
    let to = SocketAddr::from(([10, 9, 0, 1], 5_000));
    const LENGTH: u32 = 60_000;
    let (mut connection, mut may_send, mut acknowledged) = (None, 0, 0);
    let (mut held, deadline) = (0u32, std::time::Instant::now() + PATIENCE);
    // Until the peer has both: a megabyte of a stream, and a thousand datagrams, made of what is being written.
    while client.stream_bytes < 1_000_000 || client.datagrams < 1_000 || held < 8 {
        assert!(std::time::Instant::now() < deadline, "{} {} {held}", client.stream_bytes, client.datagrams);
        match attacker.hear() {
            Some(Event::Accepted { connection: id, .. }) => (connection, may_send) = (Some(id), 8),
            Some(Event::Acked { bytes, .. }) => {
                acknowledged += bytes;
                may_send += acknowledged / LENGTH;
                acknowledged %= LENGTH;
            }
            // Never consumed.
            Some(Event::Data { .. }) => held += 1,
            _ => {}
        }
        attacker.say(Command::SendTo { socket: 0, peer: to, offset: 4_096, length: 1_000 });
        if let Some(connection) = connection.filter(|_| may_send > 0) {
            may_send -= 1;
            let range = Range { offset: 0, length: LENGTH };
            assert!(attacker.say(Command::Send { connection, range, consumed: None }));
        }
        assert!(attacker.is_heard());
        for _ in 0..8 {
            peer.turn(&mut client);
        }
    }
    let service = core.status().cards[0].service.clone().expect("the attacker");
    assert!(service.credits_used > 0 && service.credits_used < service.credits, "{service:?}");
    load.goes_on();
    stop.store(true, Ordering::Release);
    scribbling.join().expect("the other thread");
    drop(attacker);
    peer.with_context(|context| context.close_udp(client.socket.expect("a socket"))).expect("a socket");
    card_is_good(&core, &mut peer);
    load.end();
}

/// Sends without end, and counts what comes, whatever it is.
#[derive(Default)]
struct Wordy {
    socket: Option<qanat::UdpSocketId>,
    stream_bytes: usize,
    datagrams: usize,
}

impl Service for Wordy {
    fn start(&mut self, context: &mut qanat::Context<'_>) -> Result<(), StartError> {
        self.socket = Some(context.bind_udp(SocketAddr::from(([10, 9, 0, 1], 5_000)))?);
        let to = SocketAddr::new(server(0), 7);
        context.connect(to, qanat::ConnectOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: qanat::Event, context: &mut qanat::Context<'_>) {
        match event {
            qanat::Event::Connected { connection } => drop(context.send(connection, vec![7; 1 << 20].into())),
            qanat::Event::Data { connection, chunk } => {
                self.stream_bytes += chunk.len();
                context.consume(connection, chunk);
            }
            qanat::Event::Datagram { .. } => self.datagrams += 1,
            _ => {}
        }
    }
}

/// A service that takes no events any more: bounded, counted, and well when it goes on.
// Attack: time and cost: a service that takes no events
#[test]
fn a_service_that_stands_still_is_held_back_and_goes_on_well() {
    let core = Core::start(2);
    let (mut peer, neighbours_peer) = (core.client(0), core.client(1));
    let mut neighbour = Neighbour::new(&core, 1, neighbours_peer);
    let mut attacker = Attacker::new(&core.path, 0);
    attacker.say(Command::Listen { request: 1, local: SocketAddr::new(server(0), 7), backlog: 16 });
    let mut client = Knocker::default();
    let held_back = |core: &Core| core.status().cards[0].service.clone().unwrap_or_default();
    // Connections come and go: two events each, of which it takes none, until there is room for no more.
    let deadline = std::time::Instant::now() + PATIENCE;
    while held_back(&core).turns_held_back == 0 {
        assert!(std::time::Instant::now() < deadline, "{:?}", core.status());
        for _ in 0..256 {
            if client.open < 16 {
                let to = SocketAddr::new(server(0), 7);
                let connecting = peer.with_context(|context| context.connect(to, qanat::ConnectOptions::default()));
                client.open += u32::from(connecting.is_ok());
            }
            peer.turn(&mut client);
            // Now that it has acknowledged the handshake.
            for connection in std::mem::take(&mut client.connected) {
                peer.with_context(|context| context.abort(connection)).expect("its own connection");
            }
        }
    }
    let service = held_back(&core);
    // An event may need two messages.
    assert!(service.events_waiting.0 >= 4_095, "its ring is full: {:?}", service.events_waiting);
    neighbour.is_well();
    // It takes them all, and is served again.
    let mut taken = 0u64;
    while held_back(&core).events_waiting.1 > 0 || taken < service.events {
        while attacker.hear().is_some() {
            taken += 1;
        }
        attacker.ring();
    }
    assert!(attacker.say(Command::Close { connection: Id { slot: 0, generation: 0 } }));
    while client.open > 0 {
        peer.turn(&mut client);
        for connection in std::mem::take(&mut client.connected) {
            peer.with_context(|context| context.abort(connection)).expect("its own connection");
        }
        while attacker.hear().is_some() {}
    }
    neighbour.is_well();
    drop(attacker);
    card_is_good(&core, &mut peer);
    neighbour.end();
}

/// Opens connections and throws them away.
#[derive(Default)]
struct Knocker {
    open: u32,
    connected: Vec<qanat::ConnectionId>,
}

impl Service for Knocker {
    fn start(&mut self, _: &mut qanat::Context<'_>) -> Result<(), StartError> {
        Ok(())
    }

    fn handle(&mut self, event: qanat::Event, _: &mut qanat::Context<'_>) {
        match event {
            qanat::Event::Connected { connection } => self.connected.push(connection),
            qanat::Event::Closed { .. } => self.open -= 1,
            _ => {}
        }
    }
}
