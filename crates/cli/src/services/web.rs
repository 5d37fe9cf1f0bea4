//! `qanat web`: a directory, served from our own TCP.

mod rules;

use super::congestion;
use super::https::HttpsArguments;
use super::read_cache::{self, ReadCacheOf, ReadCachePolicy};
use super::serving::Serving;
use crate::host::application::{
    Announcement, Figures as HostFigures, Files, MetricsText, Period, Place, Rates, Requirements, StackPlace,
};
use crate::host::export::ExportArguments;
use crate::host::privilege::Privilege;
use crate::host::privilege::access::Need;
use crate::host::privilege::paths::served;
use crate::host::{self, Application, HostArguments};
use crate::live::grouped;
use crate::say;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use qanat::CongestionAlgorithm;
use qanat_nic::MemoryPlan;
use qanat_web::{Caching, CopyMode, Figures, WebConfig, WebService, metrics};
use rules::{RulesArguments, Sites};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time-outs are at most a day.
const SECONDS_MAX: u64 = 86_400;
/// Memory for ready frames that is taken if none is named: at least, and at most.
const FRAME_MEMORY_MIB: (u32, u32) = (4, 64);
/// Bytes of a file in one frame, without headers.
const FRAME_CONTENT_BYTES: u64 = 1_448;

/// Adds how many frames the files below a directory take. It stops when there are enough for the most that is taken anyway.
fn count_frames(directory: &Path, frames: &mut u64) {
    let enough = u64::from(FRAME_MEMORY_MIB.1) << 20 >> 11;
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if *frames >= enough {
            return;
        }
        // Links are not followed here: they may lead in circles.
        match entry.metadata() {
            Ok(about) if about.is_dir() => count_frames(&entry.path(), frames),
            Ok(about) if about.is_file() => *frames += 1 + about.len() / FRAME_CONTENT_BYTES,
            _ => {}
        }
    }
}

/// Serve a directory over HTTP
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat web ./site                              at http://10.77.0.2/, on a virtual interface of its own
  sudo qanat web ./site --interface eth1 --address 192.0.2.7/24 --gateway 192.0.2.1
  sudo qanat web ./site --interface eth1 --vlan 5 --address 10.5.0.7/24
  sudo qanat web ./site --interface eth1 --address 192.0.2.7/24 --ipv6 auto     an IPv6 address as routers say
  sudo qanat web ./site --placement split            its stack in another process, which it cannot harm
  qanat web ./site --placement kernel --port 8080    over the kernel's TCP/IP: without root, without a card
  sudo qanat web ./site --https                      at https://10.77.0.2/, with a certificate of its own
  sudo qanat web ./site --https --certificate fullchain.pem --key privkey.pem --hsts 31536000
  sudo qanat web ./site --host blog.example=./blog   a second site, by host name
  sudo qanat web ./site --config site.toml           rules and hosts from a file, read again on HUP
  qanat web ./site --config site.toml --check        what is wrong with it, if something is
  sudo qanat web ./app --fallback /index.html --error-page 503=/busy.html       an application of one page
  sudo qanat web ./site --redirect /old=/new --redirect '308:/blog/*=https://blog.example/*'
  sudo qanat web ./site --header 'X-Frame-Options: DENY' --header 'Permissions-Policy: camera=()'
  sudo qanat web ./site --compress --basic-auth '/admin/*=/etc/qanat/admin.users'     made by htpasswd -B
  sudo qanat web ./site --read-cache 1024            large files are kept in a GiB of its own memory, and sent from there
  sudo qanat web ./site --metrics 127.0.0.1:9465     figures for Prometheus
  sudo qanat web ./site --export                     figures as a file in /run/qanat/export/web
  sudo qanat web ./site --user www-data              served as that user (default: who called sudo, or nobody), without root's rights
Signals: INT, TERM: finish what is under way and stop. HUP: look at the files, rules and certificates again, reopen the log.
         USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause.")]
pub struct Arguments {
    /// Directory to serve
    directory: PathBuf,
    /// Port to listen on (default: 80; 443 with --https)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// How each segment gets its bytes: copies kept ready in device memory, or one copied at each sending
    #[arg(long, value_enum, default_value_t = Copy::Pre)]
    copy: Copy,
    /// Memory for content in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = count(1_048_576))]
    memory: usize,
    /// Memory for ready frames in MiB, locked (default: twice what the files need now, 4 to 64)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    frame_memory: Option<u32>,
    /// Who keeps what was read of large files (over 16 MiB, or a quarter of --memory): the kernel's page cache (kernel), nobody (none), or
    /// this server in so many MiB of its own. With none and MIB, files are read around the page cache (O_DIRECT)
    #[arg(long, value_name = "kernel|none|MIB", default_value = "kernel", value_parser = read_cache::parse)]
    read_cache: ReadCacheOf,
    /// Which pieces leave a read cache of this server
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = ReadCachePolicy::S3Fifo)]
    read_cache_policy: ReadCachePolicy,
    /// Prepare all content at start instead of at first request
    #[arg(long)]
    preload: bool,
    /// Write a log in combined format to this file
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// How congestion is controlled (default: cubic); bbr keeps its rate on paths that lose at random
    #[arg(long, value_name = "ALGORITHM", value_parser = congestion::parse)]
    congestion: Option<CongestionAlgorithm>,
    /// Serve files whose names begin with a dot
    #[arg(long)]
    hidden: bool,
    /// Open connections at most
    #[arg(long, value_name = "COUNT", default_value_t = 16_384, value_parser = count(1_048_576))]
    connections: usize,
    /// Open connections of one peer at most: an IPv4 address, or an IPv6 network of 64 bits; by default three quarters of all,
    /// and at least 64; 0: no limit
    #[arg(long, value_name = "COUNT")]
    connections_per_peer: Option<usize>,
    /// Requests a second of one peer, on average; beyond, they are answered with 429. 0: no limit
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    requests_per_peer: u32,
    /// Requests that a peer may make at once, when it made none for a while
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    requests_burst: u32,
    /// Seconds an unused connection is kept
    #[arg(long, value_name = "SECONDS", default_value_t = 75, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    idle_timeout: u64,
    /// Seconds a client may take for the head of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    head_timeout: u64,
    /// Seconds a client may take nothing of what it is owed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    send_timeout: u64,
    /// Bytes a second that a client must take of what it is owed, on average over the send timeout; 0: however few
    #[arg(long, value_name = "BYTES", default_value_t = 1_000)]
    send_rate_min: u32,
    /// Figures in Prometheus' format, at this address of the kernel's
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Read all that is configured, say what is wrong with it, and end
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    rules: RulesArguments,
    #[command(flatten)]
    https: HttpsArguments,
    #[command(flatten)]
    export: ExportArguments,
    #[command(flatten)]
    place: HostArguments,
}

/// Sandstorm's two variants.
#[derive(Clone, Copy, ValueEnum)]
enum Copy {
    Pre,
    PerSend,
}

impl Arguments {
    fn port(&self) -> u16 {
        self.https.port(self.port)
    }

    /// `serves_six`: over IPv6 too, or perhaps.
    fn config(&self, sites: &Sites, serves_six: bool) -> WebConfig {
        let mut config = WebConfig::new(&self.directory);
        config.rules.clone_from(&sites.rules);
        config.sites.clone_from(&sites.hosts);
        config.port = self.port();
        config.copy_mode = match self.copy {
            Copy::Pre => CopyMode::Pre,
            Copy::PerSend => CopyMode::PerSend,
        };
        // Ready frames must fit the longer header if IPv6 is served too.
        if serves_six {
            config.packet_overhead = 72;
        }
        config.memory_bytes_max = self.memory << 20;
        config.read_cache = match self.read_cache {
            ReadCacheOf::Kernel => Caching::Kernel,
            ReadCacheOf::Nobody => Caching::Nobody,
            ReadCacheOf::Own { mib } => Caching::Own { bytes: mib << 20, policy: self.read_cache_policy.kind() },
        };
        config.preload = self.preload;
        config.access_log.clone_from(&self.access_log);
        config.congestion = self.congestion;
        config.hidden_files = self.hidden;
        config.limits.requests_per_peer = self.requests_per_peer;
        config.limits.requests_burst = self.requests_burst;
        config.limits.connections_max = self.connections;
        config.limits.connections_per_peer = self.connections_per_peer.unwrap_or((self.connections / 4 * 3).max(64));
        config.limits.send_timeout = Duration::from_secs(self.send_timeout);
        config.limits.send_rate_min = self.send_rate_min;
        config.limits.idle_timeout = Duration::from_secs(self.idle_timeout);
        config.limits.head_timeout = Duration::from_secs(self.head_timeout);
        config
    }

    /// A small site is to start where there is little memory; files may be added while it is served.
    fn frame_memory_mib(&self, sites: &Sites) -> u32 {
        self.frame_memory.unwrap_or_else(|| {
            let mut frames = 0;
            for directory in self.roots(sites) {
                count_frames(directory, &mut frames);
            }
            let bytes = 2 * frames * u64::from(MemoryPlan::frame_size_for(1_500));
            u32::try_from(bytes >> 20).unwrap_or(u32::MAX).clamp(FRAME_MEMORY_MIB.0, FRAME_MEMORY_MIB.1)
        })
    }

    fn roots<'a>(&'a self, sites: &'a Sites) -> impl Iterator<Item = &'a PathBuf> {
        std::iter::once(&self.directory).chain(sites.hosts.iter().map(|site| &site.root))
    }
}

/// A number from 1 to `most`.
fn count(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Reads all that is configured.
fn check(arguments: &Arguments) -> Result<(), String> {
    let serving = Serving::new(&arguments.https, None)?;
    let sites = arguments.rules.sites()?;
    let hosts = sites.hosts.len();
    let mut config = arguments.config(&sites, false);
    // It would be made.
    config.access_log = None;
    config.https = serving.https(&arguments.https, &[])?;
    WebService::new(config).map_err(|error| error.to_string())?;
    let directory = arguments.directory.display();
    let text = format!("{directory} can be served as it is configured, and {hosts} more hosts.");
    let fields = json!({ "event": "checked", "directory": directory.to_string(), "hosts": hosts });
    say::done(arguments.place.json, &fields, &text);
    Ok(())
}

/// Runs the server until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    if arguments.check {
        return check(arguments);
    }
    host::run(&arguments.place, || {
        // What can be wrong with the content is said before anything is made.
        std::fs::read_dir(&arguments.directory).map_err(|error| {
            format!("{}: {error}; name a directory that this user may read", arguments.directory.display())
        })?;
        let serving = Serving::new(&arguments.https, arguments.access_log.as_ref())?;
        if arguments.https.is_self_signed() && arguments.place.placement.app_cores > 1 {
            return Err("--app-cores with --https needs --certificate and --key, because all processes are to show the same one: \
                        `qanat cert` makes one"
                .to_owned());
        }
        let sites = Arc::new(Mutex::new(arguments.rules.sites()?));
        Ok(Web { arguments, serving, sites })
    })
}

/// The server, as the host knows it.
struct Web<'a> {
    arguments: &'a Arguments,
    serving: Serving,
    /// As they were read last.
    sites: Arc<Mutex<Sites>>,
}

impl Web<'_> {
    fn sites(&self) -> Sites {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Application for Web<'_> {
    type Service = WebService;
    type Figures = Figures;

    const NAME: &'static str = "web";
    const IS_PUBLIC: bool = true;
    const TELLS_PLACE: bool = true;

    fn requirements(&self) -> Requirements {
        let ports = self.arguments.https.ports(self.arguments.port);
        let Arguments { connections, metrics, .. } = *self.arguments;
        Requirements { connections_max: Some(connections), metrics, ..Requirements::new(ports) }
    }

    fn prepared_frames(&self, frame_size: u32) -> u32 {
        match self.arguments.copy {
            // What is sealed is of one connection: no ready frame serves another.
            Copy::Pre if self.arguments.https.https => 0,
            Copy::Pre => (self.arguments.frame_memory_mib(&self.sites()) << 20) / frame_size,
            Copy::PerSend => 0,
        }
    }

    fn files(&self) -> Files {
        let Web { arguments, serving, .. } = self;
        let sites = &self.sites();
        let trees = arguments.roots(sites).map(|root| Need::Tree(root.clone(), arguments.hidden));
        let needs = trees.chain(serving.needs()).chain(sites.needs(&arguments.rules));
        let (read, write) = serving.places();
        let read = read.into_iter().chain(sites.places(&arguments.rules));
        let read = arguments.roots(sites).flat_map(|root| served(root)).chain(read);
        Files::new(needs.collect(), read.collect(), write)
    }

    fn export(&self) -> Option<&ExportArguments> {
        Some(&self.arguments.export)
    }

    /// The log, and the keys. All else that is read and written, is by who goes on.
    fn open(&mut self, privilege: &Privilege) -> Result<(), String> {
        self.serving.open(privilege)
    }

    fn service(&self, place: &Place) -> Result<WebService, String> {
        let mut config = self.arguments.config(&self.sites(), place.serves_six);
        if place.stack != StackPlace::Linked {
            // There are no ready frames elsewhere.
            config.copy_mode = CopyMode::PerSend;
        }
        config.https = self.serving.https(&self.arguments.https, &place.addresses)?;
        self.serving.runs(WebService::new(config))
    }

    fn doorbell(service: &WebService) -> Option<(BorrowedFd<'_>, &'static str)> {
        Some((service.doorbell_fd(), "files"))
    }

    fn reload(&self) -> Option<Box<dyn FnMut() + Send>> {
        let (rules, now) = (self.arguments.rules.clone(), Arc::clone(&self.sites));
        Some(self.serving.reload(move |service| rules.set(service, &now)))
    }

    fn notes(service: &mut WebService) -> Vec<String> {
        service.take_notes()
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let directory = self.arguments.directory.display();
        let urls = self.arguments.https.urls(self.arguments.port, &place.addresses);
        Announcement {
            json: json!({
                "event": "serving", "urls": urls, "directory": directory.to_string(),
                "interface": place.interface, "driver": place.driver,
            }),
            lines: vec![format!("Serving {directory} at {}  (Ctrl-C stops)", urls.join(" "))],
        }
    }

    fn figures(service: &mut WebService) -> Figures {
        service.figures()
    }

    fn rates(period: &Period<'_, Figures>) -> Rates {
        let requests_per_s = period.rate(|figures| figures.requests);
        let gbit_per_s = period.rate(|figures| figures.bytes_acknowledged) * 8e-9;
        let figures = period.now;
        let lost = match figures.log_drops {
            0 => String::new(),
            lost => format!("  {} lines of the access log lost", grouped(lost)),
        };
        let cached = read_cache::text(&figures.read_cache);
        Rates {
            json: json!({ "requests_per_s": requests_per_s, "gbit_per_s": gbit_per_s }),
            text: format!(
                "{} requests/s  {gbit_per_s:.2} Gbit/s  {} open  {} requests  {} errors{cached}{lost}",
                grouped(requests_per_s as u64),
                grouped(figures.connections_open),
                grouped(figures.requests),
                grouped(figures.responses[3] + figures.responses[4]),
            ),
            is_busy: requests_per_s > 0.0,
        }
    }

    fn json(figures: &Figures) -> Value {
        json!(figures)
    }

    fn metrics(&self) -> Option<MetricsText<Figures>> {
        Some(Box::new(|figures| metrics::text(Web::NAME, figures)))
    }

    fn summary(all: &Figures, _each: &[Figures]) -> Vec<String> {
        let served = format!(
            "Served {} requests on {} connections, {} bytes.",
            grouped(all.requests),
            grouped(all.connections_accepted),
            grouped(all.bytes_acknowledged),
        );
        let lost = (all.log_drops > 0).then(|| {
            format!("{} lines of the access log could not be written: is its file system full?", grouped(all.log_drops))
        });
        [served].into_iter().chain(read_cache::summary(&all.read_cache)).chain(lost).collect()
    }
}

impl HostFigures for Figures {
    /// What is held now is held by the newer one.
    fn add(&mut self, newer: &Figures) {
        *self = newer.after(self);
    }

    fn end(&mut self) {
        self.connections_open = 0;
    }
}
