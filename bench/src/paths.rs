//! Goodput over emulated paths: Linux to Linux, our stack to Linux, Linux to our stack, on the same path in the same run.
//!
//! ```text
//!  namespace A: the kernel (10.78.0.1) or our stack (10.78.0.3) ── `qanat delay` ── namespace B: the kernel (10.78.0.2)
//! ```
//! The kernel's side sends with CUBIC. Bytes are counted where they arrive, from the first one on.

use crate::harness::HarnessError;
use crate::harness::environment::Environment;
use crate::harness::statistics::Summary;
use crate::harness::table::{Column, Row, Table};
use qanat::nic::MemoryPlan;
use qanat::{
    AttachOptions, Attachment, Bytes, ConnectOptions, ConnectionId, Context, Event, ListenOptions, Runtime,
    RuntimeOptions, Service, StopHandle, entropy,
};
use qanat_delay::{DelayConfig, Emulator, Impairments, Lab, LabConfig, QueueLimit, Rate};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PORT: u16 = 5_001;
/// Our stack's address in the first namespace, beside the kernel's.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 3);
/// Lent to our stack at once: more than any path here holds.
const LENT_PIECES: u32 = 16;
const PIECE_BYTES: u32 = 1 << 20;
/// As far as Linux' receive window grows by itself (`tcp_rmem`); ours doesn't grow, so it is given.
const RECEIVE_WINDOW_BYTES: u32 = 6 << 20;
/// Frames for such a window out of order.
const RECEIVE_FRAMES_MAX: usize = 12_288;
/// Until the first byte must have come: handshakes may be lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Names of the peers.
const PEERS: [&str; 3] = ["Linux → Linux", "Qanat → Linux", "Linux → Qanat"];

/// What to run.
#[derive(Clone, Debug)]
pub struct PathsOptions {
    /// Fewer paths, one short run each.
    pub quick: bool,
    /// Runs of each peer on each path.
    pub repetitions: Option<usize>,
    /// Length of a run.
    pub duration: Option<Duration>,
    /// Only paths whose name contains this.
    pub filter: Option<String>,
}

/// An emulated path.
#[derive(Clone, Copy, Debug)]
struct PathCase {
    round_trip_ms: u64,
    loss_ppm: u32,
    reorder_ppm: u32,
    duplicate_ppm: u32,
    rate_mbit: u64,
    queue_packets: u32,
    is_quick: bool,
}

const fn case(round_trip_ms: u64, loss_ppm: u32, rate_mbit: u64, queue_packets: u32, is_quick: bool) -> PathCase {
    PathCase { round_trip_ms, loss_ppm, reorder_ppm: 0, duplicate_ppm: 0, rate_mbit, queue_packets, is_quick }
}

const CASES: [PathCase; 10] = [
    case(10, 1_000, 200, 1_000, true),
    case(10, 10_000, 200, 1_000, true),
    case(10, 50_000, 200, 1_000, false),
    case(40, 0, 100, 1_000, true),
    case(40, 0, 100, 20, true),
    case(50, 1_000, 200, 1_000, false),
    case(50, 10_000, 200, 1_000, false),
    case(200, 1_000, 200, 1_000, false),
    case(200, 10_000, 200, 1_000, false),
    PathCase { reorder_ppm: 10_000, duplicate_ppm: 10_000, ..case(20, 1_000, 200, 1_000, false) },
];

impl PathCase {
    fn name(&self) -> String {
        let mut name = format!("{} ms", self.round_trip_ms);
        name += &format!(", {} % loss", f64::from(self.loss_ppm) / 1e4);
        if self.reorder_ppm > 0 {
            name += ", 1 % late, 1 % twice";
        }
        name + &format!(", {} Mbit/s, queue {}", self.rate_mbit, self.queue_packets)
    }

    fn config(&self, lab: &Lab, seed: u64) -> DelayConfig {
        let way = Impairments {
            bands: vec![Duration::from_millis(self.round_trip_ms) / 2],
            loss_ppm: self.loss_ppm,
            reorder_ppm: self.reorder_ppm,
            reorder_by: Duration::from_millis(self.round_trip_ms) / 8,
            duplicate_ppm: self.duplicate_ppm,
            rate: Some(Rate(self.rate_mbit * 1_000_000)),
            queue: QueueLimit::Packets(self.queue_packets),
            ..Impairments::default()
        };
        let mut config = DelayConfig::new("", "");
        config.ports = lab.ports();
        (config.forward, config.backward, config.seed) = (way.clone(), way, seed);
        config
    }
}

/// Measures all paths.
///
/// # Errors
/// No privileges, a refusal of the system, or a connection that never delivers.
pub fn run(options: &PathsOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let repetitions = options.repetitions.unwrap_or(if options.quick { 1 } else { 5 }).max(1);
    let duration = options.duration.unwrap_or(Duration::from_secs(if options.quick { 3 } else { 10 }));
    let wanted = |case: &&PathCase| {
        (case.is_quick || !options.quick)
            && options.filter.as_ref().is_none_or(|text| case.name().contains(text.as_str()))
    };
    let cases: Vec<&PathCase> = CASES.iter().filter(wanted).collect();
    if cases.is_empty() {
        let names: Vec<String> = CASES.iter().map(PathCase::name).collect();
        return Err(HarnessError::Option(format!("no path is called so; there are: {}", names.join("; "))));
    }
    let mut table = Table {
        title: "Goodput over emulated paths, one connection".to_owned(),
        command: "sudo qanat bench paths".to_owned(),
        environment: Environment::here(),
        columns: vec![
            Column::new("goodput_mbit", "Mbit/s", 1).with_spread(),
            Column::new("ratio", "× Linux → Linux", 2),
        ],
        rows: Vec::new(),
        remarks: vec![
            "Loss, lateness and copies are by seed and hold for both directions; each repetition has its own seed, the \
             same for all three."
                .to_owned(),
            "Our receiver offers a window of 6 MiB, where Linux tunes its own up to as much.".to_owned(),
            "The bar is a ratio of at least 0.95.".to_owned(),
        ],
    };
    table.environment.link = "two veth devices (MTU 1500), `qanat delay` between them".to_owned();
    table.environment.peers = vec!["Linux TCP with CUBIC".to_owned(), "Qanat's stack over AF_XDP".to_owned()];
    table.environment.pinning = "none: sender, emulator and receiver share the processors".to_owned();
    for case in cases {
        let mut goodputs: [Vec<f64>; 3] = Default::default();
        for repetition in 0..repetitions {
            for (peer, goodputs) in goodputs.iter_mut().enumerate() {
                progress(&format!("{}: {} ({} of {repetitions})", case.name(), PEERS[peer], repetition + 1));
                goodputs.push(measure(case, peer, repetition as u64 + 1, duration)?);
            }
        }
        table.rows.extend(rows(case, &goodputs));
    }
    Ok(table)
}

fn rows(case: &PathCase, goodputs: &[Vec<f64>; 3]) -> Vec<Row> {
    let linux = Summary::of(goodputs[0].iter().copied()).map_or(f64::NAN, |summary| summary.median);
    let row = |(peer, values): (&&str, &Vec<f64>)| {
        let goodput = Summary::of(values.iter().copied());
        let ratio = goodput.and_then(|summary| Summary::of([summary.median / linux]));
        Row { case: case.name(), peer: (*peer).to_owned(), values: vec![goodput, ratio], note: String::new() }
    };
    PEERS.iter().zip(goodputs).map(row).collect()
}

/// Counts what arrives, and ends everybody.
#[derive(Default)]
struct Watch {
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl Watch {
    /// Mbit/s from the first byte on.
    fn goodput(&self, duration: Duration) -> Option<f64> {
        let start = Instant::now();
        while self.bytes.load(Ordering::Relaxed) == 0 {
            if start.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (first, before) = (Instant::now(), self.bytes.load(Ordering::Relaxed));
        std::thread::sleep(duration);
        let bytes = self.bytes.load(Ordering::Relaxed) - before;
        Some(bytes as f64 * 8e-6 / first.elapsed().as_secs_f64())
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// One run of one peer on a path made for it.
fn measure(case: &PathCase, peer: usize, seed: u64, duration: Duration) -> Result<f64, HarnessError> {
    let failed = |error: &dyn std::fmt::Display| HarnessError::Child(error.to_string());
    let lab = Lab::create(LabConfig::default()).map_err(|error| failed(&error))?;
    let emulator = Emulator::start(&case.config(&lab, seed)).map_err(|error| failed(&error))?;
    let watch = Watch::default();
    let stop = StopHandle::new().map_err(|error| HarnessError::system("a doorbell", error))?;
    let kernel = |address: Ipv4Addr| SocketAddr::new(IpAddr::V4(address), PORT);
    let [_, second] = Lab::ADDRESSES;
    let result = std::thread::scope(|scope| {
        let receiver: std::thread::ScopedJoinHandle<'_, Result<(), String>> = match peer {
            2 => scope.spawn(|| our_side(&lab, Receiver { watch: &watch }, &stop)),
            _ => {
                let listener = listener(&lab, kernel(second))?;
                scope.spawn(|| kernel_receives(listener, &watch))
            }
        };
        let sender = match peer {
            0 => scope.spawn(|| kernel_sends(&lab, 0, kernel(second), &watch)),
            1 => scope.spawn(|| our_side(&lab, Sender::new(kernel(second)), &stop)),
            _ => {
                // Our side listens within a few milliseconds; a refusal would end the run.
                std::thread::sleep(Duration::from_millis(200));
                scope.spawn(|| kernel_sends(&lab, 1, kernel(OURS), &watch))
            }
        };
        let goodput = watch.goodput(duration);
        watch.is_over.store(true, Ordering::Relaxed);
        stop.request();
        let outcomes = [sender, receiver].map(|side| side.join().unwrap_or_else(|_| Err("a side died".to_owned())));
        goodput.ok_or_else(|| {
            let reasons: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
            format!("{}, {}: nothing arrived; {}", case.name(), PEERS[peer], reasons.join("; "))
        })
    });
    let result = result.map_err(HarnessError::Child);
    drop(emulator);
    result
}

fn listener(lab: &Lab, address: SocketAddr) -> Result<TcpListener, String> {
    let listen = || TcpListener::bind(address);
    let listener = lab.namespaces()[1].within(listen).and_then(|result| result);
    let listener = listener.map_err(|error| format!("listening on {address}: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok(listener)
}

fn kernel_receives(listener: TcpListener, watch: &Watch) -> Result<(), String> {
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if watch.is_over() => return Err("no connection came".to_owned()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let set_up = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(Duration::from_millis(100))));
    set_up.map_err(|error| error.to_string())?;
    let mut bytes = vec![0; 1 << 18];
    while !watch.is_over() {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                watch.bytes.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(_) => {}
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    Ok(())
}

/// Sends from namespace `from` with CUBIC until it is over.
fn kernel_sends(lab: &Lab, from: usize, to: SocketAddr, watch: &Watch) -> Result<(), String> {
    let connect = || -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_tcp_congestion(b"cubic")?;
        socket.set_write_timeout(Some(Duration::from_millis(100)))?;
        socket.connect_timeout(&to.into(), PATIENCE)?;
        Ok(socket.into())
    };
    let stream = lab.namespaces()[from].within(connect).and_then(|result| result);
    let mut stream = stream.map_err(|error| format!("connecting to {to} with CUBIC: {error}"))?;
    let bytes = vec![0x5a; 1 << 18];
    while !watch.is_over() {
        match stream.write(&bytes) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(format!("sending to {to}: {error}")),
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    Ok(())
}

/// Runs our stack in the first namespace, beside the kernel's.
fn our_side(lab: &Lab, mut service: impl Service, stop: &StopHandle) -> Result<(), String> {
    let mut options = AttachOptions::new(IpAddr::V4(OURS), 24);
    options.interface = Some(lab.ends()[0].host_name().to_owned());
    options.namespace = Some(lab.namespaces()[0].clone());
    let attachment = Attachment::open(&options).map_err(|error| error.to_string())?;
    // Enough for everything on the longest path.
    let plan = MemoryPlan { receive_frames: 16_384, transmit_frames: 16_384, ..MemoryPlan::default() };
    let vnic = attachment.open_queue(0, plan).map_err(|error| error.to_string())?;
    let seed = entropy().map_err(|error| error.to_string())?;
    let mut config = attachment.config().clone();
    config.tcp.receive_window = RECEIVE_WINDOW_BYTES;
    config.tcp.receive_frames_max = RECEIVE_FRAMES_MAX;
    let mut runtime = Runtime::new(Box::new(vnic), config, seed);
    let options = RuntimeOptions { grace: Duration::ZERO, ..RuntimeOptions::default() };
    runtime.run(&mut service, stop, options, &mut |_, _| {}).map_err(|error| error.to_string())
}

/// Sends as much as it may.
struct Sender {
    to: SocketAddr,
    piece: Bytes,
    /// Acknowledged bytes not yet followed by new ones.
    credit: u32,
}

impl Sender {
    fn new(to: SocketAddr) -> Sender {
        Sender { to, piece: Bytes::from(vec![0x5a; PIECE_BYTES as usize]), credit: LENT_PIECES * PIECE_BYTES }
    }

    fn send(&mut self, connection: ConnectionId, context: &mut Context<'_>) {
        while self.credit >= PIECE_BYTES {
            if context.send(connection, self.piece.clone()).is_err() {
                return;
            }
            self.credit -= PIECE_BYTES;
        }
    }
}

impl Service for Sender {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        context.connect(self.to, ConnectOptions::default()).map(|_| ()).map_err(|error| error.to_string())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => self.send(connection, context),
            Event::Acked { connection, bytes } => {
                self.credit += bytes;
                self.send(connection, context);
            }
            _ => {}
        }
    }
}

/// Takes what comes.
struct Receiver<'a> {
    watch: &'a Watch,
}

impl Service for Receiver<'_> {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let local = SocketAddr::new(IpAddr::V4(OURS), PORT);
        context.listen(local, ListenOptions::default()).map(|_| ()).map_err(|error| error.to_string())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Data { connection, chunk } = event {
            self.watch.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            context.consume(connection, chunk);
        }
    }
}
