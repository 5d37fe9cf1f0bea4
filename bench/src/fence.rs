//! What the fence around virtual cards costs, and what it is good for: the gate's time for a packet with one filter and
//! with 1,024, and the latency of a neighbour while another card floods it, policed and not.

use crate::harness::HarnessError;
use crate::harness::alternate::{PlacementTally, Run, alternate};
use crate::harness::bars::{self, Quantity};
use crate::harness::cpu::{self, Placement};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use hdrhistogram::Histogram;
use qanat::control::client::{Session, VnicHandle};
use qanat::control::daemon::tables::{Tables, VnicRow};
use qanat::control::daemon::{Daemon, Ending, Event};
use qanat::control::filter::{Direction, Filter, Rate};
use qanat::control::policy::Policy;
use qanat::control::protocol::VnicWish;
use qanat::nic::link::Namespace;
use qanat::nic::{AfXdp, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const COST: &str = "the gate, for a packet";
const NEIGHBOUR: &str = "a neighbour at half load";
/// What the flood is policed to, bits a second.
const RATE: u64 = 40_000_000;
/// Of the flood's frames, bytes.
const FLOOD_FRAME: usize = 1_000;
/// Of the neighbour's.
const ECHO_FRAME: usize = 64;
const FRAME_OVERHEAD: u64 = 24;
/// Unanswered at most, when looking for the full load.
const WINDOW: u64 = 32;
const PORT: u16 = 7;
const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2_048, receive_frames: 1_024, transmit_frames: 1_024, prepared_frames: 0 };
const COLUMNS: [(&str, &str, usize); 10] = [
    ("gate_ns", "gate ns", 1),
    ("answers_per_s", "answers/s", 0),
    ("p50_us", "p50 µs", 1),
    ("p90_us", "p90 µs", 1),
    ("p99_us", "p99 µs", 1),
    ("lost_percent", "lost %", 2),
    ("offered_mbit", "flood offers Mbit/s", 1),
    ("passed_mbit", "flood passes Mbit/s", 2),
    ("p99_ratio", "p99 / quiet", 2),
    ("p99_busy_ratio", "p99 / busy", 2),
];

const P99: usize = 4;
/// By the quiet run of the same turn, and by that with a busy processor.
const P99_RATIOS: [usize; 2] = [8, 9];

type Values = [Option<f64>; COLUMNS.len()];

/// What a flood does beside the neighbour.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flood {
    /// There is none.
    Quiet,
    /// Nor any, but its processor is as busy as with one.
    Busy,
    /// Another card sends: with these pauses between bursts, or none.
    Sends { policed: bool, pause: Option<Duration> },
}

/// Between bursts of 64 frames that make a gigabit a second.
const PAUSE: Option<Duration> = Some(Duration::from_nanos(64 * (FLOOD_FRAME as u64 + FRAME_OVERHEAD) * 8));

const FLOODS: [(&str, Flood); 6] = [
    ("quiet", Flood::Quiet),
    ("no flood, processor 1 busy", Flood::Busy),
    ("flood, policed to 40 Mbit/s", Flood::Sends { policed: true, pause: None }),
    ("flood, not policed", Flood::Sends { policed: false, pause: None }),
    ("1 Gbit/s, policed to 40 Mbit/s", Flood::Sends { policed: true, pause: PAUSE }),
    ("1 Gbit/s, not policed", Flood::Sends { policed: false, pause: PAUSE }),
];

fn failed(what: &str) -> impl Fn(std::io::Error) -> HarnessError + '_ {
    move |error| HarnessError::system(what, error)
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("the flood and its neighbour need a processor each".to_owned()));
    }
    let wanted = |case: &str| options.wants(case);
    let namespace = Namespace::anonymous().map_err(failed("make a network namespace (it needs root: sudo)"))?;
    let mut environment = Environment::here();
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    environment.link = "cards of the daemon's, in a namespace of their own; MTU 1500".to_owned();
    environment.pinning = "the neighbour, both its ends, on processor 0; the flood on 1".to_owned();
    let repetitions = options.repetitions();
    let duration = options.duration(Duration::from_secs(3), Duration::from_secs(1));
    let mut rows = Vec::new();
    if wanted(COST) {
        progress(COST);
        let runs: Result<Vec<[f64; 2]>, HarnessError> =
            (0..repetitions).map(|_| within(&namespace, gate_costs)).collect();
        let runs = runs?;
        for (number, peer) in ["1 filter", "1,024 filters"].into_iter().enumerate() {
            let mut values = [None; COLUMNS.len()];
            values[0] = Summary::of(runs.iter().filter_map(|costs| costs.get(number).copied()));
            rows.push(Row {
                case: COST.to_owned(),
                peer: peer.to_owned(),
                values: values.to_vec(),
                note: String::new(),
            });
        }
    }
    if wanted(NEIGHBOUR) {
        let (found, tally) = neighbour_rows(&namespace, repetitions, duration, progress)?;
        rows.extend(found);
        environment.placement = tally.to_string();
    }
    if rows.is_empty() {
        return Err(HarnessError::Option(format!("no case's name contains that; try '{COST}' or '{NEIGHBOUR}'")));
    }
    Ok(Table {
        title: "The fence around virtual cards: its cost, and what it is good for".to_owned(),
        command: format!("sudo qanat bench fence{}", if options.quick { " --quick" } else { "" }),
        environment,
        columns: COLUMNS
            .iter()
            .map(|(name, heading, digits)| Column::new(name, heading, *digits).with_spread())
            .collect(),
        rows,
        remarks: vec![
            "gate ns: the kernel's test run of the program on one TCP frame; of 1,024 filters only the last covers it"
                .to_owned(),
            "neighbour: 64-byte datagrams to a card and back by a schedule, at half of what it can; latency from the \
             time a datagram was due"
                .to_owned(),
            "p99 / quiet, p99 / busy: by the runs of the same turn in which nothing else runs, and in which processor 1 \
             spins and sends nothing; median of turns. What busy costs by itself is the machine's: all else that runs on it, \
             and on its host, then takes its time from the neighbour"
                .to_owned(),
            "flood: another card, 1,000-byte frames to the neighbour's server as fast as can be; its rate counts 24 \
             bytes of overhead a frame, and is taken after the burst; 1 Gbit/s: in bursts of 64, asleep between them, so that \
             processor 1 is not busy, and what is left is the fence's"
                .to_owned(),
        ],
    })
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "The gate's time for a packet, ns", column: "gate_ns", cases: "gate" },
        Quantity { title: "A neighbour's latency, 99th percentile, µs", column: "p99_us", cases: "neighbour" },
    ];
    bars::chart(table, &quantities)
}

/// The neighbour's rows: quiet, policed, free, in turn.
fn neighbour_rows(
    namespace: &Namespace,
    repetitions: usize,
    duration: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<(Vec<Row>, PlacementTally), HarnessError> {
    let mut full = 0.0;
    let mut probe = || cpu::round_trip_ns(0, 1);
    let mut measure = |peer: usize, _: usize| {
        if peer == 0 {
            progress("a neighbour: how much it can at most");
            full = within(namespace, || neighbour(duration / 3, Flood::Quiet, None))?[1].unwrap_or(2.0);
        }
        let (name, flood) = FLOODS.get(peer).copied().unwrap_or(FLOODS[0]);
        progress(&format!("a neighbour: {name}"));
        within(namespace, || neighbour(duration, flood, Some(full / 2.0)))
    };
    let runs = alternate(FLOODS.len(), repetitions, &mut probe, &mut measure)?;
    let mut tally = PlacementTally::default();
    tally.add(&runs);
    let base = |number: usize| runs.get(number).map(Vec::as_slice).unwrap_or_default();
    let row = |((peer, _), runs): (&(&str, Flood), &Vec<Run<Values>>)| {
        let value = |column: usize| match column {
            column if P99_RATIOS.contains(&column) => {
                let p99 = |run: &Run<Values>| run.result.get(P99).copied().flatten();
                let pairs = runs.iter().zip(base(column - P99_RATIOS[0]));
                Summary::of(pairs.filter_map(|(run, base)| Some(p99(run)? / p99(base)?)))
            }
            _ => Summary::of(runs.iter().filter_map(|run| run.result.get(column).copied().flatten())),
        };
        let far = |run: &&Run<Values>| run.placement == Some(Placement::Far);
        let far = runs.iter().filter(far).count();
        Row {
            case: NEIGHBOUR.to_owned(),
            peer: (*peer).to_owned(),
            values: (0..COLUMNS.len()).map(value).collect(),
            note: format!("{} runs near, {far} far", runs.len() - far),
        }
    };
    Ok((FLOODS.iter().zip(&runs).map(row).collect(), tally))
}

fn within<T: Send>(namespace: &Namespace, work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, HarnessError> {
    let outcome = namespace.within(work).map_err(failed("enter a namespace"))?;
    outcome.map_err(|error| HarnessError::system("measure the fence", std::io::Error::other(error)))
}

fn filter(text: &str) -> Result<Filter, String> {
    Ok(Filter::service(text.parse()?))
}

/// Nanoseconds for a packet with one filter and with 1,024, in turn, the best of some.
fn gate_costs() -> Result<[f64; 2], String> {
    const LOOPBACK: u32 = 1;
    const REPEAT: u32 = 200_000;
    let mut tables = Tables::load()?;
    let (own, host) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0xff]);
    let mut row = VnicRow { mac: own, host_mac: host, generation: 1, spread: 1, ..VnicRow::default() };
    tables.own(0, IpAddr::from([10, 77, 0, 2]))?;
    tables.connect(0, LOOPBACK, LOOPBACK)?;
    let mut ranges = Vec::new();
    for count in [1, 1_024u16] {
        let other = |number: u16| filter(&format!("udp/{}", 1_000 + number));
        let mut filters: Vec<Filter> = (1..count).map(other).collect::<Result<_, _>>()?;
        filters.push(filter("udp/7")?);
        ranges.push(tables.write_filters(&filters)?);
    }
    let frame = datagram(own, host, [2, 1], (PORT, 9), ECHO_FRAME, 0);
    let mut best = [f64::MAX; 2];
    for _ in 0..10 {
        for (range, best) in ranges.iter().zip(&mut best) {
            row.filters[0] = *range;
            row.generation += 1;
            tables.set_vnic(0, &row)?;
            let verdict = tables.judge(0, Direction::Transmit, &frame, REPEAT)?;
            if verdict.dropped {
                return Err(format!("the gate drops what it should pass: {}", verdict.cause));
            }
            *best = best.min(verdict.duration.as_nanos() as f64);
        }
    }
    Ok(best)
}

/// A UDP datagram between 10.77.0.x addresses; `stamp` is the end of it.
fn datagram(
    source: [u8; 6],
    destination: [u8; 6],
    last: [u8; 2],
    ports: (u16, u16),
    length: usize,
    stamp: u64,
) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(((length - 14) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, last[0], 10, 77, 0, last[1]]);
    frame.extend(ports.0.to_be_bytes());
    frame.extend(ports.1.to_be_bytes());
    frame.extend(((length - 34) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.resize(length - 8, 0);
    frame.extend(stamp.to_be_bytes());
    frame
}

fn quiet(_: &Event) {}

/// A daemon on a thread of its own, gone when dropped.
pub(crate) struct Control {
    directory: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<Ending, String>>>,
}

impl Control {
    pub(crate) fn start() -> Result<Control, String> {
        let directory = std::env::temp_dir().join(format!("qanat-bench-fence-{}", std::process::id()));
        let policy = "[[rule]]\nusers = [\"root\"]\naddresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n";
        let policy = Policy { socket: directory.join("control.sock"), ..Policy::parse(policy)? };
        let (stop, stopped) = UnixStream::pair().map_err(|error| error.to_string())?;
        let mut daemon = Daemon::start(policy, stopped.into(), quiet)?;
        let thread = Some(std::thread::spawn(move || daemon.run()));
        Ok(Control { directory, stop: Some(stop), thread })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    fn session(&self) -> Result<Session, String> {
        Session::connect(&self.socket()).map_err(|error| error.to_string())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop = None;
        // A daemon that failed has been heard of by its clients.
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn card(session: &Session, last: u8) -> Result<(VnicHandle, AfXdp), String> {
    let wish = VnicWish {
        name: format!("card {last}"),
        addresses: vec![(IpAddr::from([10, 77, 0, last]), 24)],
        services: vec!["udp".parse()?],
        ..VnicWish::default()
    };
    let vnic = session.create_vnic(wish).map_err(|error| error.to_string())?;
    let queue = vnic.open_queue(0, PLAN).map_err(|error| error.to_string())?;
    Ok((vnic, queue))
}

/// Puts a frame into the ring; false: no room.
fn queue_frame(queue: &mut AfXdp, bytes: &[u8]) -> bool {
    if queue.transmit_room() == 0 {
        return false;
    }
    let Some(mut frame) = queue.transmit_pool().allocate(64) else { return false };
    let Some(target) = frame.append(bytes.len()) else { return false };
    target.copy_from_slice(bytes);
    queue.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).is_ok()
}

/// A card that sends as fast as can be, or at a rate, on a processor of its own.
struct Flooder {
    stop: Arc<AtomicBool>,
    offered_bits: Arc<AtomicU64>,
    vnic: u32,
    thread: Option<JoinHandle<()>>,
}

impl Flooder {
    fn start(control: &Control, to: [u8; 6], rate: Rate, pause: Option<Duration>) -> Result<Flooder, String> {
        let (stop, offered_bits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count, session) = (Arc::clone(&stop), Arc::clone(&offered_bits), control.session()?);
        let (sender, ready) = std::sync::mpsc::sync_channel(1);
        let flood = move || {
            let pinned = cpu::pin(1).map_err(|error| error.to_string());
            let made = pinned.and_then(|()| card(&session, 4)).and_then(|(vnic, queue)| {
                vnic.set_rate(Direction::Transmit, rate).map_err(|error| error.to_string())?;
                Ok((vnic, queue))
            });
            let (vnic, mut queue) = match made {
                Ok(made) => made,
                Err(error) => return drop(sender.send(Err(error))),
            };
            let _ = sender.send(Ok(vnic.status().vnic));
            let frame = datagram(vnic.status().mac, to, [4, 3], (9, 9), FLOOD_FRAME, 0);
            let bits = (FLOOD_FRAME as u64 + FRAME_OVERHEAD) * 8;
            let mut due = Instant::now();
            while !told.load(Ordering::Relaxed) {
                if let Some(pause) = pause {
                    due += pause;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                let sent = (0..64).take_while(|_| queue_frame(&mut queue, &frame)).count() as u64;
                queue.flush();
                count.fetch_add(sent * bits, Ordering::Relaxed);
            }
        };
        let thread = Some(std::thread::spawn(flood));
        let vnic = ready.recv().map_err(|_| "the flood did not start".to_owned())??;
        Ok(Flooder { stop, offered_bits, vnic, thread })
    }

    /// What has passed the gate, and when that was; bits, overhead counted.
    fn passed(&self, session: &Session) -> Result<(u64, u64, Instant), String> {
        let status = session.status().map_err(|error| error.to_string())?;
        let now = Instant::now();
        let own = status.vnics.iter().find(|vnic| vnic.vnic == self.vnic).ok_or("the flood's card is gone")?;
        let passed = own.transmit.counts.iter().filter(|count| !count.dropped);
        let bits = passed.map(|count| (count.bytes + FRAME_OVERHEAD * count.frames) * 8).sum();
        Ok((bits, self.offered_bits.load(Ordering::Relaxed), now))
    }
}

impl Drop for Flooder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Keeps processor 1 busy.
struct Spinner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    fn start() -> Spinner {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let spin = move || {
            // Unpinned it keeps a processor busy all the same: the neighbour's is taken.
            let _ = cpu::pin(1);
            while !told.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        Spinner { stop, thread: Some(std::thread::spawn(spin)) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Client and server of the echo, on one thread.
struct Echo {
    client: AfXdp,
    server: AfXdp,
    request: Vec<u8>,
    start: Instant,
    sent: u64,
    answered: u64,
    latencies: Histogram<u64>,
}

impl Echo {
    /// Serves what has come, and takes answers.
    fn turn(&mut self, frames: &mut Vec<qanat::Frame>) {
        self.server.receive(frames, 64);
        for frame in frames.drain(..) {
            let bytes = frame.bytes();
            // Everything else is the flood's.
            if bytes.len() == ECHO_FRAME && bytes.get(36..38) == Some(&PORT.to_be_bytes()) {
                let mut answer = bytes.to_vec();
                let (head, rest) = answer.split_at_mut(6);
                head.swap_with_slice(&mut rest[..6]);
                let (one, other) = answer[26..34].split_at_mut(4);
                one.swap_with_slice(other);
                let (one, other) = answer[34..38].split_at_mut(2);
                one.swap_with_slice(other);
                queue_frame(&mut self.server, &answer);
            }
        }
        self.server.flush();
        self.client.receive(frames, 64);
        for frame in frames.drain(..) {
            let bytes = frame.bytes();
            let Some(stamp) = bytes.last_chunk().filter(|_| bytes.len() == ECHO_FRAME) else { continue };
            let due = u64::from_be_bytes(*stamp);
            self.answered += 1;
            let taken = (self.start.elapsed().as_nanos() as u64).saturating_sub(due).max(1);
            // Longer than the histogram goes is as long as it goes.
            self.latencies.saturating_record(taken);
        }
    }

    fn ask(&mut self, due_ns: u64) {
        if let Some(stamp) = self.request.last_chunk_mut() {
            *stamp = due_ns.to_be_bytes();
        }
        self.sent += 1;
        queue_frame(&mut self.client, &self.request);
    }

    /// For `duration`: by a schedule of so many a second, or as many as the window lets.
    fn run(&mut self, duration: Duration, per_s: Option<f64>) {
        let mut frames = Vec::with_capacity(64);
        let begun = Instant::now();
        let offset = begun.duration_since(self.start).as_nanos() as u64;
        let (mut number, first) = (0u64, self.sent);
        let answered = self.answered;
        while begun.elapsed() < duration {
            let now = begun.elapsed().as_nanos() as u64;
            match per_s {
                Some(per_s) => {
                    let mut due = (number as f64 * 1e9 / per_s) as u64;
                    while due <= now {
                        self.ask(offset + due);
                        number += 1;
                        due = (number as f64 * 1e9 / per_s) as u64;
                    }
                }
                None => {
                    while self.sent - first < self.answered - answered + WINDOW {
                        self.ask(offset + now);
                    }
                }
            }
            self.client.flush();
            self.turn(&mut frames);
        }
    }
}

/// One run; `per_s`: by that schedule, else as many as can be.
fn neighbour(duration: Duration, flood: Flood, per_s: Option<f64>) -> Result<Values, String> {
    let control = Control::start()?;
    let session = control.session()?;
    let ((one, client), (other, server)) = (card(&session, 2)?, card(&session, 3)?);
    let (from, to) = (one.status().mac, other.status().mac);
    let flooder = match flood {
        Flood::Quiet | Flood::Busy => None,
        Flood::Sends { policed, pause } => {
            let rate = if policed { Rate { bits_per_s: RATE, ..Rate::UNLIMITED } } else { Rate::UNLIMITED };
            Some(Flooder::start(&control, to, rate, pause)?)
        }
    };
    let _spinner = (flood == Flood::Busy).then(Spinner::start);
    // After the daemon's threads are made, which would be pinned with this one.
    cpu::pin(0).map_err(|error| error.to_string())?;
    let latencies = Histogram::new_with_bounds(1, 10_000_000_000, 3).map_err(|error| error.to_string())?;
    let request = datagram(from, to, [2, 3], (9, PORT), ECHO_FRAME, 0);
    let mut echo = Echo { client, server, request, start: Instant::now(), sent: 0, answered: 0, latencies };
    // Past the burst, the first touch of everything, and what the daemon makes ready for the next card.
    echo.run(Duration::from_millis(600), per_s);
    let before = flooder.as_ref().map(|flooder| flooder.passed(&session)).transpose()?;
    (echo.sent, echo.answered) = (0, 0);
    echo.latencies.reset();
    let begun = Instant::now();
    echo.run(duration, per_s);
    let (seconds, answered_in_time) = (begun.elapsed().as_secs_f64(), echo.answered);
    let after = flooder.as_ref().map(|flooder| flooder.passed(&session)).transpose()?;
    let late = Instant::now();
    let mut frames = Vec::with_capacity(64);
    while echo.answered < echo.sent && late.elapsed() < Duration::from_millis(50) {
        echo.turn(&mut frames);
    }
    let mbit = |index: usize| {
        let (before, after) = (before.as_ref()?, after.as_ref()?);
        let bits = [after.0 - before.0, after.1 - before.1];
        Some(*bits.get(index)? as f64 / after.2.duration_since(before.2).as_secs_f64() / 1e6)
    };
    let quantile = |quantile: f64| Some(echo.latencies.value_at_quantile(quantile) as f64 / 1e3);
    let lost = echo.sent.saturating_sub(echo.answered) as f64 * 100.0 / (echo.sent.max(1)) as f64;
    let answers = answered_in_time as f64 / seconds;
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(quantile);
    Ok([None, Some(answers), p50, p90, p99, Some(lost), mbit(1), mbit(0), None, None])
}
