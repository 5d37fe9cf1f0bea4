//! `qanat bench dns`: authoritative servers in turn on the same veth, under our generator and `kxdpgun`, above the echo
//! in the driver that none of them can beat (Namestorm's evaluation, thesis §4).

pub mod gun;
pub mod servers;
pub mod zone;

use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::process::{Spec, start};
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use crate::harness::{HarnessError, cpu};
use crate::load::dns::DnsReport;
use crate::machine::CpuTimes;
use gun::GunReport;
use servers::{Peer, Server};
use std::collections::BTreeMap;
use std::time::Duration;
use zone::BenchZone;

const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;
const MTU: u32 = 1_500;
const WARM_UP: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(20);
/// Names of the zone most cases use.
const NAMES: usize = 10_000;
/// And of the large one.
const NAMES_MANY: usize = 1_000_000;
/// On their way at once.
const WINDOW: usize = 512;

/// Which load generator asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    /// `qanat load dns` with so many on their way.
    Own(usize),
    /// `kxdpgun` at this rate.
    Gun(u64),
}

/// One way of loading.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    names: usize,
    client: Client,
    is_quick: bool,
}

const CASES: [Case; 8] = [
    Case { name: "10,000 names, 512 at once", names: NAMES, client: Client::Own(WINDOW), is_quick: true },
    Case { name: "10,000 names, 64 at once", names: NAMES, client: Client::Own(64), is_quick: false },
    Case { name: "10,000 names, kxdpgun 500,000/s", names: NAMES, client: Client::Gun(500_000), is_quick: false },
    Case { name: "10,000 names, kxdpgun 1,000,000/s", names: NAMES, client: Client::Gun(1_000_000), is_quick: true },
    Case { name: "10,000 names, kxdpgun 2,000,000/s", names: NAMES, client: Client::Gun(2_000_000), is_quick: false },
    Case { name: "10,000 names, one at a time", names: NAMES, client: Client::Own(1), is_quick: true },
    Case { name: "1,000,000 names, 512 at once", names: NAMES_MANY, client: Client::Own(WINDOW), is_quick: false },
    Case { name: BY_BATCH, names: NAMES, client: Client::Own(WINDOW), is_quick: false },
];

/// What taking packets one by one costs.
const BY_BATCH: &str = "10,000 names, 512 at once, by packets taken from the device at once";
const BATCHES: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The echo first, the best peer second: the others are compared with them.
const PEERS: [Peer; 5] = [Peer::Echo, Peer::KnotXdp, Peer::Knot, Peer::Nsd, Peer::Qanat];

impl Case {
    fn peers(&self) -> Vec<Peer> {
        if self.name == BY_BATCH {
            return std::iter::once(Peer::Echo).chain(BATCHES.map(Peer::QanatBatch)).collect();
        }
        // kxdpgun takes no question for an answer.
        let there = |peer: &Peer| *peer != Peer::Echo || matches!(self.client, Client::Own(_));
        PEERS.into_iter().filter(there).collect()
    }
}

/// What one run yields.
#[derive(Clone, PartialEq, Debug)]
struct Measured {
    answers_per_s: f64,
    answers: f64,
    /// Not answered, or not with NOERROR, of those sent.
    bad_share: f64,
    latency_us: Option<(f64, f64)>,
    cpus: Vec<CpuTimes>,
}

impl Measured {
    fn own(report: &DnsReport) -> Measured {
        let good = report.response_codes.get("NOERROR").copied().unwrap_or_default();
        let latency = report.trips.round_trip_us;
        Measured {
            answers_per_s: report.answers_per_s,
            answers: report.trips.received as f64,
            bad_share: share(report.trips.sent.saturating_sub(good + report.trips.window as u64), report.trips.sent),
            latency_us: Some((latency.p50, latency.p99)),
            cpus: report.trips.cpus.clone(),
        }
    }

    fn gun(report: GunReport) -> Measured {
        Measured {
            answers_per_s: report.answers_per_s * report.good_share,
            answers: report.answers,
            bad_share: 1.0 - (report.answers_per_s * report.good_share / report.sent_per_s.max(1.0)).min(1.0),
            latency_us: None,
            cpus: report.cpus,
        }
    }

    /// Time of `cpus` for an answer, µs.
    fn per_answer_us(&self, cpus: &[usize]) -> Option<f64> {
        let busy: f64 = cpus.iter().filter_map(|cpu| self.cpus.get(*cpu)).map(CpuTimes::busy_s).sum();
        (self.answers > 0.0).then(|| busy * 1e6 / self.answers)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root or a peer, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("two processors are needed, one for the server, one for the load".to_owned()));
    }
    let all = CASES.iter().filter(|case| case.is_quick || !options.quick);
    let cases = options.chosen(all.collect(), |case| case.name.to_owned())?;
    let versions = servers::versions()?;
    let topology = Topology::new(MTU)?;
    let mut zones = BTreeMap::new();
    progress("waiting for a quiet machine");
    let mut environment = environment(versions);
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in cases {
        let zone = match zones.entry(case.names) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(BenchZone::create(case.names)?),
        };
        let peers = case.peers();
        let run = |peer: &Peer| measure(options, &topology, zone, case, *peer);
        let runs = turns.play(case.name, &peers, |peer| peer.name(), run)?;
        rows.extend(case_rows(case, &peers, &runs, &mut environment.warnings));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "DNS answers: qanat dns, Knot and NSD on the same veth, same clients".to_owned(),
        command: options.repeat("sudo qanat bench dns"),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(),
    })
}

/// One run: start the server, load it, end it.
fn measure(
    options: &BenchOptions,
    topology: &Topology,
    zone: &BenchZone,
    case: &Case,
    peer: Peer,
) -> Result<Measured, HarnessError> {
    let duration = options.duration(Duration::from_secs(2), Duration::from_secs(1));
    let server = Server::start(peer, &options.program, topology, zone, SERVER_CPU)?;
    let outcome = match case.client {
        Client::Own(window) => own_load(options, topology, zone, &server, (peer, window, duration)),
        Client::Gun(rate) => {
            let target = server.address.ip().to_string();
            gun::fire(topology, &zone.questions(), &target, rate, duration, CLIENT_CPU).map(Measured::gun)
        }
    };
    match outcome {
        Ok(measured) => {
            server.stop(topology);
            Ok(measured)
        }
        Err(error) => Err(server.explain(error)),
    }
}

fn own_load(
    options: &BenchOptions,
    topology: &Topology,
    zone: &BenchZone,
    server: &Server,
    (peer, window, duration): (Peer, usize, Duration),
) -> Result<Measured, HarnessError> {
    let mut arguments: Vec<String> = ["load", "dns", "--json", "--target"].map(str::to_owned).to_vec();
    arguments.push(server.address.to_string());
    for (name, value) in [
        ("--queries", zone.questions().display().to_string()),
        ("--window", window.to_string()),
        ("--duration", format!("{}ms", duration.as_millis())),
        ("--warm-up", format!("{}ms", WARM_UP.as_millis())),
        // What isn't answered within that is lost, not waited for.
        ("--timeout", "200ms".to_owned()),
        ("--watch-process", server.id().to_string()),
        ("--source", topology.client_addresses(1).first().map_or_else(String::new, ToString::to_string)),
    ] {
        arguments.extend([name.to_owned(), value]);
    }
    if peer == Peer::Echo {
        arguments.push("--echoed".to_owned());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let client = Spec::new("the load generator", &options.program, &arguments).placed(topology.client(), CLIENT_CPU);
    let output = start(&client)?.output(duration + WARM_UP + PATIENCE)?;
    let report: Option<DnsReport> = output.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    let report = report.ok_or_else(|| HarnessError::Child(format!("no report in {output:?}")))?;
    if report.wrong > 0 {
        return Err(HarnessError::Child(format!("{} wrong answers: {report}", report.wrong)));
    }
    Ok(Measured::own(&report))
}

fn environment(versions: Vec<String>) -> Environment {
    let mut environment = Environment::here();
    environment.peers = versions;
    environment.link =
        format!("veth, MTU {MTU}, qdisc noqueue, AF_XDP copy mode at the clients', our and Knot's XDP ends");
    environment.pinning = format!("server on processor {SERVER_CPU}, load on {CLIENT_CPU}");
    environment
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("answers_per_s", "answers/s", 0).with_spread(),
        Column::new("floor_ratio", "of raw echo", 2),
        Column::new("best_ratio", "× best peer", 2),
        Column::new("server_us", "µs/answer, server's core", 2),
        Column::new("both_us", "both cores", 2),
        Column::new("p50_us", "p50 µs", 1),
        Column::new("p99_us", "p99 µs", 1),
        Column::new("bad_percent", "unanswered %", 2),
    ]
}

fn scaled(value: Option<Summary>, by: Option<f64>) -> Option<Summary> {
    let by = by.filter(|by| *by > 0.0)?;
    value.map(|value| Summary {
        median: value.median / by,
        min: value.min / by,
        max: value.max / by,
        count: value.count,
    })
}

fn case_rows(case: &Case, peers: &[Peer], runs: &[Vec<Run<Measured>>], warnings: &mut Vec<String>) -> Vec<Row> {
    let placement = common_placement(runs);
    if placement.is_none() {
        warnings.push(format!("{}: the processors moved between peers' runs; their ratios mix placements", case.name));
    }
    let rates: Vec<Option<Summary>> =
        runs.iter().map(|runs| summarize(runs, placement, |measured| Some(measured.answers_per_s))).collect();
    let of = |wanted: fn(Peer) -> bool| {
        let medians = peers.iter().zip(&rates).filter(|(peer, _)| wanted(**peer)).filter_map(|(_, rate)| *rate);
        medians.map(|rate| rate.median).reduce(f64::max)
    };
    let floor = of(|peer| peer == Peer::Echo);
    let best = of(|peer| !matches!(peer, Peer::Echo | Peer::Qanat | Peer::QanatBatch(_)));
    let both = [SERVER_CPU, CLIENT_CPU];
    peers
        .iter()
        .zip(runs)
        .zip(&rates)
        .map(|((peer, runs), rate)| Row {
            case: case.name.to_owned(),
            peer: peer.name(),
            values: vec![
                *rate,
                scaled(*rate, floor),
                scaled(*rate, best),
                summarize(runs, placement, |measured| measured.per_answer_us(&both[..1])),
                summarize(runs, placement, |measured| measured.per_answer_us(&both)),
                summarize(runs, placement, |measured| measured.latency_us.map(|(p50, _)| p50)),
                summarize(runs, placement, |measured| measured.latency_us.map(|(_, p99)| p99)),
                summarize(runs, placement, |measured| Some(measured.bad_share * 100.0)),
            ],
            note: placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string()),
        })
        .collect()
}

fn remarks() -> Vec<String> {
    [
        "Bars: 'qanat dns' at least 1.2 × the best peer, or at least 0.95 of the raw echo under the same client, where \
         that floor is nearer; with 1,000,000 names at least 0.7 of the rate with 10,000.",
        "Questions are existing names in random order, of type A, without EDNS. kxdpgun sends at its rate whatever \
         comes back, and gives no latencies; what it counts begins with its start. The raw echo gives back the question, \
         which only our client takes for an answer.",
        "Ours, the echo and our client poll: their processors are always busy, and µs per answer is what an answer takes \
         only where the server is the limit. veth runs receive processing on the sender's processor: compare both cores.",
        "The last column says how far apart the processors were (near ≈ 55 ns, far ≈ 360 ns); a run during which that \
         changed was made again.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Rates, then latencies.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Answers a second", column: "answers_per_s", cases: "0 names" },
        Quantity {
            title: "Time of both processors for an answer, µs (polling ones are always busy)",
            column: "both_us",
            cases: "at once",
        },
        Quantity { title: "Answer time of single questions, median, µs", column: "p50_us", cases: "one at a time" },
    ];
    bars::chart(table, &quantities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cpu::Placement;

    fn run(rate: f64) -> Vec<Run<Measured>> {
        let cpu = CpuTimes { user_s: 1.0, ..CpuTimes::default() };
        let result =
            Measured { answers_per_s: rate, answers: rate, bad_share: 0.0, latency_us: None, cpus: vec![cpu, cpu] };
        vec![Run { result, placement: Some(Placement::Near), round_trip_ns: (55.0, 55.0), repeats: 0 }]
    }

    #[test]
    fn rows_compare_with_the_floor_and_the_best_peer() {
        let case = &CASES[0];
        let peers = case.peers();
        let runs = [run(1_000_000.0), run(500_000.0), run(200_000.0), run(100_000.0), run(750_000.0)];
        let mut warnings = Vec::new();
        let rows = case_rows(case, &peers, &runs, &mut warnings);
        let table = Table { columns: columns(), rows, ..Table::default() };
        let value = |column| table.value(case.name, "qanat dns", column).map(|value| value.median);
        assert_eq!((value("floor_ratio"), value("best_ratio")), (Some(0.75), Some(1.5)));
        assert_eq!(value("p50_us"), None);
        assert!((value("both_us").unwrap_or_default() - 2.0 / 0.75).abs() < 1e-9);
        assert!(warnings.is_empty() && chart(&table).panels.len() == 2);
        let gun = CASES.iter().find(|case| matches!(case.client, Client::Gun(_))).unwrap();
        assert!(!gun.peers().contains(&Peer::Echo));
    }

    #[test]
    fn quick_fits_its_time() {
        let runs: usize = CASES.iter().filter(|case| case.is_quick).map(|case| case.peers().len()).sum();
        assert!(runs as f64 * 2.5 < 60.0, "{runs} runs");
    }
}
