//! `qanat bench kv`: Redis on the kernel's sockets and `qanat kv` in turn, on the same link and file system, by the same clients (Arrakis'
//! evaluation, §4.3: a store that writes each change to a log before it answers).

pub mod memory;
mod rocksdb;
mod servers;

use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::scratch::Scratch;
use crate::harness::statistics::Summary;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use crate::harness::{HarnessError, cpu};
use crate::programs::clients::{KernelClient, Protocol};
use crate::programs::load::Load;
use crate::programs::measured::{CLIENT_CPU, Measured, SERVER_CPU};
use servers::{Asked, Peer, Promise, Server, versions};
use std::time::Duration;

const MTU: u32 = 1_500;
const VALUE_BYTES: usize = 1_024;
/// How long a load runs before it is counted.
const WARM_UP: Duration = Duration::from_secs(1);

/// One way of loading.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    promise: Promise,
    load: Load,
    /// RocksDB does as much with so many threads.
    threads: Option<u32>,
    /// What it is to reach.
    bar: &'static str,
    is_quick: bool,
}

const fn benchmark(test: &'static str, connections: u32) -> Load {
    Load::Kernel(KernelClient::RedisBenchmark { test, connections, value_bytes: VALUE_BYTES as u32 })
}

const CASES: [Case; 13] = [
    Case {
        name: "durable SET, one connection, redis-benchmark",
        promise: Promise::Durable,
        load: benchmark("set", 1),
        threads: Some(1),
        bar: "p50 0.55 of Redis'",
        is_quick: true,
    },
    Case {
        name: "durable SET, 50 connections, redis-benchmark",
        promise: Promise::Durable,
        load: benchmark("set", 50),
        threads: Some(50),
        bar: "3 ×, p99 a third",
        is_quick: true,
    },
    Case {
        name: "GET, 50 connections, redis-benchmark",
        promise: Promise::Nothing,
        load: benchmark("get", 50),
        threads: None,
        bar: "1.5 ×, p99 0.6 of Redis'",
        is_quick: true,
    },
    Case {
        name: "SET, 50 connections, redis-benchmark",
        promise: Promise::Nothing,
        load: benchmark("set", 50),
        threads: None,
        bar: "1.5 ×, p99 0.6 of Redis'",
        is_quick: true,
    },
    Case {
        name: "GET, 50 connections, kernel client",
        promise: Promise::Nothing,
        load: Load::Kernel(KernelClient::Values {
            protocol: Protocol::Redis,
            connections: 50,
            pipeline: 1,
            value_bytes: VALUE_BYTES,
        }),
        threads: None,
        bar: "",
        is_quick: true,
    },
    Case {
        name: "SET, durable a second later, 50 connections, redis-benchmark",
        promise: Promise::Later,
        load: benchmark("set", 50),
        threads: None,
        bar: "",
        is_quick: true,
    },
    Case {
        name: "durable SET, one connection, our client",
        promise: Promise::Durable,
        load: Load::Ours("redis {} --get 0 --key-size 16 --keys 100"),
        threads: None,
        bar: "p50 0.55 of Redis'",
        is_quick: true,
    },
    Case {
        name: "durable SET, 50 connections, our client",
        promise: Promise::Durable,
        load: Load::Ours("redis {} -c 50 --get 0 --key-size 16 --keys 1000"),
        threads: None,
        bar: "3 ×, p99 a third",
        is_quick: true,
    },
    Case {
        name: "durable SET, 1,000 connections, our client",
        promise: Promise::Durable,
        load: Load::Ours("redis {} -c 1000 --get 0 --key-size 16 --keys 1000"),
        threads: None,
        bar: "none waits long",
        is_quick: false,
    },
    Case {
        name: "half GET, 50 connections, our client",
        promise: Promise::Nothing,
        load: Load::Ours("redis {} -c 50 --get 50 --key-size 16"),
        threads: None,
        bar: "3.5 ×",
        is_quick: true,
    },
    Case {
        name: "half GET, 50 connections, pipeline of 16, our client",
        promise: Promise::Nothing,
        load: Load::Ours("redis {} -c 50 --pipeline 16 --get 50 --key-size 16"),
        threads: None,
        bar: "2 ×",
        is_quick: true,
    },
    Case {
        name: "half GET, durable a second later, 50 connections, our client",
        promise: Promise::Later,
        load: Load::Ours("redis {} -c 50 --get 50 --key-size 16"),
        threads: None,
        bar: "",
        is_quick: false,
    },
    Case {
        name: "half GET, one connection, our client",
        promise: Promise::Nothing,
        load: Load::Ours("redis {} --get 50 --key-size 16"),
        threads: None,
        bar: "",
        is_quick: false,
    },
];

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root or a program, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("two processors are needed, one for the server, one for the load".to_owned()));
    }
    let all = CASES.iter().filter(|case| case.is_quick || !options.quick);
    let cases = options.chosen(all.collect(), |case| case.name.to_owned())?;
    let mut environment = environment(&cases)?;
    let topology = Topology::new(MTU)?;
    let scratch = Scratch::create("kv")?;
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let stores = Peer::stores();
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in cases {
        let other = case.threads.filter(|_| rocksdb::program().is_ok()).map(|_| Peer::RocksDb);
        let peers: Vec<Peer> = stores.iter().copied().chain(other).collect();
        let runs = turns.play(
            case.name,
            &peers,
            |peer| peer.name(),
            |peer| measure(options, &topology, &scratch, case, *peer),
        )?;
        rows.extend(case_rows(case, &peers, &runs, &mut environment.warnings));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Redis, Valkey and qanat kv: same client, same link, same file system, values of 1 KiB".to_owned(),
        command: options.repeat("sudo qanat bench kv"),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(),
    })
}

/// What they are measured on.
///
/// # Errors
/// A program isn't installed.
fn environment(cases: &[&Case]) -> Result<Environment, HarnessError> {
    let mut environment = Environment::here();
    cases.iter().try_for_each(|case| case.load.look())?;
    environment.peers = versions(&mut environment.warnings)?;
    match rocksdb::program() {
        Ok(_) => environment.peers.push("RocksDB: db_bench, fillrandom, sync, on the store's processor".to_owned()),
        Err(missing) => environment.warnings.push(format!("without RocksDB: {missing}")),
    }
    environment.link = format!(
        "Redis: veth, MTU {MTU}, on the kernel's sockets; qanat kv: with clients on the kernel's sockets a TAP device at their end, as \
         users have it; with ours the same veth, AF_XDP copy mode at both ends. Files in {}",
        std::env::temp_dir().display()
    );
    environment.pinning = format!("store on processor {SERVER_CPU}, load on {CLIENT_CPU}");
    Ok(environment)
}

/// One run: start an empty store, load it, end it.
fn measure(
    options: &BenchOptions,
    topology: &Topology,
    scratch: &Scratch,
    case: &Case,
    peer: Peer,
) -> Result<Measured, HarnessError> {
    let duration = options.duration(Duration::from_secs(2), Duration::from_secs(1));
    if let (Peer::RocksDb, Some(threads)) = (peer, case.threads) {
        return rocksdb::measure(topology, scratch, (threads, VALUE_BYTES), duration);
    }
    let asked = if matches!(case.load, Load::Ours(_)) { Asked::ByOurs } else { Asked::ByKernel };
    let server = Server::start((peer, case.promise, asked), &options.program, topology, scratch, SERVER_CPU)?;
    let measured = case.load.measure(&options.program, topology, (server.address, server.id()), (WARM_UP, duration));
    measured.map_err(|error| server.explain(error))
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("requests_per_s", "requests/s", 0).with_spread(),
        Column::new("ratio", "× Redis", 2),
        Column::new("server_us", "µs/request, server's core", 2),
        Column::new("both_us", "both cores", 2),
        Column::new("p50_us", "p50 µs", 1),
        Column::new("p50_ratio", "÷ Redis'", 2),
        Column::new("p99_us", "p99 µs", 1),
        Column::new("p99_ratio", "÷ Redis'", 2),
    ]
}

fn case_rows(case: &Case, peers: &[Peer], runs: &[Vec<Run<Measured>>], warnings: &mut Vec<String>) -> Vec<Row> {
    let placement = common_placement(runs);
    if placement.is_none() {
        warnings.push(format!("{}: the processors moved between peers' runs; their ratios mix placements", case.name));
    }
    let row = |(number, peer): (usize, &Peer)| {
        let of = |number: usize, value: fn(&Measured) -> Option<f64>| {
            runs.get(number).and_then(|runs| summarize(runs, placement, value))
        };
        let own = |value: fn(&Measured) -> Option<f64>| of(number, value);
        let ratio = |value: fn(&Measured) -> Option<f64>| Summary::relative(of(number, value), of(0, value));
        let [rate, p50, p99]: [fn(&Measured) -> Option<f64>; 3] =
            [|run| Some(run.per_s), |run| Some(run.latency.p50), |run| Some(run.latency.p99)];
        let bad: u64 = runs.get(number).into_iter().flatten().map(|run| run.result.bad).sum();
        let mut note = placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string());
        if bad > 0 {
            note.push_str(&format!(", {bad} FAILED"));
        }
        if *peer == Peer::Kv && !case.bar.is_empty() {
            note.push_str(&format!("; bar {}", case.bar));
        }
        Row {
            case: case.name.to_owned(),
            peer: peer.name().to_owned(),
            values: vec![
                own(rate),
                ratio(rate),
                own(Measured::server_us),
                own(Measured::both_us),
                own(p50),
                ratio(p50),
                own(p99),
                ratio(p99),
            ],
            note,
        }
    };
    peers.iter().enumerate().map(row).collect()
}

fn remarks() -> Vec<String> {
    [
        "durable: a write is answered when it is on the disk (`appendfsync always`, `--durability always`). «A second later»: \
         `everysec` of both. Otherwise both keep nothing: Redis has no file, qanat kv runs with `--memory-only`.",
        "RocksDB: its own benchmark, in one process, without a network and a protocol: what a durable write takes another library on this \
         file system.",
        "µs/request: all work on the processors, interrupts included; a store that polls for its next request or for its disk is charged \
         for that too.",
        "Answers to «our client» and «kernel client» are compared with what was written, byte by byte; FAILED are wrong, lost or refused \
         ones. redis-benchmark and «kernel client» are on the kernel's sockets, with default offloads.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cpu::Placement;
    use crate::load::figures::Latency;
    use crate::machine::CpuTimes;

    #[test]
    fn rows_compare_with_redis() {
        let run = |rate: f64, p50: f64| {
            let latency = Latency { p50, p99: 2.0 * p50, ..Latency::default() };
            let cpus = vec![CpuTimes::default(); 2];
            let result = Measured { per_s: rate, count: rate, duration_s: 1.0, latency, bad: 0, cpus };
            vec![Run { result, placement: Some(Placement::Near), round_trip_ns: (55.0, 55.0), repeats: 0 }]
        };
        let rows =
            case_rows(&CASES[0], &[Peer::Redis, Peer::Kv], &[run(100.0, 50.0), run(300.0, 20.0)], &mut Vec::new());
        let of = |index: usize| rows[1].values[index].map(|value| value.median);
        assert_eq!((of(1), of(5), of(7)), (Some(3.0), Some(0.4), Some(0.4)));
        assert_eq!(columns().len(), rows[0].values.len());
        assert!(rows[1].note.contains("bar p50 0.55"), "{}", rows[1].note);
    }
}
