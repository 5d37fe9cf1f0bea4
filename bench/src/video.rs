//! `qanat bench video`: `qanat video` and nginx, in turn, under wrk on kernel sockets with default offloads. Chunks of 300 KB are asked for
//! at random, as in the thesis (section 4.4). nginx reads them from the disk each time (`directio`, `aio threads`), as `qanat video` does, and
//! for comparison from the page cache.

use crate::harness::alternate::Turns;
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::process::{Spec, start};
use crate::harness::scratch::Scratch;
use crate::harness::svg::Chart;
use crate::harness::table::Table;
use crate::harness::topology::{SERVER_KERNEL, Topology};
use crate::harness::{HarnessError, cpu, installed};
use crate::https::{case_rows, columns, listening, loaded, nginx_settings, remarks};
use crate::programs::clients::{wrk_by_script, wrk_figures};
use crate::programs::measured::{CLIENT_CPU, Measured, SERVER_CPU};
use crate::web::nginx_version;
use qanat_nic::Random;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const MTU: u32 = 1_500;
/// Where `qanat video` is on a card of its own.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const CHUNK_BYTES: usize = 300_000;
const CHUNKS: usize = 512;
const PATIENCE: Duration = Duration::from_secs(60);
/// Each request asks for another chunk.
const SCRIPT: &str = "math.randomseed(os.time())\n\
    request = function() return wrk.format(\"GET\", \"/chunks/\" .. math.random(0, 511) .. \".m4s\") end\n";

#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    connections: u32,
    is_encrypted: bool,
    /// Times nginx' bytes for a second of the server's processor that are wanted.
    bar: f64,
}

const CASES: [Case; 4] = [
    Case { name: "encrypted, 8 connections", connections: 8, is_encrypted: true, bar: 1.5 },
    Case { name: "encrypted, 64 connections", connections: 64, is_encrypted: true, bar: 1.5 },
    Case { name: "plain, 8 connections", connections: 8, is_encrypted: false, bar: 1.0 },
    Case { name: "plain, 64 connections", connections: 64, is_encrypted: false, bar: 1.0 },
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Peer {
    /// From the disk.
    Nginx,
    /// From the page cache.
    NginxCached,
    Qanat,
    /// It sleeps whenever there is nothing to do: what it takes of the processor is what it needs.
    Sleeping,
}

const PEERS: [Peer; 4] = [Peer::Nginx, Peer::NginxCached, Peer::Qanat, Peer::Sleeping];

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx",
            Peer::NginxCached => "nginx, from the page cache",
            Peer::Qanat => "qanat video",
            Peer::Sleeping => "qanat video --spin never",
        }
    }
}

/// Chunks as files and on a disk, a certificate, and nginx' settings.
struct Films(Scratch);

impl Films {
    fn create(options: &BenchOptions) -> Result<Films, HarnessError> {
        let films = Films(Scratch::create("video")?);
        let directory = films.0.path().display().to_string();
        let addresses = [SERVER_KERNEL.to_string(), OWN.to_string()];
        let cert = ["cert", &addresses[0], &addresses[1], "--to", &directory];
        start(&Spec::new("qanat cert", &options.program, &cert))?.output(PATIENCE)?;
        let folder = films.file("chunks");
        std::fs::create_dir(&folder).map_err(|error| HarnessError::system("make a directory of chunks", error))?;
        let mut random = Random::new(7);
        for chunk in 0..CHUNKS {
            let content: Vec<u8> = (0..CHUNK_BYTES.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).collect();
            films.0.write(&format!("chunks/{chunk}.m4s"), content.get(..CHUNK_BYTES).unwrap_or_default())?;
        }
        let disk = films.file("films.img");
        let add = ["video", "--disk", &disk, "add", &folder, "--size", "512M"];
        start(&Spec::new("qanat video add", &options.program, &add))?.output(PATIENCE)?;
        films.0.write("chunks.lua", SCRIPT)?;
        let server = |number: u16, more: &str| {
            let (encrypted, plain) = (443 + number, 80 + number);
            format!(
                "server {{ listen {SERVER_KERNEL}:{encrypted} ssl backlog=4096; listen {SERVER_KERNEL}:{plain} backlog=4096; \
                 root {directory}; {more} }}\n"
            )
        };
        let servers = server(0, "") + &server(1, "directio 512; aio threads; output_buffers 2 256k;");
        let configuration = nginx_settings(&directory, &servers);
        films.0.write("nginx.conf", configuration)?;
        Ok(films)
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

fn measure(
    options: &BenchOptions,
    topology: &Topology,
    films: &Films,
    (case, peer): (&Case, Peer),
) -> Result<Measured, HarnessError> {
    let (directory, settings, disk) = (films.file(""), films.file("nginx.conf"), films.file("films.img"));
    let (chain, key) = (films.file("certificate.pem"), films.file("key.pem"));
    let (scheme, first_port) = if case.is_encrypted { ("https", 443) } else { ("http", 80) };
    let mut own = vec!["video", "--disk", &disk, "--json"];
    if case.is_encrypted {
        own.extend(["--https", "--certificate", &chain, "--key", &key]);
    }
    if peer == Peer::Sleeping {
        own.extend(["--spin", "never"]);
    }
    let (spec, address, port) = match peer {
        Peer::Nginx | Peer::NginxCached => {
            let program = installed::find("nginx", "nginx-light")?;
            let words = ["-p", &directory, "-c", &settings, "-e", "stderr"];
            let spec = Spec::new("nginx", program, &words).placed(topology.server(), SERVER_CPU);
            (spec, SERVER_KERNEL, first_port + u16::from(peer == Peer::Nginx))
        }
        // Its card is where its client is, as users have it.
        Peer::Qanat | Peer::Sleeping => {
            let spec = Spec::new("qanat video", &options.program, &own).placed(topology.client(), SERVER_CPU);
            (spec, OWN, first_port)
        }
    };
    let mut server = listening(&spec, topology, SocketAddr::new(IpAddr::V4(address), port))?;
    let (script, url) = (films.file("chunks.lua"), format!("{scheme}://{address}:{port}"));
    let client = |duration: Duration| wrk_by_script(topology, case.connections, (&script, &url), duration);
    loaded(options, &mut server, client, wrk_figures)
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root, nginx or wrk, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("two processors are needed, one for the server, one for the load".to_owned()));
    }
    let cases = options.chosen(CASES.to_vec(), |case| case.name.to_owned())?;
    installed::find("wrk", "wrk")?;
    let mut environment = Environment::here();
    environment.peers = vec![
        format!("{}: 1 worker, records of 16 KiB; directio, aio threads, buffers of 256 KiB", nginx_version()?),
        "both: TLS 1.3, AES-128-GCM; the same 150 MB on the same disk".to_owned(),
    ];
    environment.link =
        format!("nginx: veth, MTU {MTU}, default offloads; qanat video: a card of its own, a TAP device");
    environment.pinning = format!("server on processor {SERVER_CPU}, client on {CLIENT_CPU}");
    let topology = Topology::new(MTU)?;
    progress("writing chunks");
    let films = Films::create(options)?;
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in &cases {
        let run = |peer: &Peer| measure(options, &topology, &films, (case, *peer));
        let runs = turns.play(case.name, &PEERS, |peer| peer.name(), run)?;
        rows.extend(case_rows((case.name, case.bar), &PEERS.map(Peer::name), &runs, &mut environment.warnings));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Chunks of 300 KB from a disk: qanat video and nginx, wrk on kernel sockets".to_owned(),
        command: options.repeat("sudo qanat bench video"),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(),
    })
}

/// Rates, then times.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Chunks a second", column: "requests_per_s", cases: "" },
        Quantity { title: "Time of the server's processor for a chunk, µs", column: "server_us", cases: "" },
    ];
    bars::chart(table, &quantities)
}
