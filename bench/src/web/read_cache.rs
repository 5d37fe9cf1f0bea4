//! `qanat bench read-cache`: large files that do not fit the memory for them, by who keeps what was read: the kernel's page cache, nobody,
//! or `qanat web` itself by either of its policies (“The Case Against User-Level Networking”, sections III and IV: an application that
//! has its own cache and its own policy). Each has the same memory for it. wrk asks for windows of them on kernel sockets.

use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::memory_limit::MemoryLimit;
use crate::harness::options::BenchOptions;
use crate::harness::process::{Running, Spec};
use crate::harness::scratch::Scratch;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::{SERVER_KERNEL, Topology};
use crate::harness::{HarnessError, cpu, installed};
use crate::https::{listening, loaded};
use crate::programs::clients::{wrk_by_script, wrk_figures};
use crate::programs::measured::{CLIENT_CPU, Measured, SERVER_CPU};
use crate::web::nginx_version;
use qanat_nic::Random;
use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const MTU: u32 = 1_500;
/// Where `qanat web` is on a card of its own.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 80;
/// What is asked for at once, and what `qanat web` reads at once.
const WINDOW_BYTES: u64 = 256 << 10;
/// Longer than what is held whole.
const FILE_BYTES: u64 = 20 << 20;
const CONNECTIONS: u32 = 16;
/// A peer's memory for what was read is one of so many shares of the files.
const SHARE: u64 = 5;
/// Besides: for windows on their way, 16 connections with two each, and what else a server asks for after its start.
const BESIDES_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// One of so many requests is the next of a walk over all files. 0: none is.
    walk: u64,
}

const CASES: [Case; 2] = [
    Case { name: "popular windows (Zipf, 0.9)", walk: 0 },
    Case { name: "the same beside a reader of everything", walk: 3 },
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Peer {
    Nginx,
    Kernel,
    Nobody,
    Lru,
    S3Fifo,
}

const PEERS: [Peer; 5] = [Peer::Kernel, Peer::Nobody, Peer::Lru, Peer::S3Fifo, Peer::Nginx];

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx, page cache",
            Peer::Kernel => "qanat web, page cache",
            Peer::Nobody => "qanat web, none",
            Peer::Lru => "qanat web, own, lru",
            Peer::S3Fifo => "qanat web, own, s3-fifo",
        }
    }
}

/// What a run yields.
#[derive(Clone, Debug)]
struct Cached {
    measured: Measured,
    /// The share of the bytes that were answered with and did not come from the disk; negative, if more was read than that.
    hit_rate: Option<f64>,
}

/// The files, and what asks for them.
struct Files {
    scratch: Scratch,
    count: u64,
}

impl Files {
    fn create(options: &BenchOptions, cases: &[Case]) -> Result<Files, HarnessError> {
        let files = Files { scratch: Scratch::create("read-cache")?, count: if options.quick { 16 } else { 48 } };
        let failed = |error| HarnessError::system("write the files", error);
        std::fs::create_dir(files.path("site")).map_err(failed)?;
        let mut random = Random::new(7);
        for number in 0..files.count {
            let mut file = File::create(files.path(&format!("site/{number}.bin"))).map_err(failed)?;
            for _ in 0..FILE_BYTES / WINDOW_BYTES {
                let window: Vec<u8> = (0..WINDOW_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
                file.write_all(&window).map_err(failed)?;
            }
            file.sync_all().map_err(failed)?;
        }
        for case in cases {
            files.scratch.write(&format!("{}.lua", case.walk), files.script(case.walk))?;
        }
        let directory = files.path("");
        let configuration = format!(
            "daemon off; user root; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log crit;\n\
             events {{ worker_connections 16384; use epoll; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000;\n\
             open_file_cache max=1000 inactive=600s; open_file_cache_valid 600s; default_type application/octet-stream;\n\
             server {{ listen {SERVER_KERNEL}:{PORT} backlog=4096; root {directory}/site; }} }}\n"
        );
        files.scratch.write("nginx.conf", configuration)?;
        Ok(files)
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    fn bytes(&self) -> u64 {
        self.count * FILE_BYTES
    }

    fn cache_bytes(&self) -> u64 {
        self.bytes() / SHARE
    }

    /// For wrk: the rank of a window is drawn by Zipf's law; where it lies is scattered over all files.
    fn script(&self, walk: u64) -> String {
        let (windows, each) = (self.bytes() / WINDOW_BYTES, FILE_BYTES / WINDOW_BYTES);
        format!(
            "math.randomseed(7)\n\
             local windows, each, bytes, walk = {windows}, {each}, {WINDOW_BYTES}, {walk}\n\
             local sums, sum, asked, at = {{}}, 0, 0, 0\n\
             for rank = 1, windows do sum = sum + 1 / rank ^ 0.9; sums[rank] = sum end\n\
             local function popular()\n\
               local wanted, low, high = math.random() * sum, 1, windows\n\
               while low < high do\n\
                 local middle = math.floor((low + high) / 2)\n\
                 if sums[middle] < wanted then low = middle + 1 else high = middle end\n\
               end\n\
               return low * 7919 % windows\n\
             end\n\
             request = function()\n\
               asked = asked + 1\n\
               local window\n\
               if walk > 0 and asked % walk == 0 then at = at + 1; window = at % windows else window = popular() end\n\
               local first = (window % each) * bytes\n\
               local path = \"/\" .. math.floor(window / each) .. \".bin\"\n\
               return wrk.format(\"GET\", path, {{ [\"Range\"] = \"bytes=\" .. first .. \"-\" .. first + bytes - 1 }})\n\
             end\n"
        )
    }

    /// No page of the files is in the page cache after it.
    fn forget(&self) -> Result<(), HarnessError> {
        for number in 0..self.count {
            let file = File::open(self.path(&format!("site/{number}.bin")));
            let failed = |error| HarnessError::system("empty the page cache of a file", error);
            let file = file.map_err(failed)?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }
}

/// A process and its children.
fn processes(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let below = children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(processes);
    std::iter::once(parent).chain(below).collect()
}

/// Bytes that these processes had from disks so far (`proc(5)`, `/proc/pid/io`), around the page cache or not.
fn disk_bytes(processes: &[u32]) -> u64 {
    let of = |process: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok())
    };
    processes.iter().filter_map(of).sum()
}

fn serve(
    options: &BenchOptions,
    topology: &Topology,
    files: &Files,
    peer: Peer,
) -> Result<(Running, IpAddr), HarnessError> {
    let (directory, settings, site) = (files.path(""), files.path("nginx.conf"), files.path("site"));
    let cache_mib = (files.cache_bytes() >> 20).to_string();
    // Reader threads poll nothing: the rest of the server sleeps if there is nothing to do.
    let mut own = vec!["web", &site, "--json", "--copy", "per-send", "--spin", "never"];
    match peer {
        Peer::Nginx | Peer::Kernel => {}
        Peer::Nobody => own.extend(["--read-cache", "none"]),
        Peer::Lru => own.extend(["--read-cache", &cache_mib, "--read-cache-policy", "lru"]),
        Peer::S3Fifo => own.extend(["--read-cache", &cache_mib]),
    }
    let (spec, address) = if peer == Peer::Nginx {
        let program = installed::find("nginx", "nginx-light")?;
        let words = ["-p", &directory, "-c", &settings, "-e", "stderr"];
        (Spec::new("nginx", program, &words).placed(topology.server(), SERVER_CPU), SERVER_KERNEL)
    } else {
        // Its card is where its client is, as users have it.
        (Spec::new("qanat web", &options.program, &own).placed(topology.client(), SERVER_CPU), OWN)
    };
    let address = IpAddr::V4(address);
    Ok((listening(&spec, topology, SocketAddr::new(address, PORT))?, address))
}

fn measure(
    options: &BenchOptions,
    topology: &Topology,
    files: &Files,
    (case, peer): (&Case, Peer),
) -> Result<Cached, HarnessError> {
    files.forget()?;
    let (mut server, address) = serve(options, topology, files, peer)?;
    let processes = processes(server.id());
    // What goes around the page cache has a bound by itself. What a server had before is not counted in the group.
    let limit = matches!(peer, Peer::Nginx | Peer::Kernel)
        .then(|| MemoryLimit::new(&processes, files.cache_bytes() + BESIDES_BYTES))
        .transpose()?;
    let (script, url) = (files.path(&format!("{}.lua", case.walk)), format!("http://{address}:{PORT}"));
    // By the last run of the client, which is the one that is measured.
    let read = Cell::new(0);
    let client = |duration: Duration| {
        let before = disk_bytes(&processes);
        let output = wrk_by_script(topology, CONNECTIONS, (&script, &url), duration);
        read.set(disk_bytes(&processes).saturating_sub(before));
        output
    };
    // Until the cache is full of what it is to keep.
    client(options.duration(Duration::from_secs(8), Duration::from_secs(2)))?;
    let measured = loaded(options, &mut server, client, wrk_figures)?;
    drop(server);
    drop(limit);
    let sent = measured.count * WINDOW_BYTES as f64;
    let hit_rate = (sent > 0.0).then(|| 1.0 - read.get() as f64 / sent);
    Ok(Cached { measured, hit_rate })
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root, nginx, wrk or a memory controller, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("two processors are needed, one for the server, one for the load".to_owned()));
    }
    let cases = options.chosen(CASES.to_vec(), |case| case.name.to_owned())?;
    installed::find("wrk", "wrk")?;
    let mut environment = Environment::here();
    let topology = Topology::new(MTU)?;
    progress("writing files");
    let files = Files::create(options, &cases)?;
    let (all_mib, cache_mib) = (files.bytes() >> 20, files.cache_bytes() >> 20);
    environment.peers = vec![
        format!("{}: 1 worker, sendfile, open_file_cache", nginx_version()?),
        format!(
            "all: {all_mib} MiB of files, {cache_mib} MiB for what was read; page caches are bounded by a control group"
        ),
    ];
    environment.link =
        format!("nginx: veth, MTU {MTU}, default offloads; qanat web: a card of its own, a TAP device, --spin never");
    environment.pinning = format!("server on processor {SERVER_CPU}, client on {CLIENT_CPU}");
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let (mut table_rows, mut turns) =
        (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in &cases {
        let run = |peer: &Peer| measure(options, &topology, &files, (case, *peer));
        let runs = turns.play(case.name, &PEERS, |peer| peer.name(), run)?;
        table_rows.extend(rows(case.name, &runs));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Windows of 256 KiB of files that do not fit: who keeps what was read".to_owned(),
        command: options.repeat("sudo qanat bench read-cache"),
        environment,
        columns: vec![
            Column::new("hit_rate", "not from the disk, %", 1).with_spread(),
            Column::new("requests_per_s", "requests/s", 0).with_spread(),
            Column::new("ratio", "× page cache", 2),
            Column::new("server_us", "µs/request, server's core", 1),
            Column::new("p50_us", "p50 µs", 0),
            Column::new("p99_us", "p99 µs", 0),
            Column::new("both_us", "µs/request, both cores", 1),
        ],
        rows: table_rows,
        remarks: [
            "Not from the disk: the share of the bytes answered with that the server's processes had not read from a disk meanwhile \
             (/proc/PID/io). The kernel reads ahead, which counts against its page cache. Below zero, more was read than answered with.",
            "A page cache's bound has 16 MiB more than a cache of the server's own, for windows on their way and what else the server asks \
             for after its start. What of it is not used is page cache.",
        ]
        .map(str::to_owned)
        .to_vec(),
    })
}

fn rows(case: &str, runs: &[Vec<Run<Cached>>]) -> Vec<Row> {
    let placement = common_placement(runs);
    let of = |number: usize, value: fn(&Cached) -> Option<f64>| {
        runs.get(number).and_then(|runs| summarize(runs, placement, value))
    };
    let row = |(number, peer): (usize, &Peer)| {
        let rate = |number: usize| of(number, |run| Some(run.measured.per_s));
        let bad: u64 = runs.get(number).into_iter().flatten().map(|run| run.result.measured.bad).sum();
        let place = placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string());
        Row {
            case: case.to_owned(),
            peer: peer.name().to_owned(),
            values: vec![
                of(number, |run| run.hit_rate.map(|rate| rate * 100.0)),
                rate(number),
                Summary::relative(rate(number), rate(0)),
                of(number, |run| run.measured.server_us()),
                of(number, |run| Some(run.measured.latency.p50)),
                of(number, |run| Some(run.measured.latency.p99)),
                of(number, |run| run.measured.both_us()),
            ],
            note: if bad > 0 { format!("{place}, {bad} FAILED") } else { place },
        }
    };
    PEERS.iter().enumerate().map(row).collect()
}

/// Rates, then times.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Bytes that did not come from the disk, %", column: "hit_rate", cases: "" },
        Quantity { title: "Requests a second", column: "requests_per_s", cases: "" },
        Quantity { title: "Time of the server's processor for a request, µs", column: "server_us", cases: "" },
    ];
    bars::chart(table, &quantities)
}
