//! A net core with some cards, and a client behind each.

use qanat::nic::memif::{self, MemifListener};
use qanat::nic::{MemifConfig, MemoryPlan};
use qanat::split::{AcceptPolicy, Card, NetCore, NetCoreOptions, NetCoreStatus, SplitRuntime, ask_status};
use qanat::wire::ethernet::MacAddress;
use qanat::{
    CloseReason, Commands, Config, ConnectOptions, ConnectionId, Context, Event, Runtime, RuntimeOptions, Service,
    StartError, StopHandle, UdpSocketId,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
static NUMBER: AtomicU32 = AtomicU32::new(0);

pub fn server(card: u8) -> IpAddr {
    IpAddr::from([10, 9, card, 2])
}

fn client(card: u8) -> IpAddr {
    IpAddr::from([10, 9, card, 1])
}

fn plan() -> MemoryPlan {
    MemoryPlan { frame_size: 2048, receive_frames: 1_024, transmit_frames: 1_024, prepared_frames: 0 }
}

/// A net core on a thread of its own.
pub struct Core {
    pub path: PathBuf,
    directory: tempfile::TempDir,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

fn link(directory: &std::path::Path, card: u8, mac: u8) -> MemifConfig {
    let mut config = MemifConfig::new(directory.join(format!("card{card}")), MacAddress([2, 0, 0, 0, card, mac]));
    config.memory = plan();
    config
}

impl Core {
    /// With so many cards, at [`server`]'s addresses. Serves once every card's client has been made ([`Core::client`]).
    pub fn start(cards: u8) -> Core {
        Core::accepting(cards, AcceptPolicy::default())
    }

    /// As [`start`](Core::start), with a policy for services that share a card.
    pub fn accepting(cards: u8, accept: AcceptPolicy) -> Core {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("@qanat-test-{}-{number}", std::process::id()));
        Core::of(0..cards, accept, path)
    }

    /// With one card, which has that number.
    pub fn with_card(card: u8) -> Core {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Core::with_card_at(card, PathBuf::from(format!("@qanat-test-{}-{number}", std::process::id())))
    }

    /// The same at a place where another was.
    pub fn with_card_at(card: u8, path: PathBuf) -> Core {
        Core::of(card..card + 1, AcceptPolicy::default(), path)
    }

    fn of(cards: std::ops::Range<u8>, accept: AcceptPolicy, path: PathBuf) -> Core {
        let directory = tempfile::tempdir().expect("a directory");
        let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
        let links: Vec<MemifConfig> = cards.clone().map(|card| link(directory.path(), card, 2)).collect();
        let listener = listener(&path);
        let thread = std::thread::spawn(move || {
            let listeners: Vec<_> =
                links.into_iter().map(|link| MemifListener::bind(link).expect("listening")).collect();
            let cards = cards.zip(&listeners).map(|(card, listener)| open_card(listener, card)).collect();
            let users = vec![rustix::process::geteuid().as_raw()];
            let options = NetCoreOptions { users, accept, ..Default::default() };
            NetCore::listening(cards, listener, options).run(stopped.as_fd()).expect("a net core's end");
        });
        Core { path, directory, stop: Some(stop), thread: Some(thread) }
    }

    /// The client behind a card.
    pub fn client(&self, card: u8) -> Runtime {
        self.connect(card)()
    }

    /// Makes it, on whatever thread it is to be used.
    pub fn connect(&self, card: u8) -> impl FnOnce() -> Runtime + Send + use<> {
        let link = link(self.directory.path(), card, 1);
        move || {
            let device = memif::connect(&link, PATIENCE).expect("the card's link");
            let vnic = device.open().expect("a queue");
            Runtime::new(Box::new(vnic), Config::new(client(card), 24), [card; 32])
        }
    }

    pub fn status(&self) -> NetCoreStatus {
        ask_status(&self.path).expect("a net core's status")
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.stop = None;
        if !std::thread::panicking()
            && let Some(thread) = self.thread.take()
        {
            thread.join().expect("the net core's thread");
        }
    }
}

fn listener(path: &std::path::Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
    let name = path.to_str().and_then(|name| name.strip_prefix('@')).expect("an abstract name");
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name")).expect("binding");
    listen(&socket, 8).expect("listening");
    socket
}

fn open_card(listener: &MemifListener, card: u8) -> Card {
    let device = listener.accept(Some(PATIENCE)).expect("the client");
    let (memory, files) = plan().allocate_lendable().expect("memory");
    let opener = device.into_openers().into_iter().next().expect("a queue");
    let vnic = opener.open_over(Some(memory)).expect("a queue");
    Card::new(Box::new(vnic), &files, plan(), Config::new(server(card), 24), "memif", "memif").expect("a card")
}

/// A service on a thread of its own; made there, for services need not move.
pub struct Serving {
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn start<S: Service + 'static>(
        runtime: impl FnOnce() -> SplitRuntime + Send + 'static,
        service: impl FnOnce() -> S + Send + 'static,
    ) -> Serving {
        let stop = StopHandle::new().expect("a doorbell");
        let its_stop = stop.clone();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let (mut runtime, mut service) = (runtime(), Started { service: service(), ready: Some(ready) });
            let options = RuntimeOptions { grace: Duration::ZERO, ..RuntimeOptions::default() };
            runtime.run(&mut service, &its_stop, options, &mut |_, _| {}).expect("a service's end");
        });
        is_ready.recv_timeout(PATIENCE).expect("the service starts");
        Serving { stop, thread: Some(thread) }
    }

    /// Ends it, as a crash would for the net core.
    pub fn end(mut self) {
        self.stop.request();
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("the service's thread"));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.request();
    }
}

/// Tells when it has started.
struct Started<S> {
    service: S,
    ready: Option<std::sync::mpsc::Sender<()>>,
}

impl<S: Service> Service for Started<S> {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        self.service.start(context)?;
        self.ready.take().into_iter().for_each(|ready| ready.send(()).expect("somebody waits"));
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.service.handle(event, context);
    }

    fn turn_ended(&mut self, context: &mut Context<'_>) {
        self.service.turn_ended(context);
    }

    fn leave(&mut self, connection: ConnectionId, context: &mut Context<'_>) -> bool {
        self.service.leave(connection, context)
    }

    fn doorbell(&mut self, token: u64, context: &mut Context<'_>) {
        self.service.doorbell(token, context);
    }
}

/// Talks to an echo on port 7: datagrams one after the other, and a stream.
#[derive(Default)]
pub struct Client {
    card: u8,
    stream_bytes: usize,
    socket: Option<UdpSocketId>,
    pub connection: Option<ConnectionId>,
    pub received: usize,
    pub acknowledged: usize,
    pub datagrams: BTreeSet<Vec<u8>>,
    pub over: Option<CloseReason>,
}

impl Client {
    pub fn new(card: u8, stream_bytes: usize) -> Client {
        Client { card, stream_bytes, ..Client::default() }
    }

    pub fn socket(&self) -> UdpSocketId {
        self.socket.expect("a socket")
    }

    pub fn send_datagram(&mut self, runtime: &mut Runtime, payload: &[u8]) {
        let (socket, to) = (self.socket(), SocketAddr::new(server(self.card), 7));
        runtime.with_context(|context| context.send_to(socket, to, payload)).expect("a datagram");
    }

    pub fn start_stream(&mut self, runtime: &mut Runtime) {
        let to = SocketAddr::new(server(self.card), 7);
        let connection = runtime.with_context(|context| context.connect(to, ConnectOptions::default()));
        (self.connection, self.over) = (Some(connection.expect("a connection")), None);
        (self.received, self.acknowledged) = (0, 0);
    }
}

pub fn stream_byte(index: usize) -> u8 {
    (index % 251) as u8
}

impl Service for Client {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::new(client(self.card), 5_000);
        self.socket = Some(context.bind_udp(local)?);
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            // Of who had this runtime before.
            Event::Connected { connection }
            | Event::Data { connection, .. }
            | Event::Acked { connection, .. }
            | Event::Closed { connection, .. }
                if self.connection != Some(connection) => {}
            Event::Connected { connection } => {
                let bytes: Vec<u8> = (0..self.stream_bytes).map(stream_byte).collect();
                context.send(connection, bytes.into()).expect("sending");
            }
            Event::Data { connection, chunk } => {
                let right = chunk.bytes().iter().zip(self.received..).all(|(byte, at)| *byte == stream_byte(at));
                assert!(right, "the stream's bytes, from {} on", self.received);
                self.received += chunk.len();
                context.consume(connection, chunk);
                if self.received == self.stream_bytes {
                    context.shutdown(connection).expect("a FIN");
                }
            }
            Event::Acked { bytes, .. } => self.acknowledged += bytes as usize,
            Event::Datagram { chunk, .. } => drop(self.datagrams.insert(chunk.bytes().to_vec())),
            Event::Closed { why, .. } => self.over = Some(why),
            _ => {}
        }
    }
}

/// Runs the client until `done`, repeating `again` from time to time for what may get lost.
pub fn run_until(
    runtime: &mut Runtime,
    client: &mut Client,
    what: &str,
    mut again: impl FnMut(&mut Runtime, &mut Client),
    done: impl Fn(&Client) -> bool,
) {
    let deadline = std::time::Instant::now() + PATIENCE;
    let mut turn = 0u32;
    while !done(client) {
        let over = client.over;
        assert!(std::time::Instant::now() < deadline, "{what}: not in half a minute; closed: {over:?}");
        if turn.is_multiple_of(1_000) {
            again(runtime, client);
        }
        turn += 1;
        if !runtime.turn(client) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

/// One datagram there and back.
pub fn datagram_returns(runtime: &mut Runtime, client: &mut Client, payload: &[u8]) {
    client.datagrams.clear();
    let send = |runtime: &mut Runtime, client: &mut Client| client.send_datagram(runtime, payload);
    run_until(runtime, client, "a datagram's echo", send, |client| client.datagrams.contains(payload));
}

/// A whole stream there and back.
pub fn stream_returns(runtime: &mut Runtime, client: &mut Client) {
    client.start_stream(runtime);
    run_until(runtime, client, "a stream's echo", |_, _| {}, |client| client.over.is_some());
    assert_eq!((client.over, client.received), (Some(CloseReason::Finished), client.stream_bytes));
}

/// Tells what a neighbour saw, which is not judged: how long it takes depends on the machine and on what else runs there.
pub fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    eprintln!("neighbour, {what}: {} of them, p50 {:?}, p99 {:?}", times.len(), at(50), at(99));
}
