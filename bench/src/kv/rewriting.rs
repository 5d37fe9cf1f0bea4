//! `qanat bench kv --rewrite`: a full store that writes its log anew (BGREWRITEAOF, a checkpoint) while clients ask, and its start with what
//! it has written.

use super::MTU;
use super::filling::{ask, fill, word};
use super::servers::{Asked, Peer, Promise, Server, versions};
use crate::harness::HarnessError;
use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::process::wait_until;
use crate::harness::scratch::Scratch;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use crate::programs::load::Load;
use crate::programs::measured::{CLIENT_CPU, Measured, SERVER_CPU};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 1_024;
/// 1 GiB of values.
const KEYS: u64 = 1 << 20;
const QUICK_KEYS: u64 = 1 << 17;
/// A rewriting takes no longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Half of the requests write, so that a fork has pages to copy.
const LOAD: Load = Load::Ours("redis {} -c 50 --get 50 --key-size 16 --keys 50000");

/// What one run yields.
#[derive(Debug)]
struct Rewritten {
    /// Without a rewriting, and with one that begins when the load does.
    alone: Measured,
    beside: Measured,
    /// How long the rewriting took, seconds.
    rewriting_s: f64,
    /// The most memory meanwhile, that of a forked child included, as a part of that before.
    memory: f64,
    /// From the start of the process to its first answer, seconds.
    start_s: f64,
}

fn request(request: &mut Vec<u8>, number: u64) {
    request.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    word(request, &format!("full:{number:011}"));
    word(request, &format!("{number:0VALUE_BYTES$}"));
}

/// Memory of a process and its children, each shared page counted once, bytes.
fn memory_bytes(process: u32) -> u64 {
    let of = |id: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    of(&process.to_string()) + children.split_whitespace().map(of).sum::<u64>()
}

fn is_rewriting(address: SocketAddr) -> io::Result<bool> {
    let said = ask(address, &["INFO", "persistence"])?;
    let is_on = |name: &str| said.lines().any(|line| line.strip_prefix(name) == Some(":1"));
    Ok(is_on("aof_rewrite_in_progress") || is_on("aof_rewrite_scheduled"))
}

/// Begins a rewriting, and waits for its end: how long it took.
fn rewrite(address: SocketAddr) -> io::Result<Duration> {
    let began = Instant::now();
    let said = ask(address, &["BGREWRITEAOF"])?;
    if !said.starts_with('+') {
        return Err(io::Error::other(said));
    }
    let mut outcome = Ok(true);
    let ended = wait_until(PATIENCE, || {
        outcome = is_rewriting(address);
        !matches!(outcome, Ok(true))
    });
    outcome?;
    if ended { Ok(began.elapsed()) } else { Err(io::Error::other("the rewriting does not end")) }
}

/// The file system's cache is given up: a start reads the disk.
fn forget_files() -> Result<(), HarnessError> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "1").map_err(|error| HarnessError::system("give up cached files", error))
}

/// One run: a store is filled, loaded, loaded while it writes its log anew, ended, and started again.
fn measure(
    options: &BenchOptions,
    topology: &Topology,
    scratch: &Scratch,
    peer: Peer,
) -> Result<Rewritten, HarnessError> {
    let keys = if options.quick { QUICK_KEYS } else { KEYS };
    let times = (Duration::from_secs(1), options.duration(Duration::from_secs(4), Duration::from_secs(1)));
    let asked = (peer, Promise::Later, Asked::ByOurs);
    let server = Server::start(asked, &options.program, topology, scratch, SERVER_CPU)?;
    let (id, address) = (server.id(), server.address);
    let failed = |what: &str, error: io::Error| HarnessError::system(format!("{}: {what}", peer.name()), error);
    let filled = topology.client().within(|| fill(address, request, keys)).and_then(|done| done);
    filled.map_err(|error| failed("fill it", error))?;
    // As a store is that has run for a while: its log has been written anew before.
    let rewritten = topology.client().within(|| rewrite(address)).and_then(|done| done);
    rewritten.map_err(|error| failed("write its log anew", error))?;
    let load = || LOAD.measure(&options.program, topology, (address, id), times);
    let alone = load()?;
    let place = topology.client().clone();
    let (before, is_over) = (memory_bytes(id), AtomicBool::new(false));
    let (beside, rewriting, most) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut most = before;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(memory_bytes(id));
                std::thread::sleep(LOOK);
            }
            most
        });
        let rewriting = scope.spawn(|| {
            // The load counts from the end of its warm-up on.
            std::thread::sleep(times.0);
            place.within(|| rewrite(address)).and_then(|done| done)
        });
        let beside = load();
        let rewriting = rewriting.join().unwrap_or_else(|_| Err(io::Error::other("its thread has ended")));
        is_over.store(true, Ordering::Relaxed);
        (beside, rewriting, watching.join().unwrap_or(before))
    });
    let (beside, rewriting) = (beside?, rewriting.map_err(|error| failed("write its log anew", error))?);
    let count = topology.client().within(|| ask(address, &["DBSIZE"])).and_then(|done| done);
    let count = count.map_err(|error| failed("count its keys", error))?;
    server.stop()?;
    forget_files()?;
    let began = Instant::now();
    let server = Server::start_again(asked, &options.program, topology, scratch, SERVER_CPU)?;
    let start_s = began.elapsed().as_secs_f64();
    let again = topology.client().within(|| ask(server.address, &["DBSIZE"])).and_then(|done| done);
    let again = again.map_err(|error| failed("count its keys", error))?;
    if again != count {
        return Err(HarnessError::Child(format!("{} has {again} keys after a start, and had {count}", peer.name())));
    }
    server.stop()?;
    let memory = most as f64 / before.max(1) as f64;
    Ok(Rewritten { alone, beside, rewriting_s: rewriting.as_secs_f64(), memory, start_s })
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// As [`run`](super::run) of the other table.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let keys = if options.quick { QUICK_KEYS } else { KEYS };
    let name = format!("{} MiB of values of 1 KiB, half GET, 50 connections, our client", keys >> 10);
    let cases = options.chosen(vec![name], String::clone)?;
    LOAD.look()?;
    let mut environment = Environment::here();
    environment.peers = versions(&mut environment.warnings)?;
    let peers = Peer::stores();
    let (topology, scratch) = (Topology::new(MTU)?, Scratch::create("kv-rewrite")?);
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in cases {
        let one = |peer: &Peer| measure(options, &topology, &scratch, *peer);
        let runs = turns.play(&case, &peers, |peer| peer.name(), one)?;
        rows.extend(case_rows(&case, &peers, &runs));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Redis and qanat kv: a full store writes its log anew, and starts with it".to_owned(),
        command: options.repeat("sudo qanat bench kv --rewrite"),
        environment,
        columns: vec![
            Column::new("start_s", "start, s", 2).with_spread(),
            Column::new("start_ratio", "÷ Redis'", 2),
            Column::new("p99_9_us", "p99.9 µs, without", 0),
            Column::new("p99_9_ratio", "rewriting ÷ without", 2).with_spread(),
            Column::new("rate_ratio", "requests/s, rewriting ÷ without", 2),
            Column::new("memory", "memory ÷ before", 3).with_spread(),
            Column::new("rewriting_s", "rewriting, s", 2),
        ],
        rows,
        remarks: [
            "Both with `everysec`. The load begins, and a second later the rewriting (BGREWRITEAOF: with qanat kv a checkpoint); percentiles are \
             of the time from then on.",
            "Memory: the process's and its children's proportional set size, the most while the log is rewritten, by that before.",
            "Start: from the start of the process to its first answer that is no error, with no file in the page cache; the number of keys is \
             what it was.",
        ]
        .map(str::to_owned)
        .to_vec(),
    })
}

fn case_rows(case: &str, peers: &[Peer], runs: &[Vec<Run<Rewritten>>]) -> Vec<Row> {
    let placement = common_placement(runs);
    let row = |(number, peer): (usize, &Peer)| {
        let of = |number: usize, value: fn(&Rewritten) -> Option<f64>| {
            runs.get(number).and_then(|runs| summarize(runs, placement, value))
        };
        let start: fn(&Rewritten) -> Option<f64> = |run| Some(run.start_s);
        let bad: u64 =
            runs.get(number).into_iter().flatten().map(|run| run.result.alone.bad + run.result.beside.bad).sum();
        let mut note = placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string());
        if bad > 0 {
            note.push_str(&format!(", {bad} FAILED"));
        }
        if *peer == Peer::Kv {
            note.push_str("; bars: start 0.5 of Redis', p99.9 1.5, memory 1.05");
        }
        Row {
            case: case.to_owned(),
            peer: peer.name().to_owned(),
            values: vec![
                of(number, start),
                Summary::relative(of(number, start), of(0, start)),
                of(number, |run| Some(run.alone.latency.p99_9)),
                of(number, |run| {
                    (run.alone.latency.p99_9 > 0.0).then(|| run.beside.latency.p99_9 / run.alone.latency.p99_9)
                }),
                of(number, |run| (run.alone.per_s > 0.0).then(|| run.beside.per_s / run.alone.per_s)),
                of(number, |run| Some(run.memory)),
                of(number, |run| Some(run.rewriting_s)),
            ],
            note,
        }
    };
    peers.iter().enumerate().map(row).collect()
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Start, s", column: "start_s", cases: "" },
        Quantity { title: "p99.9 while rewriting ÷ without", column: "p99_9_ratio", cases: "" },
        Quantity { title: "Memory while rewriting ÷ before", column: "memory", cases: "" },
    ];
    bars::chart(table, &quantities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_value_of_its_size() {
        let mut bytes = Vec::new();
        request(&mut bytes, 7);
        let text = String::from_utf8(bytes).expect("text");
        let value = text.rsplit("\r\n").nth(1).expect("a value");
        assert!(value.len() == VALUE_BYTES && value.ends_with("07"), "{value}");
    }

    #[test]
    fn memory_of_this_process_is_known() {
        assert!(memory_bytes(std::process::id()) > 0);
        assert_eq!(memory_bytes(u32::MAX), 0);
    }
}
