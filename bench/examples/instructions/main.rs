//! Work for `tools/instructions` to count under callgrind: a request served, a segment sent or received, a datagram
//! echoed.
//!
//! Two stacks in one thread over the in-process pair, whose copies are the device's share. Only the calls of the function
//! named `counted_turn` are counted, and only from the middle of the run on: connections are warm, caches full.

mod keys;

use qanat::split::harness::Placed;
use qanat::{
    Bytes, Commands, Config, ConnectOptions, ConnectionId, Context, Event, ListenOptions, Runtime, Service, StartError,
    Time, UdpSocketId,
};
use qanat_abi::message::{Range, Window};
use qanat_abi::{Command, Consumer, ControlMemory, Event as Said, Id, Message, Producer, Rings};
use qanat_dns::image::{Catalog, ZoneImage};
use qanat_dns::name::Name;
use qanat_dns::service::{CatalogPublisher, DnsConfig, DnsService};
use qanat_dns::zone::ZoneBuilder;
use qanat_echo::{EchoConfig, EchoService};
use qanat_native::harness::EchoProgram;
use qanat_nic::{MemoryPlan, Pair, PairConfig, pair};
use qanat_stack::Stack;
use qanat_web::{WebConfig, WebService};
use std::hint::black_box;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
const PORT: u16 = 80;
const CONNECTIONS: usize = 16;
const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: 10.77.0.2\r\n\r\n";

/// What is counted.
#[inline(never)]
fn counted_turn<S: Service>(runtime: &mut Runtime, service: &mut S) {
    // Keeps the compiler from making one function of the two.
    black_box(runtime.now());
    runtime.turn(service);
}

/// The same, not counted.
#[inline(never)]
fn other_turn<S: Service>(runtime: &mut Runtime, service: &mut S) {
    runtime.turn(service);
}

/// Keeps connections asking; counts answers.
struct Asker {
    close: bool,
    answers: u64,
}

impl Asker {
    fn connect(&self, context: &mut Context<'_>) {
        // The pair loses nothing and there are ports enough.
        let _ = context.connect(SocketAddr::new(SERVER, PORT), ConnectOptions::default());
    }
}

impl Service for Asker {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in 0..CONNECTIONS {
            self.connect(context);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                let _ = context.send(connection, Bytes::from_static(REQUEST));
            }
            Event::Data { connection, chunk } => {
                // Head and 1 KiB fit one segment.
                context.consume(connection, chunk);
                self.answers += 1;
                if self.close {
                    let _ = context.close(connection);
                } else {
                    let _ = context.send(connection, Bytes::from_static(REQUEST));
                }
            }
            Event::Closed { .. } => self.connect(context),
            _ => {}
        }
    }
}

/// Sends without end.
struct Sender {
    block: Bytes,
}

impl Sender {
    fn feed(&self, connection: ConnectionId, context: &mut Context<'_>) {
        let _ = context.send(connection, self.block.clone());
    }
}

impl Service for Sender {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        context.connect(SocketAddr::new(SERVER, PORT), ConnectOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => (0..4).for_each(|_| self.feed(connection, context)),
            Event::Acked { connection, bytes } if bytes as usize >= self.block.len() / 2 => {
                self.feed(connection, context);
            }
            Event::Acked { connection, .. } => self.feed(connection, context),
            _ => {}
        }
    }
}

/// Takes everything.
#[derive(Default)]
struct Sink {
    received: u64,
}

impl Service for Sink {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        context.listen(SocketAddr::new(SERVER, PORT), ListenOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Data { connection, chunk } = event {
            self.received += chunk.len() as u64;
            context.consume(connection, chunk);
        }
    }
}

fn runtimes() -> [Runtime; 2] {
    let (client, server) = pair(PairConfig { transmit_checksum: true, ..PairConfig::default() }).expect("memory");
    let plan = MemoryPlan { prepared_frames: 1_024, ..MemoryPlan::default() };
    [(client, CLIENT), (server, SERVER)].map(|(port, address)| {
        Runtime::new(Box::new(port.open(plan).expect("memory")), Config::new(address, 24), [7; 32])
    })
}

fn requests(close: bool, count: u64) -> u64 {
    let directory = std::env::temp_dir().join(format!("qanat-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    std::fs::write(directory.join("file"), vec![b'x'; 1_024]).expect("a file");
    // A file of this very second may yet change, and is not prepared.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let mut config = WebConfig::new(&directory);
    config.preload = true;
    config.check_files = false;
    config.limits.requests_max = u32::from(close);
    let mut web = WebService::new(config).expect("the service");
    let [mut client, mut server] = runtimes();
    let mut asker = Asker { close, answers: 0 };
    server.with_context(|context| web.start(context)).expect("listening");
    client.with_context(|context| asker.start(context)).expect("connecting");
    while asker.answers < count / 4 {
        other_turn(&mut client, &mut asker);
        other_turn(&mut server, &mut web);
    }
    let before = asker.answers;
    while asker.answers - before < count {
        other_turn(&mut client, &mut asker);
        counted_turn(&mut server, &mut web);
    }
    let _ = std::fs::remove_dir_all(&directory);
    asker.answers - before
}

fn segments(receiving: bool, count: u64) -> u64 {
    let [mut client, mut server] = runtimes();
    let mut sender = Sender { block: Bytes::from(vec![b'x'; 64 * 1_024]) };
    let mut sink = Sink::default();
    server.with_context(|context| sink.start(context)).expect("listening");
    client.with_context(|context| sender.start(context)).expect("connecting");
    while sink.received < count * 1_448 / 4 {
        other_turn(&mut client, &mut sender);
        other_turn(&mut server, &mut sink);
    }
    let before = sink.received;
    while sink.received - before < count * 1_448 {
        if receiving {
            other_turn(&mut client, &mut sender);
            counted_turn(&mut server, &mut sink);
        } else {
            counted_turn(&mut client, &mut sender);
            other_turn(&mut server, &mut sink);
        }
    }
    (sink.received - before) / 1_448
}

/// Sends datagrams, a few at a time, and counts those that come back.
struct Datagrams {
    socket: Option<UdpSocketId>,
    payload: [u8; 22],
    back: u64,
}

/// On their way at once.
const DATAGRAMS: usize = 32;

impl Service for Datagrams {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let socket = context.bind_udp(SocketAddr::new(CLIENT, 5_000))?;
        self.socket = Some(socket);
        // One, until the neighbour is known: only a few wait for that. The others follow it.
        let _ = context.send_to(socket, SocketAddr::new(SERVER, PORT), &self.payload);
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Datagram { socket, peer, .. } = event {
            let count = if self.back == 0 { DATAGRAMS } else { 1 };
            self.back += 1;
            for _ in 0..count {
                let _ = context.send_to(socket, peer, &self.payload);
            }
        }
    }
}

/// 64-byte packets, echoed through the stack.
fn datagrams(copies: bool, count: u64) -> u64 {
    // As over memif: the stack sums.
    let (client, server) = pair(PairConfig::default()).expect("memory");
    let [mut client, mut server] = [(client, CLIENT), (server, SERVER)].map(|(port, address)| {
        let vnic = port.open(MemoryPlan::default()).expect("memory");
        Runtime::new(Box::new(vnic), Config::new(address, 24), [7; 32])
    });
    let mut echo = EchoService::new(EchoConfig { port: PORT, copies, ..EchoConfig::default() });
    let mut sender = Datagrams { socket: None, payload: [7; 22], back: 0 };
    server.with_context(|context| echo.start(context)).expect("listening");
    client.with_context(|context| sender.start(context)).expect("sending");
    while sender.back < count / 4 {
        other_turn(&mut client, &mut sender);
        other_turn(&mut server, &mut echo);
    }
    let before = echo.figures().echoed;
    while echo.figures().echoed - before < count {
        other_turn(&mut client, &mut sender);
        counted_turn(&mut server, &mut echo);
    }
    echo.figures().echoed - before
}

/// Asks for one name after the other.
struct Resolver {
    socket: Option<UdpSocketId>,
    questions: Vec<Vec<u8>>,
    next: usize,
    back: u64,
}

impl Resolver {
    fn ask(&mut self, socket: UdpSocketId, context: &mut Context<'_>) {
        // Far apart: what a cache holds by chance is no help.
        self.next = (self.next + 7_919) % self.questions.len();
        let _ = context.send_to(socket, SocketAddr::new(SERVER, PORT), &self.questions[self.next]);
    }
}

impl Service for Resolver {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let socket = context.bind_udp(SocketAddr::new(CLIENT, 5_000))?;
        self.socket = Some(socket);
        self.ask(socket, context);
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Datagram { socket, chunk, .. } = event {
            assert_eq!(chunk.bytes()[3] & 0xf, 0, "the name is there");
            drop(chunk);
            let count = if self.back == 0 { DATAGRAMS } else { 1 };
            self.back += 1;
            for _ in 0..count {
                self.ask(socket, context);
            }
        }
    }
}

/// A few bytes there and back over TCP: what a request is when nothing is done for it.
struct Echo {
    payload: Bytes,
    connections: usize,
    rounds: u64,
}

impl Echo {
    /// With so many connections of its own; a server with none.
    fn new(connections: usize) -> Echo {
        Echo { payload: Bytes::from_static(&[b'e'; 64]), connections, rounds: 0 }
    }
}

impl Service for Echo {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let place = SocketAddr::new(SERVER, PORT);
        if self.connections == 0 {
            context.listen(place, ListenOptions::default())?;
        }
        for _ in 0..self.connections {
            context.connect(place, ConnectOptions::default())?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        let connection = match event {
            Event::Data { connection, chunk } => {
                context.consume(connection, chunk);
                self.rounds += 1;
                connection
            }
            Event::Connected { connection } => connection,
            _ => return,
        };
        let _ = context.send(connection, self.payload.clone());
    }
}

/// What is counted of a net core.
#[inline(never)]
fn net_counted_turn(placed: &mut Placed, now: Time, vnic: &mut Pair) {
    black_box(now);
    placed.net_turn(now, vnic).expect("an honest service");
}

#[inline(never)]
fn net_other_turn(placed: &mut Placed, now: Time, vnic: &mut Pair) {
    placed.net_turn(now, vnic).expect("an honest service");
}

#[inline(never)]
fn service_counted_turn(placed: &mut Placed, service: &mut Echo) {
    // Keeps the compiler from making one function of the two.
    black_box(service.rounds);
    placed.service_turn(service);
}

#[inline(never)]
fn service_other_turn(placed: &mut Placed, service: &mut Echo) {
    placed.service_turn(service);
}

/// 64 bytes echoed over TCP by a linked service.
fn linked_echo(count: u64) -> u64 {
    let [mut client, mut server] = runtimes();
    let (mut asker, mut echo) = (Echo::new(CONNECTIONS), Echo::new(0));
    server.with_context(|context| echo.start(context)).expect("listening");
    client.with_context(|context| asker.start(context)).expect("connecting");
    while echo.rounds < count / 4 {
        other_turn(&mut client, &mut asker);
        other_turn(&mut server, &mut echo);
    }
    let before = echo.rounds;
    while echo.rounds - before < count {
        other_turn(&mut client, &mut asker);
        counted_turn(&mut server, &mut echo);
    }
    echo.rounds - before
}

/// What is counted of a program that uses the library for C.
#[inline(never)]
fn program_counted_turn(program: &mut EchoProgram) -> u64 {
    black_box(program).turn().expect("an answer")
}

#[inline(never)]
fn program_other_turn(program: &mut EchoProgram) -> u64 {
    program.turn().expect("an answer")
}

/// The same by a program that uses the library for C.
fn native_echo(count: u64) -> u64 {
    let [mut client, server] = runtimes();
    let mut asker = Echo::new(CONNECTIONS);
    let place = SocketAddr::new(SERVER, PORT);
    let mut program = EchoProgram::start(server, place, &[b'e'; 64]).expect("listening");
    client.with_context(|context| asker.start(context)).expect("connecting");
    let mut rounds = 0;
    while rounds < count / 4 {
        other_turn(&mut client, &mut asker);
        rounds += program_other_turn(&mut program);
    }
    rounds = 0;
    while rounds < count {
        other_turn(&mut client, &mut asker);
        rounds += program_counted_turn(&mut program);
    }
    rounds
}

/// The same with the stack on a net core: its share, or the service's.
fn split_echo(is_net: bool, count: u64) -> u64 {
    let plan = MemoryPlan { prepared_frames: 1_024, ..MemoryPlan::default() };
    let (client, server) = pair(PairConfig { transmit_checksum: true, ..PairConfig::default() }).expect("memory");
    let client = client.open(plan).expect("memory");
    let mut client = Runtime::new(Box::new(client), Config::new(CLIENT, 24), [7; 32]);
    let (memory, files) = plan.allocate_lendable().expect("memory");
    let mut vnic = server.open_over(plan, memory).expect("memory");
    let stack = Stack::new(Config::new(SERVER, 24), [7; 32], &vnic, Time::ZERO);
    let (mut asker, mut echo) = (Echo::new(CONNECTIONS), Echo::new(0));
    let place = SocketAddr::new(SERVER, PORT);
    let mut placed = Placed::start(stack, (plan, &files), place, &mut echo).expect("a service");
    client.with_context(|context| asker.start(context)).expect("connecting");
    while echo.rounds < count / 4 {
        other_turn(&mut client, &mut asker);
        net_other_turn(&mut placed, client.now(), &mut vnic);
        service_other_turn(&mut placed, &mut echo);
    }
    let before = echo.rounds;
    while echo.rounds - before < count {
        other_turn(&mut client, &mut asker);
        let now = client.now();
        // One turn takes what the service said and what has come: as under load.
        if is_net {
            net_counted_turn(&mut placed, now, &mut vnic);
            service_other_turn(&mut placed, &mut echo);
        } else {
            net_other_turn(&mut placed, now, &mut vnic);
            service_counted_turn(&mut placed, &mut echo);
        }
    }
    echo.rounds - before
}

/// Messages published at once.
const MESSAGES: u64 = 8;

/// A batch of messages made, written, published, taken and read.
#[inline(never)]
fn messages_counted_turn<M: Message>(
    producer: &mut Producer<ControlMemory>,
    consumer: &mut Consumer<ControlMemory>,
    message: impl Fn(u32) -> M,
) {
    for number in 0..MESSAGES as u32 {
        assert!(producer.push(message(number).encode()).expect("an honest consumer"));
    }
    producer.publish();
    assert!(!producer.must_wake());
    while let Some(words) = consumer.pop() {
        let _ = black_box(M::decode(words));
    }
    consumer.release();
}

fn messages(is_event: bool, count: u64) -> u64 {
    let (ours, file) = Rings::create(4_096).expect("memory");
    let theirs = Rings::open(file.as_fd()).expect("a control memory");
    let (mut producer, mut consumer) = (Producer::new(ours.events), Consumer::new(theirs.events));
    let connection = |number| Id { slot: number, generation: 1 };
    for _ in 0..count / MESSAGES {
        if is_event {
            messages_counted_turn(&mut producer, &mut consumer, |number| Said::Data {
                connection: connection(number),
                window: Window { frame: number, start: 54, length: 64 },
                acked: 64,
            });
        } else {
            messages_counted_turn(&mut producer, &mut consumer, |number| Command::Send {
                connection: connection(number),
                range: Range { offset: number * 2_048, length: 64 },
                consumed: Some(number),
            });
        }
    }
    count / MESSAGES * MESSAGES
}

/// Questions for the address of one of `names` names, answered.
fn answers(names: usize, as_text: bool, count: u64) -> u64 {
    let apex = Name::absolute("example.com").expect("a name");
    let mut zone = ZoneBuilder::new(&apex);
    let soa = [b"\x02ns\0\x04host\0".as_slice(), &[0; 20]].concat();
    zone.add(apex.wire(), 6, 60, &soa).expect("a record");
    let mut questions = Vec::new();
    for index in 0..names as u32 {
        let name = Name::absolute(&format!("host{index:05}.example.com")).expect("a name");
        zone.add(name.wire(), 1, 60, &index.to_be_bytes()).expect("a record");
        let mut question = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question.extend_from_slice(name.wire());
        question.extend_from_slice(&[0, 1, 0, 1]);
        questions.push(question);
    }
    let (zone, _) = zone.finish().expect("a zone");
    let image = ZoneImage::compile(&zone, &mut |_| {}).expect("an image");
    let image = if as_text { image.with_text_index() } else { image };
    let publisher = CatalogPublisher::new(Catalog::new([std::sync::Arc::new(image)]));
    let config = DnsConfig { port: PORT, ..DnsConfig::default() };
    let reader = publisher.reader().expect("a doorbell");
    let mut dns = DnsService::new(config, reader, [7; 16]).expect("the service");
    let (client, server) = pair(PairConfig::default()).expect("memory");
    let [mut client, mut server] = [(client, CLIENT), (server, SERVER)].map(|(port, address)| {
        let vnic = port.open(MemoryPlan::default()).expect("memory");
        Runtime::new(Box::new(vnic), Config::new(address, 24), [7; 32])
    });
    let mut resolver = Resolver { socket: None, questions, next: 0, back: 0 };
    server.with_context(|context| dns.start(context)).expect("listening");
    client.with_context(|context| resolver.start(context)).expect("sending");
    while resolver.back < count / 4 {
        other_turn(&mut client, &mut resolver);
        other_turn(&mut server, &mut dns);
    }
    let before = dns.figures().answers;
    while dns.figures().answers - before < count {
        other_turn(&mut client, &mut resolver);
        counted_turn(&mut server, &mut dns);
    }
    dns.figures().answers - before
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let done = match work.as_str() {
        "request" => requests(false, count),
        "request-close" => requests(true, count),
        "send" => segments(false, count),
        "receive" => segments(true, count),
        "datagram" => datagrams(false, count),
        "datagram-copy" => datagrams(true, count),
        "echo-linked" => linked_echo(count),
        "echo-native" => native_echo(count),
        "echo-net-core" => split_echo(true, count),
        "echo-service" => split_echo(false, count),
        "event" => messages(true, count),
        "command" => messages(false, count),
        "get" => keys::keys(false, count),
        "set-durable" => keys::keys(true, count),
        "answer" => answers(10_000, false, count),
        "answer-text" => answers(10_000, true, count),
        "answer-one" => answers(1, false, count),
        _ => {
            eprintln!(
                "usage: instructions request|request-close|send|receive|datagram|datagram-copy|echo-linked|echo-net-core|echo-service|event|command|get|set-durable|answer|answer-text|answer-one [COUNT]"
            );
            std::process::exit(2);
        }
    };
    // Read by tools/instructions.
    let _ = writeln!(std::io::stdout(), "{done}");
}
