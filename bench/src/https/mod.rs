//! `qanat bench https`: `qanat web --https` and nginx, in turn, under wrk, and h2load for HTTP/2, on kernel sockets with
//! default offloads.

use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::scratch::Scratch;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::{SERVER_KERNEL, Topology};
use crate::harness::{HarnessError, cpu, installed};
use crate::machine::MachineSample;
use crate::programs::clients::{between, h2load_figures, wrk_figures};
use crate::programs::measured::{CLIENT_CPU, Measured, SERVER_CPU};
use crate::web::nginx_version;
use qanat_nic::Random;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const MTU: u32 = 1_500;
const PORT: u16 = 443;
/// Where `qanat web` is on a card of its own.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The directory of the files, in that of everything.
const SERVED: &str = "site";
/// How long a server may take to listen, and a client to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// One way of asking.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    bytes: usize,
    connections: u32,
    asking: Asking,
    /// Times nginx' requests for a second of the server's processor that are wanted.
    bar: f64,
}

/// How requests come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asking {
    /// One after the other on each connection.
    KeepAlive,
    /// Each on a connection of its own, with a whole handshake.
    Closing,
    /// By HTTP/2, so many at once on each connection.
    Streams(u32),
}

const CASES: [Case; 5] = [
    Case { name: "1 KiB, keep-alive", bytes: 1 << 10, connections: 64, asking: Asking::KeepAlive, bar: 2.0 },
    Case { name: "16 KiB, keep-alive", bytes: 16 << 10, connections: 32, asking: Asking::KeepAlive, bar: 1.3 },
    Case { name: "1 MiB, keep-alive", bytes: 1 << 20, connections: 16, asking: Asking::KeepAlive, bar: 1.3 },
    Case { name: "1 KiB, a handshake each", bytes: 1 << 10, connections: 32, asking: Asking::Closing, bar: 1.2 },
    Case { name: "1 KiB, HTTP/2, 32 streams", bytes: 1 << 10, connections: 4, asking: Asking::Streams(32), bar: 2.0 },
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Peer {
    Nginx,
    Qanat,
    /// It sleeps whenever there is nothing to do: what it takes of the processor is what it needs.
    Sleeping,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx",
            Peer::Qanat => "qanat web --https",
            Peer::Sleeping => "qanat web --https --spin never",
        }
    }
}

/// Files that are served, a certificate, and nginx' settings.
struct Site(Scratch);

impl Site {
    fn create(options: &BenchOptions) -> Result<Site, HarnessError> {
        let site = Site(Scratch::create("https")?);
        let directory = site.0.path().display().to_string();
        let addresses = [SERVER_KERNEL.to_string(), OWN.to_string()];
        let words = ["cert", &addresses[0], &addresses[1], "--to", &directory];
        start(&Spec::new("qanat cert", &options.program, &words))?.output(PATIENCE)?;
        // Apart from the key, which is nobody's to read.
        std::fs::create_dir(site.served()).map_err(|error| HarnessError::system("make a directory to serve", error))?;
        for case in CASES {
            let mut random = Random::new(case.bytes as u64);
            let content: Vec<u8> = (0..case.bytes).map(|_| random.next() as u8).collect();
            site.0.write(&format!("{SERVED}/{}.bin", case.bytes), content)?;
        }
        let server =
            format!("server {{ listen {SERVER_KERNEL}:{PORT} ssl http2 backlog=4096; root {directory}/{SERVED}; }}");
        let configuration = nginx_settings(&directory, &server);
        site.0.write("nginx.conf", configuration)?;
        Ok(site)
    }

    fn served(&self) -> String {
        self.file(SERVED)
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// nginx' settings for these servers, with certificate and key in `directory`. As its users tune it; what both have in common is said, so
/// that it is the same.
pub(crate) fn nginx_settings(directory: &str, servers: &str) -> String {
    format!(
        "daemon off; user root; worker_processes 1; worker_rlimit_nofile 65536; pid {directory}/nginx.pid;\n\
         error_log {directory}/error.log crit; events {{ worker_connections 16384; use epoll; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;\n\
           keepalive_timeout 600s; keepalive_requests 1000000000;\n\
           open_file_cache max=1000 inactive=600s; open_file_cache_valid 600s;\n\
           default_type application/octet-stream;\n\
           ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n\
           ssl_session_tickets on; ssl_buffer_size 16k;\n\
           ssl_certificate {directory}/certificate.pem; ssl_certificate_key {directory}/key.pem;\n\
           {servers} }}\n"
    )
}

fn serve(
    options: &BenchOptions,
    topology: &Topology,
    site: &Site,
    peer: Peer,
) -> Result<(Running, SocketAddr), HarnessError> {
    let directory = site.0.path().display().to_string();
    let (chain, key, settings) = (site.file("certificate.pem"), site.file("key.pem"), site.file("nginx.conf"));
    let served = site.served();
    let own = ["web", &served, "--https", "--certificate", &chain, "--key", &key, "--json"];
    let (spec, address) = match peer {
        Peer::Nginx => {
            let program = installed::find("nginx", "nginx-light")?;
            let words = ["-p", &directory, "-c", &settings, "-e", "stderr"];
            (Spec::new("nginx", program, &words).placed(topology.server(), SERVER_CPU), SERVER_KERNEL)
        }
        // Its card is where its client is, as users have it.
        Peer::Qanat => (Spec::new("qanat web", &options.program, &own).placed(topology.client(), SERVER_CPU), OWN),
        Peer::Sleeping => {
            let words = [own.as_slice(), &["--spin", "never"]].concat();
            (Spec::new("qanat web", &options.program, &words).placed(topology.client(), SERVER_CPU), OWN)
        }
    };
    let address = SocketAddr::new(IpAddr::V4(address), PORT);
    Ok((listening(&spec, topology, address)?, address))
}

/// Starts a server, and waits until it listens.
pub(crate) fn listening(spec: &Spec, topology: &Topology, address: SocketAddr) -> Result<Running, HarnessError> {
    let mut running = start(spec)?;
    running.drain();
    let connects = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok();
    let serves = || topology.client().within(connects).unwrap_or(false);
    if !wait_until(PATIENCE, || serves() || !running.is_running()) || !running.is_running() {
        return Err(running.failure("does not listen"));
    }
    Ok(running)
}

/// What a client makes of a server: it runs for a second, and then for as long as is measured; `figures`: what it said.
pub(crate) fn loaded(
    options: &BenchOptions,
    server: &mut Running,
    client: impl Fn(Duration) -> Result<String, HarnessError>,
    figures: impl Fn(&str) -> Option<Measured>,
) -> Result<Measured, HarnessError> {
    let load = || {
        client(Duration::from_secs(1))?;
        let before = MachineSample::take(None);
        let output = client(options.duration(Duration::from_secs(4), Duration::from_secs(1)))?;
        let cpus = between(&before);
        let figures = figures(&output).map(|figures| figures.with(cpus));
        figures.ok_or_else(|| HarnessError::Child(format!("the client printed no figures, but: {output:?}")))
    };
    load().map_err(|error| if server.is_running() { error } else { server.failure("died while it was loaded") })
}

fn measure(
    options: &BenchOptions,
    topology: &Topology,
    site: &Site,
    (case, peer): (&Case, Peer),
) -> Result<Measured, HarnessError> {
    let (mut server, address) = serve(options, topology, site, peer)?;
    let url = format!("https://{}/{}.bin", address.ip(), case.bytes);
    let (name, program) = match case.asking {
        Asking::KeepAlive | Asking::Closing => ("wrk", installed::find("wrk", "wrk")?),
        Asking::Streams(_) => ("h2load", installed::find("h2load", "nghttp2-client")?),
    };
    let client = |duration: Duration| {
        // They take whole seconds.
        let (connections, seconds) = (case.connections.to_string(), duration.as_secs().max(1).to_string());
        let mut words = vec!["-t", "1", "-c", &connections];
        let streams;
        match case.asking {
            Asking::KeepAlive => words.extend(["-d", &seconds, "--latency"]),
            Asking::Closing => words.extend(["-d", &seconds, "--latency", "-H", "Connection: close"]),
            Asking::Streams(count) => {
                streams = count.to_string();
                words.extend(["-D", &seconds, "-m", &streams]);
            }
        }
        words.push(&url);
        start(&Spec::new(name, &program, &words).placed(topology.client(), CLIENT_CPU))?.output(duration + PATIENCE)
    };
    let figures = |output: &str| if name == "wrk" { wrk_figures(output) } else { h2load_figures(output) };
    loaded(options, &mut server, client, figures)
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root, nginx, wrk or h2load, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("two processors are needed, one for the server, one for the load".to_owned()));
    }
    let cases = options.chosen(CASES.to_vec(), |case| case.name.to_owned())?;
    installed::find("wrk", "wrk")?;
    installed::find("h2load", "nghttp2-client")?;
    let mut environment = Environment::here();
    environment.peers = vec![
        format!("{}: 1 worker, tickets, records of 16 KiB, open_file_cache, no access log", nginx_version()?),
        "both: TLS 1.3, AES-128-GCM, one certificate (ECDSA, P-256); files in memory".to_owned(),
    ];
    environment.link = format!(
        "nginx: veth, MTU {MTU}, default offloads; qanat web: a card of its own as users have it, a TAP device"
    );
    environment.pinning = format!("server on processor {SERVER_CPU}, client on {CLIENT_CPU}");
    let topology = Topology::new(MTU)?;
    let site = Site::create(options)?;
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in &cases {
        let peers = [Peer::Nginx, Peer::Qanat, Peer::Sleeping];
        let run = |peer: &Peer| measure(options, &topology, &site, (case, *peer));
        let runs = turns.play(case.name, &peers, |peer| peer.name(), run)?;
        let names = peers.map(Peer::name);
        rows.extend(case_rows((case.name, case.bar), &names, &runs, &mut environment.warnings));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Static files by HTTPS: qanat web and nginx, wrk and h2load on kernel sockets".to_owned(),
        command: options.repeat("sudo qanat bench https"),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(),
    })
}

/// Columns of servers beside nginx.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::new("requests_per_s", "requests/s", 0).with_spread(),
        Column::new("ratio", "× nginx", 2),
        Column::new("server_us", "µs/request, server's core", 2),
        Column::new("per_core_ratio", "× nginx per core-second", 2),
        Column::new("p50_us", "p50 µs", 1),
        Column::new("p99_us", "p99 µs", 1),
        Column::new("both_us", "µs/request, both cores", 2),
    ]
}

/// The rows of a case, for [`columns`]: the first peer is nginx, the last one is to reach so many times its requests for a second of its
/// processor.
pub(crate) fn case_rows(
    (case, bar): (&str, f64),
    peers: &[&str],
    runs: &[Vec<Run<Measured>>],
    warnings: &mut Vec<String>,
) -> Vec<Row> {
    let placement = common_placement(runs);
    if placement.is_none() {
        warnings.push(format!("{}: the processors moved between peers' runs; their ratios mix placements", case));
    }
    let of = |number: usize, value: fn(&Measured) -> Option<f64>| {
        runs.get(number).and_then(|runs| summarize(runs, placement, value))
    };
    let per_core = |measured: &Measured| measured.server_us().map(|us| 1e6 / us);
    let rate = |measured: &Measured| Some(measured.per_s);
    let row = |number: usize, peer: &str| {
        let own = runs.get(number).map(Vec::as_slice).unwrap_or_default();
        let bad: u64 = own.iter().map(|run| run.result.bad).sum();
        let mut note = placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string());
        if bad > 0 {
            note.push_str(&format!(", {bad} FAILED"));
        }
        if number + 1 == peers.len() {
            note.push_str(&format!("; bar {bar} × per core-second"));
        }
        Row {
            case: case.to_owned(),
            peer: peer.to_owned(),
            values: vec![
                of(number, rate),
                Summary::relative(of(number, rate), of(0, rate)),
                of(number, Measured::server_us),
                Summary::relative(of(number, per_core), of(0, per_core)),
                // h2load does not say how they are spread.
                of(number, |measured| Some(measured.latency.p50).filter(|us| *us > 0.0)),
                of(number, |measured| Some(measured.latency.p99).filter(|us| *us > 0.0)),
                of(number, Measured::both_us),
            ],
            note,
        }
    };
    peers.iter().enumerate().map(|(number, peer)| row(number, peer)).collect()
}

pub(crate) fn remarks() -> Vec<String> {
    [
        "µs/request: all work on the server's processor, interrupts included. A server that polls for its next request is charged for \
         that, too; «--spin never» is what it needs.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Rates, then times.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Requests a second", column: "requests_per_s", cases: "" },
        Quantity { title: "Time of the server's processor for a request, µs", column: "server_us", cases: "" },
    ];
    bars::chart(table, &quantities)
}
