//! What a daemon's card costs a server: `qanat web` on a device of its own (`--direct`) and on a card of the daemon's, in
//! turn, under the same client.
//!
//! ```text
//!   direct:  client ── kernel ── qanat0 ═════════════ qanat-device ── steer ── qanat web
//!   card:    client ── kernel ── qanat0 ── gate ═════ vnic0 ──── deliver ── qanat web
//! ```

use crate::fence::control::Control;
use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::process::{Spec, start, wait_until};
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::{HarnessError, cpu};
use crate::load::Report;
use crate::machine::CpuTimes;
use qanat_nic::link::{self, Namespace};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;
/// The server's end of what the client reaches it by.
const DEVICE: &str = "qanat0";
/// How long that may stay when the server has ended.
const PATIENCE: Duration = Duration::from_secs(20);
const PEERS: [&str; 2] = ["direct", "daemon's card"];
const COLUMNS: [(&str, &str, usize); 7] = [
    ("requests_per_s", "requests/s", 0),
    ("ratio", "÷ direct", 3),
    ("gbit_per_s", "Gbit/s", 2),
    ("server_us", "CPU µs/req server", 2),
    ("both_us", "both cores", 2),
    ("p50_us", "p50 µs", 1),
    ("p99_us", "p99 µs", 1),
];
/// A processor busier than this was at its limit.
const SATURATED_SHARE: f64 = 0.97;

struct Case {
    name: &'static str,
    bytes: u64,
    connections: usize,
    close: bool,
    is_kernel: bool,
    is_quick: bool,
}

const fn case(name: &'static str, bytes: u64, connections: usize, is_kernel: bool, is_quick: bool) -> Case {
    Case { name, bytes, connections, close: false, is_kernel, is_quick }
}

const CASES: [Case; 6] = [
    case("1 KiB, keep-alive, kernel client", 1 << 10, 64, true, true),
    case("24 KiB, keep-alive, kernel client", 24 << 10, 64, true, true),
    case("1 MiB, keep-alive, kernel client", 1 << 20, 16, true, false),
    Case { close: true, ..case("1 KiB, new connection each, kernel client", 1 << 10, 64, true, false) },
    case("1 KiB, keep-alive, our client on a card of its own", 1 << 10, 256, false, true),
    case("24 KiB, keep-alive, our client on a card of its own", 24 << 10, 64, false, false),
];

/// Files to serve; gone when dropped.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn create() -> Result<Files, HarnessError> {
        let directory = std::env::temp_dir().join(format!("qanat-bench-gate-{}", std::process::id()));
        let write = || {
            std::fs::create_dir_all(&directory)?;
            CASES.iter().try_for_each(|case| {
                std::fs::write(directory.join(format!("{}.bin", case.bytes)), vec![b'q'; case.bytes as usize])
            })
        };
        write().map_err(|error: std::io::Error| HarnessError::system("write the files to serve", error))?;
        Ok(Files { directory })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Where it all happens.
struct Ground {
    program: PathBuf,
    namespace: Namespace,
    socket: PathBuf,
    files: Files,
    _control: Control,
}

impl Ground {
    fn new(program: &Path) -> Result<Ground, HarnessError> {
        let failed = |what: &'static str| move |error: std::io::Error| HarnessError::system(what, error);
        let namespace = Namespace::anonymous().map_err(failed("make a network namespace (it needs root: sudo)"))?;
        let begin = || {
            link::set_up(link::link("lo")?.index)?;
            Control::start().map_err(std::io::Error::other)
        };
        let control = namespace.within(begin).and_then(|made| made).map_err(failed("start a daemon"))?;
        let (program, socket) = (program.to_owned(), control.socket());
        Ok(Ground { program, namespace, socket, files: Files::create()?, _control: control })
    }

    /// This program, asking the daemon at `socket`.
    fn spec(&self, name: &str, socket: &Path, arguments: &[String], cpu: usize) -> Spec {
        let mut all = vec![format!("QANAT_SOCKET={}", socket.display()), self.program.display().to_string()];
        all.extend_from_slice(arguments);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Spec::new(name, "/usr/bin/env", &all).placed(&self.namespace, cpu)
    }

    fn run(&self, case: &Case, peer: usize, duration: Duration) -> Result<Report, HarnessError> {
        let nobody = self.socket.with_extension("none");
        let socket = if peer == 0 { &nobody } else { &self.socket };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut arguments = vec!["web".to_owned(), self.files.directory.display().to_string()];
        // The fence of veth cards is what is measured.
        arguments.extend(words("--address 10.77.0.2/24 --json --device veth"));
        if peer == 0 {
            arguments.push("--direct".to_owned());
        }
        let mut server = start(&self.spec("qanat web", socket, &arguments, SERVER_CPU))?;
        // Its first line is the address it serves: it is ready.
        server.read_line()?;
        server.drain();
        let warm_up = duration / 4;
        let mut arguments = words("load http");
        arguments.push(format!("http://10.77.0.2/{}.bin", case.bytes));
        arguments.extend(words(&format!("-c {} --json --watch-process {}", case.connections, server.id())));
        arguments.extend(words(&format!("-d {}ms --warm-up {}ms", duration.as_millis(), warm_up.as_millis())));
        arguments.extend(case.close.then(|| "--close".to_owned()));
        arguments.extend(case.is_kernel.then(|| "--kernel".to_owned()));
        let client = start(&self.spec("the load generator", socket, &arguments, CLIENT_CPU))?;
        let output = client.output(duration + warm_up + Duration::from_secs(20))?;
        drop(server);
        // Its device goes after it, and the next server's network is the same.
        let is_gone = || self.namespace.within(|| link::link(DEVICE)).is_ok_and(|found| found.is_err());
        if !wait_until(PATIENCE, is_gone) {
            return Err(HarnessError::Child(format!("qanat web has ended, and {DEVICE} is still there")));
        }
        let report = output.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        report.ok_or_else(|| HarnessError::Child(format!("the load printed no report, but: {}", output.trim())))
    }
}

fn busy_s(report: &Report, cpu: usize) -> Option<f64> {
    report.cpus.get(cpu).map(CpuTimes::busy_s)
}

fn per_request_us(report: &Report, seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|_| report.requests > 0).map(|seconds| seconds * 1e6 / report.requests as f64)
}

fn both_us(report: &Report) -> Option<f64> {
    let idle_s = report.client_idle_share.unwrap_or_default() * report.duration_s;
    let both = busy_s(report, SERVER_CPU).zip(busy_s(report, CLIENT_CPU));
    per_request_us(report, both.map(|(server, client)| server + (client - idle_s).max(0.0)))
}

fn saturated(report: &Report) -> &'static str {
    let busy = |cpu: usize| report.cpus.get(cpu).is_some_and(|times| times.busy_share() >= SATURATED_SHARE);
    let client = report.client_idle_share.map_or_else(|| busy(CLIENT_CPU), |idle| idle <= 0.05);
    match (busy(SERVER_CPU), client) {
        (true, true) => "both cores",
        (true, false) => "server core",
        (false, true) => "client core",
        (false, false) => "neither core",
    }
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("server and client need a processor each".to_owned()));
    }
    let all = CASES.iter().filter(|case| case.is_quick || !options.quick);
    let cases = options.chosen(all.collect(), |case| case.name.to_owned())?;
    let ground = Ground::new(&options.program)?;
    let mut environment = Environment::here();
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    environment.link = "veth, MTU 1500: the server's own, or a card of the daemon's".to_owned();
    environment.pinning = format!("server on processor {SERVER_CPU}, client on {CLIENT_CPU}");
    environment.peers =
        vec!["qanat web --direct, and qanat web behind `qanat up`; the same client, in turn".to_owned()];
    let duration = options.duration(Duration::from_secs(2), Duration::from_secs(1));
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in cases {
        let peers: Vec<usize> = (0..PEERS.len()).collect();
        let runs = turns.play(case.name, &peers, |peer| PEERS[*peer], |peer| ground.run(case, *peer, duration))?;
        rows.extend(case_rows(case, &runs));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "qanat web on a device of its own and on a card of the daemon's".to_owned(),
        command: format!("sudo qanat bench gate{}", if options.quick { " --quick" } else { "" }),
        environment,
        columns: Column::with_spreads(&COLUMNS),
        rows,
        remarks: vec![
            "÷ direct: of each pair of runs, one after the other; median".to_owned(),
            "kernel client: sockets behind the kernel's end of the link, which is the same in both".to_owned(),
            "our client: on the kernel's end of the server's own link in the one, and on a card of its own in the other, \
             so that each packet passes the daemon's switch and one more device"
                .to_owned(),
            "CPU µs/req server: all work on its processor, interrupts included; means something where it is the limit"
                .to_owned(),
        ],
    })
}

fn case_rows(case: &Case, runs: &[Vec<Run<Report>>]) -> Vec<Row> {
    let placement = common_placement(runs);
    let direct = runs.first().map(Vec::as_slice).unwrap_or_default();
    let row = |(name, own): (&&str, &Vec<Run<Report>>)| {
        let of = |value: fn(&Report) -> Option<f64>| summarize(own, placement, value);
        let ratio = |(run, base): (&Run<Report>, &Run<Report>)| {
            Some(run.result.requests_per_s / base.result.requests_per_s).filter(|ratio| ratio.is_finite())
        };
        let mut answers: Vec<&str> = own.iter().map(|run| saturated(&run.result)).collect();
        answers.sort_unstable();
        let commonest = answers.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).and_then(|same| same.first());
        let errors: u64 = own.iter().map(|run| run.result.errors_total).sum();
        let words = placement.map_or("mixed".to_owned(), |placement| placement.to_string());
        let errors = if errors > 0 { format!(", {errors} ERRORS") } else { String::new() };
        Row {
            case: case.name.to_owned(),
            peer: (*name).to_owned(),
            values: vec![
                of(|report| Some(report.requests_per_s)),
                Summary::of(own.iter().zip(direct).filter_map(ratio)),
                of(|report| Some(report.gbit_per_s)),
                of(|report| per_request_us(report, busy_s(report, SERVER_CPU))),
                of(both_us),
                of(|report| Some(report.response_time_us.p50)),
                of(|report| Some(report.response_time_us.p99)),
            ],
            note: format!("{}, {words}{errors}", commonest.copied().unwrap_or("?")),
        }
    };
    PEERS.iter().zip(runs).map(row).collect()
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Requests a second, small files", column: "requests_per_s", cases: "1 KiB" },
        Quantity { title: "Share of the throughput without a daemon", column: "ratio", cases: "" },
    ];
    bars::chart(table, &quantities)
}
