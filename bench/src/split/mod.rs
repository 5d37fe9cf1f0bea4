//! The split placement beside the linked one: ping-pong after NetPIPE, what a request costs on either side, and what a
//! service that blocks does to its peers. `ratio` asks a model what these costs mean for more cores.

mod error;
mod floor;
mod linux;
mod loads;
mod player;
pub mod ratio;
mod restart;
pub(crate) mod scene;

use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::size::size as bytes;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Offloads;
use crate::harness::{HarnessError, cpu};
use error::ServerError;
use floor::Lines;
use loads::Load;
use player::Player;
use qanat::{Commands, Service};
use scene::{Place, Scene, Wire, Work};
use std::path::Path;
use std::time::{Duration, Instant};

const COLUMNS: [(&str, &str, usize); 10] = [
    ("one_way_us", "one way p50 µs", 2),
    ("one_way_p99_us", "p99 µs", 2),
    ("gbit_per_s", "Gbit/s", 2),
    ("ratio", "÷ linked", 3),
    ("requests_per_s", "requests/s", 0),
    ("net_ns", "stack ns/req", 0),
    ("app_ns", "service ns/req", 0),
    ("ack_ms", "longest wait for ACK ms", 2),
    ("back_ms", "net core back ms", 1),
    ("served_ms", "served again ms", 1),
];
/// Cases of costs: connections, each with one request under way.
const CONNECTIONS: usize = 64;
/// Of a run, and how long they may take beyond it.
const ROUNDS_MIN: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a service blocks.
const BLOCKS: Duration = Duration::from_secs(1);
/// How often its peer sends.
const ASKS_EVERY: Duration = Duration::from_millis(50);
const SIZES: [(usize, bool); 8] = [
    (1, false),
    (64, true),
    (1 << 10, true),
    (4 << 10, false),
    (16 << 10, true),
    (64 << 10, false),
    (256 << 10, false),
    (1 << 20, true),
];

/// Who plays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Ours {
        place: Place,
        wire: Wire,
        copies: bool,
    },
    Linux(Wire, Offloads),
    Bare(Place, Lines),
    /// A daemon's net core, beside so many threads that are always busy.
    Daemon(usize),
}

const fn ours(place: Place, wire: Wire, copies: bool) -> Peer {
    Peer::Ours { place, wire, copies }
}

/// Each after the linked one it is compared with.
const PEERS: [(&str, Peer); 9] = [
    ("linked", ours(Place::Linked, Wire::Memif, false)),
    ("split", ours(Place::Split, Wire::Memif, false)),
    ("linked, copies", ours(Place::Linked, Wire::Memif, true)),
    ("split, copies", ours(Place::Split, Wire::Memif, true)),
    ("linked, large packets", ours(Place::Linked, Wire::Large, false)),
    ("split, large packets", ours(Place::Split, Wire::Large, false)),
    ("linked, large packets, copies", ours(Place::Linked, Wire::Large, true)),
    ("split, large packets, copies", ours(Place::Split, Wire::Large, true)),
    ("Linux, loopback", Peer::Linux(Wire::Memif, Offloads::Default)),
];
const VETH_PEERS: [(&str, Peer); 12] = [
    ("linked", ours(Place::Linked, Wire::Veth, false)),
    ("split", ours(Place::Split, Wire::Veth, false)),
    ("linked, copies", ours(Place::Linked, Wire::Veth, true)),
    ("split, copies", ours(Place::Split, Wire::Veth, true)),
    ("Linux", Peer::Linux(Wire::Veth, Offloads::Default)),
    ("Linux, no offloads", Peer::Linux(Wire::Veth, Offloads::Off)),
    ("linked, MTU 9000", ours(Place::Linked, Wire::Jumbo, false)),
    ("split, MTU 9000", ours(Place::Split, Wire::Jumbo, false)),
    ("linked, MTU 9000, copies", ours(Place::Linked, Wire::Jumbo, true)),
    ("split, MTU 9000, copies", ours(Place::Split, Wire::Jumbo, true)),
    ("Linux, MTU 9000", Peer::Linux(Wire::Jumbo, Offloads::Default)),
    ("Linux, MTU 9000, no offloads", Peer::Linux(Wire::Jumbo, Offloads::Off)),
];

const BLOCKED_PEERS: [(&str, Peer); 3] =
    [PEERS[0], PEERS[1], ("a bare program", Peer::Bare(Place::Linked, Lines::Packet))];
const KILLED_PEERS: [(&str, Peer); 2] =
    [("otherwise idle", Peer::Daemon(0)), ("beside two busy threads", Peer::Daemon(2))];
const BARE_PEERS: [(&str, Peer); 4] = [
    ("linked, a line each", Peer::Bare(Place::Linked, Lines::One)),
    ("split, a line each", Peer::Bare(Place::Split, Lines::One)),
    ("linked, four lines a packet", Peer::Bare(Place::Linked, Lines::Packet)),
    ("split, four lines a packet", Peer::Bare(Place::Split, Lines::Packet)),
];

/// One run of one peer.
#[derive(Clone, Default)]
pub(crate) struct Outcome {
    one_way_us: Option<(f64, f64)>,
    gbit_per_s: Option<f64>,
    pub(crate) requests_per_s: Option<f64>,
    pub(crate) net_ns: Option<f64>,
    pub(crate) app_ns: Option<f64>,
    events: f64,
    commands: f64,
    batches: f64,
    bells: f64,
    ack_ms: Option<f64>,
    restart_ms: Option<(f64, f64)>,
}

fn ping_pong(peer: Peer, size: usize, duration: Duration) -> Result<Outcome, HarnessError> {
    let warm_up = duration / 5;
    let mut times = match peer {
        Peer::Linux(wire, offloads) => {
            let topology = wire.topology()?;
            if let Some(topology) = &topology {
                topology.set_offloads_of_both(offloads)?;
            }
            linux::ping_pong(topology.as_ref(), size, warm_up, duration)?
        }
        Peer::Bare(place, lines) => floor::ping_pong(place, lines, duration)?,
        // Plays not.
        Peer::Daemon(_) => Vec::new(),
        Peer::Ours { place, wire, copies } => {
            let mut scene = Scene::new(place, wire, false, move || Ok(Player::server(size, copies)))?;
            let mut client = Player::client(wire.server(), size, copies, 1);
            scene.begin(&mut client)?;
            scene.play(&mut client, warm_up)?;
            client.round_trips_ns.clear();
            scene.play(&mut client, duration)?;
            client.round_trips_ns
        }
    };
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).map(|ns| *ns as f64 / 2e3);
    let one_way_us = at(0.5).zip(at(0.99));
    let gbit_per_s = one_way_us.map(|(p50, _)| size as f64 * 8.0 / p50 / 1e3);
    Ok(Outcome { one_way_us, gbit_per_s, ..Outcome::default() })
}

/// A measurement that did not count is made again, so often in all.
const TRIES: usize = 5;

/// What a request costs either side under load.
pub(crate) fn costs(place: Place, load: Load, duration: Duration) -> Result<Outcome, HarnessError> {
    let files = load.files()?;
    let directory = files.as_ref().map(|files| files.path().to_owned()).unwrap_or_default();
    for _ in 0..TRIES {
        let (client, directory) = (load.client(Wire::Memif.server(), CONNECTIONS), directory.clone());
        let outcome = match load {
            Load::Echo(size) => costs_of(place, move || Ok(Player::server(size, false)), client, duration),
            Load::Web => costs_of(place, move || loads::web(&directory), client, duration),
            Load::Usr => costs_of(place, || Ok(loads::Cache::new()), client, duration),
        };
        if let Some(outcome) = outcome? {
            return Ok(outcome);
        }
    }
    let why = format!("some answers did not come in one piece, {TRIES} times: the machine is busy; measure again");
    Err(HarnessError::Child(why))
}

/// `None`: not every answer came in one piece, so answers were not counted. What is sent anew because a processor was away does that.
fn costs_of<S: Service + 'static>(
    place: Place,
    make: impl FnOnce() -> Result<S, ServerError> + Send + 'static,
    mut client: Player,
    duration: Duration,
) -> Result<Option<Outcome>, HarnessError> {
    let mut scene = Scene::new(place, Wire::Memif, true, make)?;
    scene.begin(&mut client)?;
    scene.play(&mut client, duration / 4)?;
    let (before, rounds_before, started) = (scene.work()?, client.rounds, Instant::now());
    scene.play(&mut client, duration)?;
    let (elapsed, rounds, after): (Duration, u64, Work) =
        (started.elapsed(), client.rounds - rounds_before, scene.work()?);
    if client.odd > 0 {
        return Ok(None);
    }
    let per = |after: u64, before: u64| (after - before) as f64 / rounds.max(1) as f64;
    Ok(Some(Outcome {
        requests_per_s: Some(rounds as f64 / elapsed.as_secs_f64()),
        net_ns: Some(per(after.net_ns, before.net_ns)),
        app_ns: (place == Place::Split).then(|| per(after.app_ns, before.app_ns)),
        events: per(after.events, before.events),
        commands: per(after.commands, before.commands),
        batches: per(after.batches, before.batches),
        bells: per(after.bells, before.bells),
        ..Outcome::default()
    }))
}

/// The longest that two segments wait for their acknowledgement while the service blocks.
fn blocked(place: Place) -> Result<Outcome, HarnessError> {
    let blocks = if place == Place::Linked { BLOCKS } else { Duration::ZERO };
    let mut scene = Scene::new(place, Wire::Memif, false, move || Ok(Player::sink(blocks)))?;
    let mut client = Player::client(Wire::Memif.server(), 2_896, false, 1);
    client.rests = true;
    scene.begin(&mut client)?;
    let deadline = Instant::now() + Duration::from_secs(5);
    while client.connected.is_empty() && Instant::now() < deadline {
        scene.turn(&mut client);
    }
    let connection = *client.connected.first().ok_or_else(|| HarnessError::Child("no connection".to_owned()))?;
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    while started.elapsed() < BLOCKS {
        let before = client.acknowledged;
        scene.client.with_context(|context| context.send(connection, vec![7; 2_896].into()).unwrap_or_default());
        let sent = Instant::now();
        // Of a net core the service stands still: this thread is its own.
        while client.acknowledged < before + 2_896 && sent.elapsed() < 2 * BLOCKS {
            scene.turn_client(&mut client);
        }
        longest = longest.max(sent.elapsed());
        while sent.elapsed() < ASKS_EVERY {
            scene.turn_client(&mut client);
        }
    }
    Ok(Outcome { ack_ms: Some(longest.as_secs_f64() * 1e3), ..Outcome::default() })
}

impl<S: Service + 'static> Scene<S> {
    /// The client starts.
    fn begin(&mut self, client: &mut Player) -> Result<(), HarnessError> {
        Ok(self.client.with_context(|context| client.start(context))?)
    }

    /// Plays for a while.
    fn play(&mut self, client: &mut Player, duration: Duration) -> Result<(), HarnessError> {
        let (started, before) = (Instant::now(), client.rounds);
        // At least some rounds: a mebibyte there and back takes longer than a short warm-up.
        while started.elapsed() < duration || client.rounds < before + ROUNDS_MIN {
            for _ in 0..64 {
                self.turn(client);
            }
            if started.elapsed() > duration + PATIENCE {
                return Err(HarnessError::Child("nothing comes back".to_owned()));
            }
        }
        Ok(())
    }
}

/// On a thread of its own, which is pinned; the caller's is not.
pub(crate) fn aside<T: Send>(measure: impl FnOnce() -> Result<T, HarnessError> + Send) -> Result<T, HarnessError> {
    let died = |_| HarnessError::Child("the measuring thread died".to_owned());
    std::thread::scope(|scope| scope.spawn(measure).join().map_err(died)?)
}

/// What is measured of whom.
enum Case {
    PingPong(usize),
    Veth(usize),
    Floor,
    Costs(Load, &'static str),
    Blocked,
    Killed,
}

impl Case {
    fn name(&self) -> String {
        match self {
            Case::PingPong(size) => format!("ping-pong, {}", bytes(*size)),
            Case::Veth(size) => format!("ping-pong over veth, {}", bytes(*size)),
            Case::Floor => "ping-pong of a bare program, 64 B".to_owned(),
            Case::Costs(_, name) => format!("{CONNECTIONS} connections, {name}"),
            Case::Blocked => "a service that blocks for 1 s".to_owned(),
            Case::Killed => "a net core is killed".to_owned(),
        }
    }

    fn peers(&self) -> &'static [(&'static str, Peer)] {
        match self {
            Case::PingPong(_) => &PEERS,
            Case::Veth(_) => &VETH_PEERS,
            Case::Floor => &BARE_PEERS,
            Case::Costs(..) => &PEERS[..2],
            Case::Blocked => &BLOCKED_PEERS,
            Case::Killed => &KILLED_PEERS,
        }
    }

    fn measure(&self, peer: Peer, duration: Duration, program: &Path) -> Result<Outcome, HarnessError> {
        let place = match peer {
            Peer::Daemon(busy) => {
                let found = restart::killed(program, busy)?;
                let ms = |time: Duration| time.as_secs_f64() * 1e3;
                return Ok(Outcome { restart_ms: Some((ms(found.back), ms(found.served))), ..Outcome::default() });
            }
            Peer::Ours { place, .. } => place,
            Peer::Bare(place, _) => place,
            Peer::Linux(..) => Place::Linked,
        };
        aside(|| match self {
            Case::PingPong(size) | Case::Veth(size) => ping_pong(peer, *size, duration),
            Case::Floor => ping_pong(peer, 64, duration),
            Case::Costs(load, _) => costs(place, *load, duration),
            Case::Blocked => match peer {
                Peer::Bare(..) => {
                    let longest = floor::longest(ASKS_EVERY, BLOCKS)?;
                    Ok(Outcome { ack_ms: Some(longest.as_secs_f64() * 1e3), ..Outcome::default() })
                }
                _ => blocked(place),
            },
            // Above.
            Case::Killed => Ok(Outcome::default()),
        })
    }
}

/// Loads whose costs are measured.
pub(crate) const LOADS: [(Load, &str); 4] = [
    (Load::Echo(64), "64 B there and back"),
    (Load::Echo(1 << 10), "1 KiB there and back"),
    (Load::Web, "web, files of 1 KiB"),
    (Load::Usr, "USR-like: 4 GETs a packet, values of 2 B"),
];

fn cases(options: &BenchOptions) -> Result<Vec<Case>, HarnessError> {
    let sizes = SIZES.iter().filter(|(_, is_quick)| *is_quick || !options.quick);
    let sizes: Vec<usize> = sizes.map(|(size, _)| *size).collect();
    let mut all: Vec<Case> = sizes.iter().map(|size| Case::PingPong(*size)).collect();
    if rustix::process::geteuid().is_root() {
        all.extend(sizes.iter().map(|size| Case::Veth(*size)));
    }
    all.push(Case::Floor);
    all.extend(LOADS.map(|(load, name)| Case::Costs(load, name)));
    all.push(Case::Blocked);
    if rustix::process::geteuid().is_root() {
        all.push(Case::Killed);
    }
    options.chosen(all, Case::name)
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("the two sides need a processor each".to_owned()));
    }
    let cases = cases(options)?;
    let mut environment = environment(options, progress);
    let duration = options.duration(Duration::from_millis(500), Duration::from_millis(200));
    let (mut rows, mut turns) = (Vec::new(), Turns::new((0, 1), options.repetitions(), progress));
    for case in &cases {
        let peers = case.peers();
        let run = |(_, peer): &(&str, Peer)| case.measure(*peer, duration, &options.program);
        let runs = turns.play(case.name(), peers, |(name, _)| *name, run)?;
        rows.extend(case_rows(case, &runs));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "The split placement beside the linked one".to_owned(),
        command: options.repeat("qanat bench split"),
        environment,
        columns: Column::with_spreads(&COLUMNS),
        rows,
        remarks: vec![
            "one way: half a round trip; ÷ linked: latency, of each pair of runs, one after the other; median".to_owned(),
            "copies: what comes is copied out, and what goes is made of it; else what goes is lent, the same bytes each \
             time. In the split placement what is lent is copied once into transmit memory"
                .to_owned(),
            "split: client and service share a thread, turn by turn, for want of a third processor; a message waits for \
             the other's turn"
                .to_owned(),
            "a bare program: the same threads handing each other lines of memory, and nothing else: what the placements \
             cannot be below"
                .to_owned(),
            "large packets: MTU 65,000, as loopback's 65,536, and as there no checksums; else 1,500, summed at both ends"
                .to_owned(),
            "Linux: both ends poll; loopback, which has no device, or a veth between two namespaces, with TSO or without \
             offloads"
                .to_owned(),
            "over veth (as root only): AF_XDP at both ends, copy mode; 1 MTU a packet".to_owned(),
            "cache lines a message: those of the ring that change sides, counted by its layout and the batches seen; payload \
             apart"
                .to_owned(),
            "a net core killed (as root only): a daemon's, of `qanat web`; back: until another process is there; served \
             again: until a new connection has its page, asked for every 4 ms by the kernel's TCP"
                .to_owned(),
            "stack, service ns/req: time in turns that had something to do; linked: both in one".to_owned(),
            "wait for ACK: two full segments every 50 ms while the service does nothing (less in all than its \
             window); a bare program: the longest of as many round trips of its own, which is what the machine keeps any \
             thread waiting"
                .to_owned(),
        ],
    })
}

pub(crate) fn environment(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Environment {
    let mut environment = Environment::here();
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    environment.link = "memif, MTU 1500".to_owned();
    environment.pinning = "stack on processor 0; client, and the split placement's service, on 1".to_owned();
    environment.peers = vec!["one program, its stack in the service's loop or on a net core".to_owned()];
    environment
}

/// Cache lines that change sides for a message, in batches of so many: two messages are a line, a batch begins and ends anywhere
/// in one, and the consumer's position goes there and back once a ring of 4,096.
fn lines(batch: f64) -> f64 {
    (1.0 + 1.0 / batch) / 2.0 + 2.0 / 4_096.0
}

fn case_rows(case: &Case, runs: &[Vec<Run<Outcome>>]) -> Vec<Row> {
    let placement = common_placement(runs);
    let words = placement.map_or("mixed".to_owned(), |placement| placement.to_string());
    let row = |(index, own): (usize, &Vec<Run<Outcome>>)| {
        let of = |value: fn(&Outcome) -> Option<f64>| summarize(own, placement, value);
        // Split beside the linked one before it, copies beside copies; Linux beside the first.
        let is_split = matches!(
            case.peers().get(index),
            Some((_, Peer::Ours { place: Place::Split, .. } | Peer::Bare(Place::Split, _)))
        );
        let is_linux = matches!(case.peers().get(index), Some((_, Peer::Linux(..))));
        let base = if is_linux { 0 } else { index - usize::from(is_split) };
        let base = runs.get(base).map(Vec::as_slice).unwrap_or_default();
        let ratio =
            |(own, base): (&Run<Outcome>, &Run<Outcome>)| Some(own.result.one_way_us?.0 / base.result.one_way_us?.0);
        let mean = |value: fn(&Outcome) -> f64| {
            own.iter().map(|run| value(&run.result)).sum::<f64>() / own.len().max(1) as f64
        };
        let (events, commands, bells) = (mean(|o| o.events), mean(|o| o.commands), mean(|o| o.bells));
        let batch = (events + commands) / mean(|o| o.batches);
        let messages = match events > 0.0 {
            true => format!(
                ", {events:.2} events, {commands:.2} commands, {bells:.4} bells a request; batches of {batch:.1}: {:.2} \
                 cache lines a message",
                lines(batch)
            ),
            false => String::new(),
        };
        Row {
            case: case.name(),
            peer: case.peers().get(index).map_or("", |(name, _)| *name).to_owned(),
            values: vec![
                of(|outcome| outcome.one_way_us.map(|(p50, _)| p50)),
                of(|outcome| outcome.one_way_us.map(|(_, p99)| p99)),
                of(|outcome| outcome.gbit_per_s),
                Summary::of(own.iter().zip(base).filter_map(ratio)),
                of(|outcome| outcome.requests_per_s),
                of(|outcome| outcome.net_ns),
                of(|outcome| outcome.app_ns),
                of(|outcome| outcome.ack_ms),
                of(|outcome| outcome.restart_ms.map(|(back, _)| back)),
                of(|outcome| outcome.restart_ms.map(|(_, served)| served)),
            ],
            note: format!("{words}{messages}"),
        }
    };
    runs.iter().enumerate().map(row).collect()
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "One way, median, µs", column: "one_way_us", cases: "ping-pong" },
        Quantity { title: "Longest wait for an acknowledgement, ms", column: "ack_ms", cases: "blocks" },
    ];
    bars::chart(table, &quantities)
}
