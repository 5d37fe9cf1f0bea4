//! `qanat bench web`: `qanat web` and nginx in turn on the same veth, under the same client (Sandstorm's evaluation,
//! thesis §3.3: small files to large, and a mix shaped like the Yahoo! CDN's).

mod chart;
pub mod crossing;
pub mod read_cache;
mod servers;

pub use chart::chart;
pub use servers::{Peer, Server, nginx_version};

use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::process::{Spec, start};
use crate::harness::statistics::Summary;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use crate::harness::{HarnessError, cpu};
use crate::load::Report;
use crate::load::attach::ADDRESSES_DEFAULT;
use servers::Site;
use std::time::Duration;

/// A processor busier than this was at its limit.
const SATURATED_SHARE: f64 = 0.97;
/// A polling client that found nothing to do in a smaller share of its time was at its limit.
const CLIENT_IDLE_SHARE_MAX: f64 = 0.05;
/// A run in which other programs took a larger share of the two processors is repeated, and marked if it doesn't help.
const FOREIGN_SHARE_MAX: f64 = 0.05;
/// Times a run is made again because others disturbed it.
const DISTURBED_REPEATS_MAX: usize = 2;
/// A run with a larger share of failed requests is marked.
const ERROR_SHARE_MAX: f64 = 0.001;

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct WebBenchOptions {
    /// What every table understands; the program runs the children.
    pub common: BenchOptions,
    /// Only peers whose name contains this.
    pub peers: Option<String>,
    /// Processor of the server.
    pub server_cpu: usize,
    /// Processor of the client.
    pub client_cpu: usize,
    /// MTU of the link.
    pub mtu: u32,
}

impl WebBenchOptions {
    /// The full table with the program at `program`, server on processor 0, client on 1, MTU 1500.
    pub fn new(common: BenchOptions) -> WebBenchOptions {
        WebBenchOptions { common, peers: None, server_cpu: 0, client_cpu: 1, mtu: 1_500 }
    }

    fn duration(&self) -> Duration {
        self.common.duration(Duration::from_secs(2), Duration::from_millis(500))
    }

    fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.common.quick { 200 } else { 500 })
    }
}

/// One way of loading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// For people; [`BenchOptions::filter`] looks in it.
    pub name: String,
    /// Size asked for, bytes; `None`: the mix.
    pub bytes: Option<u64>,
    /// A new connection per request.
    pub close: bool,
    /// Connections kept busy.
    pub connections: usize,
    /// Also measured with a kernel client, for which the kernel server may use TSO.
    pub kernel_client: bool,
}

/// Every case, in order.
fn cases(options: &WebBenchOptions) -> Result<Vec<Case>, HarnessError> {
    // As many connections as keep a core of either server busy: with 64 and small files ours waits for the client.
    let sizes: [(Option<u64>, &str, usize); 6] = [
        (Some(1 << 10), "1 KiB", 512),
        (Some(4 << 10), "4 KiB", 256),
        (Some(24 << 10), "24 KiB", 64),
        (Some(128 << 10), "128 KiB", 32),
        (Some(1 << 20), "1 MiB", 16),
        (None, "Yahoo! mix", 256),
    ];
    let mut cases = Vec::new();
    for close in [false, true] {
        for (bytes, name, connections) in sizes {
            let how = if close { "new connection each" } else { "keep-alive" };
            let kernel_client = !close && bytes.is_some_and(|bytes| bytes >= 128 << 10);
            cases.push(Case { name: format!("{name}, {how}"), bytes, close, connections, kernel_client });
        }
    }
    cases.push(Case {
        name: "1 KiB, keep-alive, one connection (idle latency)".to_owned(),
        bytes: Some(1 << 10),
        close: false,
        connections: 1,
        kernel_client: false,
    });
    let quick = |case: &Case| match (case.bytes, case.close) {
        (Some(bytes), false) => [1 << 10, 24 << 10, 1 << 20].contains(&bytes),
        (Some(bytes), true) => bytes == 1 << 10,
        (None, close) => !close,
    };
    if options.common.quick {
        cases.retain(quick);
        cases.iter_mut().for_each(|case| case.kernel_client = false);
    }
    options.common.chosen(cases, |case| case.name.clone())
}

/// Peers of a case, the one others are compared with first.
fn peers(options: &WebBenchOptions, case: &Case) -> Vec<Peer> {
    let mut peers = vec![Peer::NGINX, Peer::NGINX_NO_OFFLOADS, Peer::QANAT_PRE, Peer::QANAT_PER_SEND];
    if case.bytes == Some(1 << 10) {
        peers.push(Peer::QANAT_RULES);
    }
    if case.kernel_client {
        peers.push(Peer::NGINX_KERNEL_CLIENT);
    }
    if let Some(filter) = &options.peers {
        peers.retain(|peer| peer.name().contains(filter.as_str()));
    }
    peers
}

/// What one run yields.
#[derive(Clone, Debug)]
struct Measured {
    report: Report,
    server_cpu: usize,
    client_cpu: usize,
}

impl Measured {
    fn busy_s(&self, cpu: usize) -> Option<f64> {
        self.report.cpus.get(cpu).map(crate::machine::CpuTimes::busy_s)
    }

    fn per_request_us(&self, seconds: Option<f64>) -> Option<f64> {
        let requests = self.report.requests;
        seconds.filter(|_| requests > 0).map(|seconds| seconds * 1e6 / requests as f64)
    }

    fn server_us(&self) -> Option<f64> {
        self.per_request_us(self.busy_s(self.server_cpu))
    }

    /// A polling client's empty turns are left out: it would find work for that time too.
    fn both_us(&self) -> Option<f64> {
        let empty_s = self.report.client_idle_share.unwrap_or_default() * self.report.duration_s;
        let client = self.busy_s(self.client_cpu).map(|busy| (busy - empty_s).max(0.0));
        self.per_request_us(self.busy_s(self.server_cpu).zip(client).map(|(server, client)| server + client))
    }

    /// Share of the two processors' time that went to programs other than server and client.
    fn foreign_share(&self) -> f64 {
        let programs = |cpu: usize| self.report.cpus.get(cpu).map_or(0.0, |times| times.user_s + times.system_s);
        let own = self.report.client_cpu_s + self.report.watched_cpu_s.unwrap_or_default();
        let foreign = programs(self.server_cpu) + programs(self.client_cpu) - own;
        if self.report.watched_cpu_s.is_none() || self.report.duration_s <= 0.0 {
            return 0.0;
        }
        (foreign / (2.0 * self.report.duration_s)).clamp(0.0, 1.0)
    }

    /// What kept it from going faster, as far as can be told.
    fn saturated(&self) -> &'static str {
        if self.report.connections == 1 {
            return "latency";
        }
        let busy = |cpu: usize| self.report.cpus.get(cpu).is_some_and(|times| times.busy_share() >= SATURATED_SHARE);
        let client = match self.report.client_idle_share {
            // A client that polls is always busy: what counts is whether it found work.
            Some(idle) => idle <= CLIENT_IDLE_SHARE_MAX,
            None => busy(self.client_cpu),
        };
        match (busy(self.server_cpu), client) {
            (true, true) => "both cores",
            (true, false) => "server core",
            (false, true) => "client core",
            (false, false) => "neither core",
        }
    }
}

/// Makes the table. `progress` is told what is being measured, for a live line.
///
/// # Errors
/// [`HarnessError::Missing`] without root or nginx, with the remedy; else what a child or the system said.
pub fn run(options: &WebBenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    check(options)?;
    let cases = cases(options)?;
    let nginx = nginx_version()?;
    let mut environment = environment(options, nginx);
    let rows = rows(options, &cases, |case| peers(options, case), &mut environment, progress)?;
    Ok(Table {
        title: "Static files over HTTP/1.1: qanat web and nginx on the same veth, same client".to_owned(),
        command: options.common.repeat("qanat bench web"),
        environment,
        columns: columns("nginx"),
        rows,
        remarks: remarks(),
    })
}

/// The rows of `cases`: their peers in turn on one link, once the machine is quiet.
fn rows(
    options: &WebBenchOptions,
    cases: &[Case],
    peers: impl Fn(&Case) -> Vec<Peer>,
    environment: &mut Environment,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, HarnessError> {
    let topology = Topology::new(options.mtu)?;
    let site = Site::create()?;
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.common.quick { 1 } else { 20 }));
    let (mut rows, mut turns) =
        (Vec::new(), Turns::new((options.server_cpu, options.client_cpu), options.common.repetitions(), progress));
    for case in cases {
        let peers = peers(case);
        let run = |peer: &Peer| undisturbed(options, &topology, &site, case, *peer);
        let runs = turns.play(&case.name, &peers, |peer| peer.name(), run)?;
        rows.extend(case_rows(case, &peers, &runs, &mut environment.warnings));
    }
    environment.placement = turns.placement();
    Ok(rows)
}

fn check(options: &WebBenchOptions) -> Result<(), HarnessError> {
    let processors = cpu::count();
    if options.server_cpu == options.client_cpu || options.server_cpu.max(options.client_cpu) >= processors {
        return Err(HarnessError::Option(format!(
            "server on processor {} and client on {}: this machine has {processors}; two different ones are needed",
            options.server_cpu, options.client_cpu
        )));
    }
    Ok(())
}

fn environment(options: &WebBenchOptions, nginx: String) -> Environment {
    let mut environment = Environment::here();
    environment.peers = vec![
        format!("{nginx}: 1 worker, sendfile, tcp_nopush, open_file_cache, no access log"),
        "qanat web --copy pre and --copy per-send: 1 core, AF_XDP copy mode, polling".to_owned(),
    ];
    environment.link = format!(
        "veth, MTU {}, qdisc noqueue; the client's XDP program makes the kernel turn TSO off at the server's end",
        options.mtu
    );
    environment.pinning = format!(
        "server on processor {}, client on {}; veth runs receive processing on the sender's processor",
        options.server_cpu, options.client_cpu
    );
    environment
}

/// A run, made again if other programs took part of the processors.
fn undisturbed(
    options: &WebBenchOptions,
    topology: &Topology,
    site: &Site,
    case: &Case,
    peer: Peer,
) -> Result<Measured, HarnessError> {
    let repeats = if options.common.quick { 0 } else { DISTURBED_REPEATS_MAX };
    let mut best = measure(options, topology, site, case, peer)?;
    for _ in 0..repeats {
        if best.foreign_share() <= FOREIGN_SHARE_MAX {
            break;
        }
        let again = measure(options, topology, site, case, peer)?;
        if again.foreign_share() < best.foreign_share() {
            best = again;
        }
    }
    Ok(best)
}

/// One run: start the server, load it, end it.
fn measure(
    options: &WebBenchOptions,
    topology: &Topology,
    site: &Site,
    case: &Case,
    peer: Peer,
) -> Result<Measured, HarnessError> {
    let server = Server::start(peer, &options.common.program, topology, site, options.server_cpu)?;
    let arguments = client_arguments(options, topology, case, peer, &server);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let client = Spec::new("the load generator", &options.common.program, &arguments)
        .placed(topology.client(), options.client_cpu);
    let patience = options.warm_up() + options.duration() + Duration::from_secs(20);
    let output = start(&client)?.output(patience);
    let output = match output {
        Ok(output) => output,
        Err(error) => return Err(server.explain(error)),
    };
    drop(server);
    let report = last_report(&output).ok_or_else(|| {
        HarnessError::Child(format!("the load generator printed no report; it printed: {}", output.trim()))
    })?;
    Ok(Measured { report, server_cpu: options.server_cpu, client_cpu: options.client_cpu })
}

fn client_arguments(
    options: &WebBenchOptions,
    topology: &Topology,
    case: &Case,
    peer: Peer,
    server: &Server,
) -> Vec<String> {
    let path = case.bytes.map_or(String::new(), |bytes| format!("{bytes}.bin"));
    let mut arguments = vec!["load".to_owned(), "http".to_owned(), format!("{}/{path}", server.url())];
    arguments.extend(["-c".to_owned(), case.connections.to_string()]);
    arguments.extend(["-d".to_owned(), format!("{}ms", options.duration().as_millis())]);
    arguments.extend(["--warm-up".to_owned(), format!("{}ms", options.warm_up().as_millis())]);
    arguments.extend(["--watch-process".to_owned(), server.worker_id().to_string()]);
    arguments.push("--json".to_owned());
    if case.close {
        arguments.push("--close".to_owned());
    }
    if case.bytes.is_none() {
        arguments.extend(["--mix".to_owned(), "yahoo".to_owned()]);
    }
    if peer.kernel_client {
        arguments.push("--kernel".to_owned());
    } else {
        let sources = topology.client_addresses(ADDRESSES_DEFAULT).into_iter();
        arguments.extend(sources.flat_map(|source| ["--source".to_owned(), source.to_string()]));
    }
    arguments
}

/// The report is the last line of the client's output that is one.
fn last_report(output: &str) -> Option<Report> {
    output.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

/// `first`: what the others are compared with.
fn columns(first: &str) -> Vec<Column> {
    vec![
        Column::new("requests_per_s", "requests/s", 0).with_spread(),
        Column::new("ratio", &format!("× {first}"), 2),
        Column::new("gbit_per_s", "Gbit/s", 2),
        Column::new("server_us", "CPU µs/req server", 2),
        Column::new("server_ratio", &format!("÷ {first}"), 2),
        Column::new("both_us", "both cores", 2),
        Column::new("p50_us", "p50 µs", 1),
        Column::new("p99_us", "p99 µs", 1),
        Column::new("p99_9_us", "p99.9 µs", 1),
    ]
}

fn case_rows(case: &Case, peers: &[Peer], runs: &[Vec<Run<Measured>>], warnings: &mut Vec<String>) -> Vec<Row> {
    let placement = common_placement(runs);
    if placement.is_none() {
        warnings.push(format!("{}: the processors moved between peers' runs; their ratios mix placements", case.name));
    }
    let of = |runs: &[Run<Measured>], value: fn(&Measured) -> Option<f64>| summarize(runs, placement, value);
    let rate = |measured: &Measured| Some(measured.report.requests_per_s);
    let first = runs.first().map(Vec::as_slice).unwrap_or_default();
    let base_rate = of(first, rate);
    let base_server = of(first, Measured::server_us);
    let relative = |value: Option<Summary>, base: Option<Summary>| {
        let base = base.filter(|base| base.median > 0.0)?.median;
        value.map(|value| Summary {
            median: value.median / base,
            min: value.min / base,
            max: value.max / base,
            count: value.count,
        })
    };
    peers
        .iter()
        .zip(runs)
        .map(|(peer, runs)| {
            let rate = of(runs, rate);
            let server = of(runs, Measured::server_us);
            Row {
                case: case.name.clone(),
                peer: peer.name().to_owned(),
                values: vec![
                    rate,
                    relative(rate, base_rate),
                    of(runs, |measured| Some(measured.report.gbit_per_s)),
                    server,
                    relative(server, base_server),
                    of(runs, Measured::both_us),
                    of(runs, |measured| Some(measured.report.response_time_us.p50)),
                    of(runs, |measured| Some(measured.report.response_time_us.p99)),
                    of(runs, |measured| Some(measured.report.response_time_us.p99_9)),
                ],
                note: note(runs, placement.map(|placement| placement.to_string())),
            }
        })
        .collect()
}

/// What saturated (the commonest answer of the runs), the processors' placement, and errors if there were any.
fn note(runs: &[Run<Measured>], placement: Option<String>) -> String {
    let mut answers: Vec<&str> = runs.iter().map(|run| run.result.saturated()).collect();
    answers.sort_unstable();
    let commonest = answers.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
    let saturated = commonest.and_then(|same| same.first()).copied().unwrap_or("?");
    let mut note = format!("{saturated}, {}", placement.unwrap_or_else(|| "mixed".to_owned()));
    let errors: u64 = runs.iter().map(|run| run.result.report.errors_total).sum();
    let requests: u64 = runs.iter().map(|run| run.result.report.requests).sum();
    if errors as f64 > ERROR_SHARE_MAX * requests as f64 {
        note.push_str(&format!(", {errors} ERRORS"));
    }
    let foreign = runs.iter().map(|run| run.result.foreign_share()).fold(0.0, f64::max);
    if foreign > FOREIGN_SHARE_MAX {
        note.push_str(&format!(", DISTURBED by others: {:.0} % of both cores", foreign * 100.0));
    }
    note
}

fn remarks() -> Vec<String> {
    [
        "CPU µs/req server: all work on the server's processor, interrupts included, per answer. A polling server is \
         always busy, so for qanat this means something only where the server core is the limit.",
        "both cores: the same of server's and client's processors together, without the time a polling client found \
         nothing to do (a polling server's such time is not known, and counted). veth runs receive processing on the \
         sender's processor, so a kernel server's receive work is charged to the client and the client's to the server; \
         neither processor alone is the whole story.",
        "The last column says which processor was at its limit (a polling client only if it hardly ever found nothing \
         to do), and how far apart the two were (near ≈ 55 ns, far ≈ 360 ns; runs of one class are compared).",
        "nginx: offloads as veth has them, but TSO is off at its end because the client's end has an XDP program; GSO \
         is on. 'nginx, no TSO/GSO/GRO': every segment made by the kernel's TCP. 'nginx, kernel client': full TSO, for \
         the size of its advantage on a link that cuts for free; another client, so only roughly comparable.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cpu::Placement;
    use crate::machine::CpuTimes;
    use std::path::PathBuf;

    fn options() -> WebBenchOptions {
        WebBenchOptions::new(BenchOptions::new(PathBuf::from("/bin/false")))
    }

    #[test]
    fn quick_fits_its_time() {
        let options = WebBenchOptions { common: BenchOptions { quick: true, ..options().common }, ..options() };
        let runs: usize = cases(&options).unwrap().iter().map(|case| peers(&options, case).len()).sum();
        let each = options.duration() + options.warm_up() + Duration::from_millis(600);
        assert!(each * runs as u32 * (options.common.repetitions() as u32) < Duration::from_secs(45), "{runs} runs");
        assert!(
            cases(&options).unwrap().iter().any(|case| case.close)
                && cases(&options).unwrap().iter().any(|case| case.bytes.is_none())
        );
    }

    #[test]
    fn full_has_every_size_both_ways() {
        let all = cases(&options()).unwrap();
        assert_eq!(all.len(), 13);
        let filtered = cases(&WebBenchOptions {
            common: BenchOptions { filter: Some("new connection".to_owned()), ..options().common },
            ..options()
        })
        .unwrap();
        assert_eq!(filtered.len(), 6);
    }

    fn measured(rate: f64, server_busy_s: f64, idle: f64) -> Run<Measured> {
        let cpu = |busy: f64| CpuTimes { user_s: busy, idle_s: 1.0 - busy, ..CpuTimes::default() };
        let report = Report {
            requests: rate as u64,
            requests_per_s: rate,
            connections: 64,
            duration_s: 1.0,
            client_cpu_s: 0.9,
            watched_cpu_s: Some(server_busy_s - 0.2),
            client_idle_share: Some(idle),
            cpus: vec![cpu(server_busy_s), cpu(1.0)],
            ..Report::default()
        };
        let result = Measured { report, server_cpu: 0, client_cpu: 1 };
        Run { result, placement: Some(Placement::Near), round_trip_ns: (55.0, 55.0), repeats: 0 }
    }

    #[test]
    fn rows_compare_with_the_first_peer() {
        let case = cases(&options()).unwrap().remove(0);
        let runs = [vec![measured(10_000.0, 0.5, 0.6)], vec![measured(40_000.0, 1.0, 0.01)]];
        let mut warnings = Vec::new();
        let rows = case_rows(&case, &[Peer::NGINX, Peer::QANAT_PRE], &runs, &mut warnings);
        let table = Table { columns: columns("nginx"), rows, ..Table::default() };
        let value = |peer: Peer, column| table.value(&case.name, peer.name(), column).unwrap().median;
        assert_eq!(value(Peer::QANAT_PRE, "ratio"), 4.0);
        assert_eq!(value(Peer::NGINX, "server_us"), 50.0);
        assert_eq!(value(Peer::QANAT_PRE, "server_us"), 25.0);
        assert_eq!(value(Peer::QANAT_PRE, "server_ratio"), 0.5);
        // The client's processor was busy for 1 s, 0.6 s of it in vain.
        assert!((value(Peer::NGINX, "both_us") - 90.0).abs() < 1e-6);
        assert!(table.rows[0].note.starts_with("neither core, near") && table.rows[1].note.starts_with("both cores"));
        assert!(table.rows[0].note.contains("DISTURBED by others: 15 %"), "{}", table.rows[0].note);
        assert!(warnings.is_empty());
        let svg = chart(&table).to_svg();
        assert!(svg.contains("1 KiB") && svg.contains("10k"), "{svg}");
    }

    #[test]
    fn the_report_is_found_among_other_lines() {
        let report = serde_json::to_string(&Report { requests: 7, ..Report::default() }).unwrap();
        let output = format!("10.99.7.3\n{{\"requests_per_s\": 1.0}}\n{report}\n");
        assert_eq!(last_report(&output).unwrap().requests, 7);
        assert!(last_report("nothing").is_none());
    }

    #[test]
    fn one_processor_is_not_enough() {
        let error = check(&WebBenchOptions { client_cpu: 0, ..options() }).unwrap_err().to_string();
        assert!(error.contains("two different"), "{error}");
    }
}
