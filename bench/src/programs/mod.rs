//! `qanat bench run`: unmodified programs under `qanat run` and on the kernel's sockets, in turn, on the same veth, under the
//! same client (Arrakis' evaluation, §4: memcached, haproxy; and what users run most).

pub(crate) mod clients;
pub(crate) mod load;
pub(crate) mod measured;
pub mod profile;
mod servers;

use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use crate::harness::{HarnessError, cpu};
use clients::{KernelClient, Protocol};
use load::Load;
use measured::{CLIENT_CPU, Measured, SERVER_CPU};
use servers::{Backend, Files, Program, Server, Sockets};
use std::time::Duration;

const MTU: u32 = 1_500;
/// How long a load runs before it is counted.
const WARM_UP: Duration = Duration::from_secs(1);
/// One way of loading a program.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    program: Program,
    load: Load,
    /// How much better than the kernel it has to be; see [`Bar`].
    bar: Option<Bar>,
    /// How many times the kernel's requests a core-second a native service has to answer.
    native_bar: Option<f64>,
    is_quick: bool,
}

/// What a case is judged by.
#[derive(Clone, Copy, Debug)]
enum Bar {
    /// So many times the kernel's requests a second.
    Rate(f64),
    /// So many times the kernel's requests for a second of the server's processor.
    PerCore(f64),
    /// So much of the native service's packets a second.
    OfNative(f64),
}

const fn case(name: &'static str, program: Program, load: &'static str, bar: Option<Bar>, is_quick: bool) -> Case {
    Case { name, program, load: Load::Ours(load), bar, native_bar: None, is_quick }
}

/// A case with a client on the kernel's sockets and default offloads, as users have it.
const fn ordinary(name: &'static str, program: Program, client: KernelClient, bar: f64) -> Case {
    Case { name, program, load: Load::Kernel(client), bar: Some(Bar::Rate(bar)), native_bar: None, is_quick: true }
}

const fn wrk(path: &'static str) -> KernelClient {
    KernelClient::Wrk { connections: 64, path }
}

const CASES: [Case; 22] = [
    ordinary("nginx, 1 KiB, wrk", Program::Nginx, wrk("/1k"), 1.6),
    ordinary("nginx, 24 KiB, wrk", Program::Nginx, wrk("/24k"), 1.0),
    ordinary("nginx, 1 MiB, wrk", Program::Nginx, wrk("/1m"), 1.0),
    ordinary("haproxy before nginx on loopback, 1 KiB, wrk", Program::Haproxy(Backend::Loopback), wrk("/1k"), 1.3),
    ordinary("haproxy before nginx on another card, 1 KiB, wrk", Program::Haproxy(Backend::OtherCard), wrk("/1k"), 1.5),
    ordinary(
        "haproxy before nginx at the client's end, 1 KiB, wrk",
        Program::Haproxy(Backend::ClientsEnd),
        wrk("/1k"),
        1.0,
    ),
    ordinary(
        "memcached TCP, USR, pipeline 4, kernel client",
        Program::Memcached,
        KernelClient::Values { protocol: Protocol::Memcached, connections: 16, pipeline: 4, value_bytes: 2 },
        1.3,
    ),
    ordinary(
        "redis, GET, 1 KiB, redis-benchmark",
        Program::Redis,
        KernelClient::RedisBenchmark { test: "get", connections: 50, value_bytes: 1_024 },
        1.3,
    ),
    ordinary(
        "redis, GET, 1 KiB, kernel client",
        Program::Redis,
        KernelClient::Values { protocol: Protocol::Redis, connections: 50, pipeline: 1, value_bytes: 1_024 },
        1.3,
    ),
    case("nginx, 1 KiB, keep-alive", Program::Nginx, "http http://{}/1k -c 64", Some(Bar::Rate(2.0)), true),
    case("nginx, 1 KiB, one connection", Program::Nginx, "http http://{}/1k -c 1", None, false),
    case("nginx, 1 KiB, connection per request", Program::Nginx, "http http://{}/1k -c 64 --close", None, false),
    case(
        "haproxy answers, 1 KiB, connection per request",
        Program::Haproxy(Backend::Nobody),
        "http http://{}/ -c 64 --close",
        Some(Bar::Rate(2.2)),
        true,
    ),
    case(
        "haproxy before nginx, 1 KiB, connection per request",
        Program::Haproxy(Backend::ClientsEnd),
        "http http://{}/1k -c 64 --close",
        Some(Bar::Rate(2.2)),
        false,
    ),
    case("redis, half GET, 1 KiB", Program::Redis, "redis {} -c 64 --get 50 --key-size 16", Some(Bar::Rate(1.5)), true),
    case("redis, half GET, 1 KiB, one connection", Program::Redis, "redis {} --get 50 --key-size 16", None, false),
    case(
        "memcached UDP, 90 % GET, 64 B keys, 1 KiB",
        Program::Memcached,
        "memcached {} --udp --window 64",
        Some(Bar::PerCore(1.7)),
        true,
    )
    .native(3.5),
    case(
        "memcached TCP, USR, pipeline 4",
        Program::Memcached,
        "memcached {} -c 16 --pipeline 4 --get 99.8 --key-size 20 --value-size 2",
        Some(Bar::PerCore(1.7)),
        true,
    )
    .native(6.0),
    case("memcached TCP, 90 % GET, 1 KiB, one connection", Program::Memcached, "memcached {}", None, false),
    case("UDP echo, 64 B, a datagram a call", Program::UdpEcho, "udp {} --window 64", Some(Bar::OfNative(0.7)), false),
    case("UDP echo, 64 B, one at a time", Program::UdpEcho, "udp {}", None, true),
    case("UDP echo, 64 B, batches", Program::UdpEchoBatch, "udp {} --window 64", Some(Bar::OfNative(0.7)), true),
];

impl Case {
    const fn native(self, bar: f64) -> Case {
        Case { native_bar: Some(bar), ..self }
    }

    /// The kernel first: others are compared with it.
    fn peers(&self) -> Vec<Sockets> {
        let own = if matches!(self.load, Load::Kernel(_)) { Sockets::Card } else { Sockets::Own };
        let mut peers = vec![Sockets::Kernel, own];
        match (self.program.has_native(), own) {
            (false, _) => {}
            (true, Sockets::Card) => peers.push(Sockets::NativeCard),
            (true, _) => peers.extend([Sockets::Native, Sockets::Split]),
        }
        peers.extend(self.program.has_native_over_kernel().then_some(Sockets::OverKernel));
        peers
    }
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root or a program, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let cases = wanted(options, |_| true)?;
    let mut environment = environment(&cases)?;
    let topology = Topology::new(MTU)?;
    let files = Files::create()?;
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let duration = options.duration(Duration::from_secs(2), Duration::from_secs(1));
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in cases {
        let peers = case.peers();
        let run =
            |sockets: &Sockets| loaded(options, &topology, &files, (case, *sockets), duration, |load| load()).flatten();
        let runs = turns.play(case.name, &peers, |sockets| sockets.name(), run)?;
        rows.extend(case_rows(case, &peers, &runs, &mut environment.warnings));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Programs as they are, on the kernel's sockets and under qanat run: same veth, same client".to_owned(),
        command: options.repeat("sudo qanat bench run"),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(),
    })
}

/// The cases asked for.
///
/// # Errors
/// There is none, or a processor too few.
fn wanted(options: &BenchOptions, is_fit: impl Fn(&Case) -> bool) -> Result<Vec<&'static Case>, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("two processors are needed, one for the server, one for the load".to_owned()));
    }
    let is_there = |case: &&Case| (case.is_quick || !options.quick) && is_fit(case);
    options.chosen(CASES.iter().filter(is_there).collect(), |case| case.name.to_owned())
}

/// What they are measured on.
///
/// # Errors
/// A program isn't installed.
fn environment(cases: &[&Case]) -> Result<Environment, HarnessError> {
    let mut environment = Environment::here();
    for case in cases {
        case.load.look()?;
        let version = case.program.version()?;
        if !environment.peers.contains(&version) {
            environment.peers.push(version);
        }
    }
    environment.link = format!(
        "veth, MTU {MTU}, qdisc noqueue, AF_XDP copy mode at the client's and our end; qanat run with clients on kernel sockets (wrk, \
         redis-benchmark, kernel client): a daemon's card as users have it, a TAP device"
    );
    environment.pinning = format!(
        "server, its keeper, and a backend on loopback or on another card, on processor {SERVER_CPU}; load, and a backend at its end, on {CLIENT_CPU}"
    );
    Ok(environment)
}

/// One run: start the server, load it, end it. `around` is given what loads it, and runs it.
fn loaded<T>(
    options: &BenchOptions,
    topology: &Topology,
    files: &Files,
    (case, sockets): (&Case, Sockets),
    duration: Duration,
    around: impl FnOnce(&mut dyn FnMut() -> Result<Measured, HarnessError>) -> T,
) -> Result<T, HarnessError> {
    let cpus = (SERVER_CPU, CLIENT_CPU);
    let mut server = Server::start((case.program, sockets), &options.program, topology, files, cpus)?;
    let (address, process) = (server.address, server.id());
    Ok(around(&mut || {
        let measured = case.load.measure(&options.program, topology, (address, process), (WARM_UP, duration));
        measured.map_err(|error| server.explain(error))
    }))
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("requests_per_s", "requests/s", 0).with_spread(),
        Column::new("ratio", "× kernel", 2),
        Column::new("server_us", "µs/request, server's core", 2),
        Column::new("per_core_ratio", "× kernel per core-second", 2),
        Column::new("p50_us", "p50 µs", 1),
        Column::new("p99_us", "p99 µs", 1),
        Column::new("p99_ratio", "p99 ÷ kernel", 2),
        Column::new("native_ratio", "of native", 2),
        Column::new("both_us", "µs/request, both cores", 2),
    ]
}

fn case_rows(case: &Case, peers: &[Sockets], runs: &[Vec<Run<Measured>>], warnings: &mut Vec<String>) -> Vec<Row> {
    let placement = common_placement(runs);
    if placement.is_none() {
        warnings.push(format!("{}: the processors moved between peers' runs; their ratios mix placements", case.name));
    }
    let of = |number: usize, value: fn(&Measured) -> Option<f64>| {
        runs.get(number).and_then(|runs| summarize(runs, placement, value))
    };
    let rate = |measured: &Measured| Some(measured.per_s);
    let per_core = |measured: &Measured| measured.server_us().map(|us| 1e6 / us);
    let p99 = |measured: &Measured| Some(measured.latency.p99);
    let native = peers.iter().position(|peer| *peer == Sockets::Native).and_then(|number| of(number, rate));
    let row = |number: usize, sockets: Sockets| {
        let own = runs.get(number).map(Vec::as_slice).unwrap_or_default();
        let bad: u64 = own.iter().map(|run| run.result.bad).sum();
        let busy = own.iter().filter(|run| run.result.is_server_busy()).count() * 2 > own.len();
        let mut note = placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string());
        note.push_str(if busy { ", server's core full" } else { ", server's core not full" });
        if bad > 0 {
            note.push_str(&format!(", {bad} FAILED"));
        }
        if sockets == Sockets::Native
            && let Some(bar) = case.native_bar
        {
            note.push_str(&format!("; bar {bar} × per core-second"));
        }
        if sockets == Sockets::OverKernel {
            note.push_str("; bar 1 × per core-second");
        }
        if matches!(sockets, Sockets::Own | Sockets::Card)
            && let Some(bar) = case.bar
        {
            note.push_str(&match bar {
                Bar::Rate(bar) => format!("; bar {bar} ×"),
                Bar::PerCore(bar) => format!("; bar {bar} × per core-second"),
                Bar::OfNative(bar) => format!("; bar {bar} of native"),
            });
        }
        Row {
            case: case.name.to_owned(),
            peer: sockets.name().to_owned(),
            values: vec![
                of(number, rate),
                Summary::relative(of(number, rate), of(0, rate)),
                of(number, Measured::server_us),
                Summary::relative(of(number, per_core), of(0, per_core)),
                of(number, |measured| Some(measured.latency.p50)),
                of(number, p99),
                Summary::relative(of(number, p99), of(0, p99)),
                Summary::relative(of(number, rate), native),
                of(number, Measured::both_us),
            ],
            note,
        }
    };
    peers.iter().enumerate().map(|(number, sockets)| row(number, *sockets)).collect()
}

fn remarks() -> Vec<String> {
    [
        "µs/request: all work on the server's processor, interrupts included; a program that polls for its next request \
         is charged for that too. veth runs receive processing on the sender's processor: the client's sends are \
         charged to the client.",
        "Every answer of redis and memcached is compared with what was written, byte by byte; FAILED are wrong, lost or \
         refused ones.",
        "«native»: the same by a service of the native API: `qanat cache` in place of memcached, with all of memcached's protocols, and \
         `qanat echo`.",
        "«native, split»: the echo as a service whose stack is in another process, both on the server's processor: what a \
         stack behind another process, instead of in the program, would cost at least.",
        "haproxy's backend on another card is an nginx whose sockets are as haproxy's (the kernel's, or of `qanat run`), on haproxy's \
         processor; the client's kernel forwards between the two cards. Its other backends are an nginx on the kernel's sockets: on \
         loopback, on haproxy's processor; or at the client's end of the link, on the client's processor.",
        "wrk, redis-benchmark and «kernel client» are clients on the kernel's sockets, with default offloads. All others are \
         `qanat load`, whose TCP is ours.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Rates, then latencies.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Requests a second", column: "requests_per_s", cases: "" },
        Quantity { title: "99th percentile of the answer time, µs", column: "p99_us", cases: "" },
    ];
    bars::chart(table, &quantities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cpu::Placement;
    use crate::load::Report;
    use crate::load::echo::EchoReport;
    use crate::load::figures::Latency;
    use crate::load::values::ValueReport;
    use crate::machine::CpuTimes;

    #[test]
    fn rows_compare_with_the_kernel_and_with_native() {
        let case = CASES.iter().find(|case| case.program.is_echo()).unwrap();
        let run = |rate: f64, busy: f64| {
            let cpu = CpuTimes { user_s: busy, ..CpuTimes::default() };
            let latency = Latency { p99: 10.0, ..Latency::default() };
            let result = Measured { per_s: rate, count: rate, duration_s: 1.0, latency, bad: 0, cpus: vec![cpu, cpu] };
            vec![Run { result, placement: Some(Placement::Near), round_trip_ns: (55.0, 55.0), repeats: 0 }]
        };
        let runs = [run(100.0, 1.0), run(150.0, 0.5), run(200.0, 1.0)];
        let rows = case_rows(case, &case.peers(), &runs, &mut Vec::new());
        let median = |row: usize, column: usize| rows[row].values[column].map(|value| value.median);
        assert_eq!((median(1, 1), median(1, 3), median(1, 7)), (Some(1.5), Some(3.0), Some(0.75)));
        assert_eq!(columns().len(), rows[0].values.len());
        assert!(rows[1].note.contains("not full; bar 0.7 of native"), "{}", rows[1].note);
    }

    #[test]
    fn reports_are_told_apart() {
        let line = serde_json::to_string(&ValueReport { wrong: 2, ..ValueReport::default() }).unwrap();
        assert_eq!(Measured::read(&format!("x\n{line}\n")).unwrap().bad, 2);
        assert!(Measured::read(&serde_json::to_string(&EchoReport::default()).unwrap()).is_some());
        assert!(Measured::read(&serde_json::to_string(&Report::default()).unwrap()).is_some());
        assert!(Measured::read("nothing").is_none());
    }
}
