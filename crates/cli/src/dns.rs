//! `qanat dns`: zones, answered from ready-made packets.

mod instances;
mod split;

use crate::addresses::AddressWatch;
use crate::app_cores;
use crate::attach::AttachArguments;
use crate::live::{Printer, grouped};
use crate::placement::PlacementArguments;
use crate::report::stack_report;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use instances::{Control, Done, Plan, sum};
use qanat::nic::af_xdp::PortRange;
use qanat::{PROTOCOL_TCP, PROTOCOL_UDP, RuntimeOptions, entropy};
use qanat_dns::image::{Catalog, ZoneImage};
use qanat_dns::name::Name;
use qanat_dns::service::metrics::{self, SharedFigures};
use qanat_dns::service::{CatalogPublisher, Figures, FileConfig, ZoneFile};
use qanat_dns::transfer::{PORTS, TransferConfig, Transfers, Versions, kept};
use qanat_dns::zone::parse::{Progress, guess_apex, read_file};
use qanat_dns::zone::{Problem, Zone, check};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Answer for zones: an authoritative name server
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  sudo qanat dns --zone example.com=./example.com.zone          at 10.77.0.2:53, UDP and TCP, on an interface of its own
  sudo qanat dns --zone example.com=a.zone --zone example.net=b.zone --interface eth1 --address 192.0.2.7/24
  sudo qanat dns --config dns.toml --metrics 127.0.0.1:9153     zones, limits and log from a file, figures for Prometheus
  sudo qanat dns --zone example.com=a.zone --queues 2           two threads, a queue of the card each
  sudo qanat dns --zone example.com=a.zone --placement split    its stack in another process, which it cannot harm
  qanat dns check ./example.com.zone                            what is wrong with a zone, and what to do about it
A file, all of it optional (names of files start at its directory):
  identity = \"ns1\"                                            NSID and id.server; version = … for version.bind
  udp_payload_max = 1232
  metrics = \"127.0.0.1:9153\"
  zone = [{ name = \"example.com\", file = \"example.com.zone\" }]
  [tcp]         connections_max = 4096 (of each queue), connections_per_peer = a quarter of them, idle_timeout_s = 10,
                send_rate_min = 1000 (bytes a second that a client must take of its answers)
  [rate_limit]  answers_per_s = 0 (off; of each queue), slip = 2, ipv4_prefix = 24, ipv6_prefix = 56, exempt = [\"192.0.2.1\"]
  [cookies]     secret = \"32 hexadecimal digits\", former = [], off = false
  [log]         file = \"queries.json\", sample_every = 100
  [[key]]       name = \"transfer.example.com\", algorithm = \"hmac-sha256\", secret = \"base 64\": as `keymgr -t` makes it
  [[zone]]      name = \"example.com\", file = \"example.com.zone\", allow_transfer = [\"192.0.2.0/24\",
                \"key:transfer.example.com\"], also_notify = [\"192.0.2.9\", \"192.0.2.10:5353 key:transfer.example.com\"]
  [[zone]]      name = \"example.net\", primary = [\"192.0.2.9 key:transfer.example.com\"]: a secondary, without a file
Signals: INT, TERM: answer what is here and stop. HUP: read the zones again; answers go on from the old ones meanwhile.
         USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<DnsCommand>,
    #[command(flatten)]
    serve: ServeArguments,
}

#[derive(Subcommand)]
enum DnsCommand {
    Check(CheckArguments),
}

/// Serving.
#[derive(Args)]
struct ServeArguments {
    /// A zone and its master file; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_zone, required_unless_present = "config")]
    zone: Vec<ZoneFile>,
    /// Zones, limits, log and all else from a file (see below); what is given here comes on top
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Port (53)
    #[arg(long)]
    port: Option<u16>,
    /// Name of this server, for NSID and id.server
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
    /// Look names up as text copied out of the question instead of in place: to measure the difference
    #[arg(long)]
    text_index: bool,
    /// Figures in Prometheus' format, at this address of the kernel's
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Packets taken from the device at once, at most
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    batch: u16,
    /// Queues of the card, each answered by a thread of its own; limits of connections and rate are each queue's. Zones
    /// with a primary need one queue
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: u16,
    #[command(flatten)]
    attach: AttachArguments,
    #[command(flatten)]
    placement: PlacementArguments,
    /// Figures as JSON, a line each second
    #[arg(long)]
    json: bool,
}

/// Read a zone, and say what is wrong with it
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat dns check example.com.zone                    the zone's name is the SOA record's
  qanat dns check db.example --name example.com       or given, where the file leaves it open
Exit code 1 if the zone cannot be served; warnings alone are no failure.")]
struct CheckArguments {
    /// Master file
    file: PathBuf,
    /// The zone's name, if the file does not say
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<Name>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn parse_name(text: &str) -> Result<Name, String> {
    Name::absolute(text).map_err(|error| error.to_string())
}

fn parse_zone(text: &str) -> Result<ZoneFile, String> {
    let (name, path) = text.split_once('=').ok_or("write it as NAME=FILE, as in example.com=./example.com.zone")?;
    Ok(ZoneFile { apex: parse_name(name)?, path: path.into() })
}

/// A progress bar on standard error, if that is a terminal.
fn progress_bar(what: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {percent}% {eta}").expect("the template is constant");
    bar.set_style(style.progress_chars("=> "));
    bar.set_message(what.to_owned());
    bar
}

/// Reads a zone with a bar that shows how far it is.
fn read(apex: &Name, path: &Path) -> Result<(Zone, Vec<Problem>), Vec<Problem>> {
    let bar = progress_bar("reading");
    let mut report = |progress: Progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes);
    };
    let outcome = read_file(apex, path, &mut report);
    bar.finish_and_clear();
    outcome.map_err(|error| error.0)
}

fn compile(zone: &Zone) -> Result<ZoneImage, String> {
    let bar = progress_bar("compiling");
    bar.set_length(zone.record_count() as u64);
    let outcome = ZoneImage::compile(zone, &mut |records| bar.set_position(records));
    bar.finish_and_clear();
    outcome.map_err(|error| format!("{}: {error}", zone.apex()))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.command {
        Some(DnsCommand::Check(arguments)) => run_check(arguments),
        None => serve(&arguments.serve),
    }
}

fn run_check(arguments: &CheckArguments) -> Result<(), String> {
    let path = &arguments.file;
    let apex = match &arguments.name {
        Some(name) => name.clone(),
        None => guess_apex(path).ok_or_else(|| {
            format!("{}: there is no telling which zone it is; give its name with --name", path.display())
        })?,
    };
    let started = Instant::now();
    let (zone, mut problems) = match read(&apex, path) {
        Ok(outcome) => outcome,
        Err(problems) => {
            print_check(arguments, &apex, None, &problems);
            return Err(format!("{}: the zone {apex} cannot be served", path.display()));
        }
    };
    let reading = started.elapsed();
    problems.extend(check::check(&zone));
    let started = Instant::now();
    let image = compile(&zone)?;
    let figures = CheckFigures { reading, compiling: started.elapsed(), zone: &zone, image: &image };
    print_check(arguments, &apex, Some(&figures), &problems);
    Ok(())
}

struct CheckFigures<'a> {
    reading: Duration,
    compiling: Duration,
    zone: &'a Zone,
    image: &'a ZoneImage,
}

fn print_check(arguments: &CheckArguments, apex: &Name, figures: Option<&CheckFigures<'_>>, problems: &[Problem]) {
    if arguments.json {
        let problems: Vec<serde_json::Value> = problems
            .iter()
            .map(|problem| {
                serde_json::json!({
                    "file": problem.place.file.as_ref().map(|file| file.display().to_string()),
                    "line": problem.place.line,
                    "kind": if problem.is_warning { "warning" } else { "error" },
                    "message": problem.message,
                })
            })
            .collect();
        let mut report =
            serde_json::json!({ "zone": apex.to_string(), "usable": figures.is_some(), "problems": problems });
        if let Some(figures) = figures {
            report["serial"] = figures.zone.serial().into();
            report["names"] = figures.image.name_count().into();
            report["records"] = figures.zone.record_count().into();
            report["image_bytes"] = figures.image.memory_bytes().into();
            report["reading_s"] = figures.reading.as_secs_f64().into();
            report["compiling_s"] = figures.compiling.as_secs_f64().into();
        }
        println!("{report}");
        return;
    }
    for problem in problems {
        println!("{problem}");
    }
    if let Some(figures) = figures {
        println!(
            "{apex} serial {}: {} names, {} records; image {:.1} MiB; read in {:.2} s, compiled in {:.2} s",
            figures.zone.serial(),
            grouped(figures.image.name_count() as u64),
            grouped(figures.zone.record_count() as u64),
            figures.image.memory_bytes() as f64 / f64::from(1 << 20),
            figures.reading.as_secs_f64(),
            figures.compiling.as_secs_f64(),
        );
    }
}

/// Reads and compiles every zone; warnings go to standard error.
fn load(sources: &Sources) -> Result<Vec<Arc<ZoneImage>>, String> {
    let mut images = Vec::with_capacity(sources.files.len());
    let mut records = Vec::new();
    for zone in &sources.files {
        let (read, problems) = read(&zone.apex, &zone.path).map_err(|problems| {
            let mut text: Vec<String> =
                problems.iter().filter(|problem| !problem.is_warning).take(5).map(Problem::to_string).collect();
            text.push(format!("`qanat dns check {}` lists everything", zone.path.display()));
            text.join("\n")
        })?;
        for problem in problems {
            eprintln!("qanat: {problem}");
        }
        let image = compile(&read)?;
        images.push(Arc::new(if sources.text_index { image.with_text_index() } else { image }));
        if sources.transfers.zone(&zone.apex.to_lowercase()).is_some() {
            records.push(Arc::new(read));
        }
    }
    // None unless all are good. Before they are served: who asks for a change told of must find it.
    records.into_iter().for_each(|zone| sources.versions.put(zone));
    Ok(images)
}

/// The zones of other servers, as they were kept. One that is of no use is told of, and will be fetched anew.
fn kept_images(sources: &Sources) -> Vec<Arc<ZoneImage>> {
    let mut images = Vec::new();
    for (apex, transfers) in sources.transfers.zones.iter().filter(|(_, transfers)| !transfers.primaries.is_empty()) {
        let Some(path) = &transfers.file else { continue };
        match kept::load(path, apex) {
            Ok(None) => {}
            Ok(Some(zone)) => match compile(&zone) {
                Ok(image) => {
                    images.push(Arc::new(image));
                    sources.versions.put(Arc::new(zone));
                }
                Err(error) => eprintln!("qanat: {}: {error}", path.display()),
            },
            Err(error) => eprintln!("qanat: {error}"),
        }
    }
    images
}

/// Where zones come from.
#[derive(Clone)]
struct Sources {
    files: Vec<ZoneFile>,
    transfers: TransferConfig,
    /// Those that are transferred, as they are transferred.
    versions: Versions,
    /// Names are looked up as text.
    text_index: bool,
}

/// Sixteen unpredictable bytes.
fn random() -> Result<[u8; 16], String> {
    let bytes = entropy().map_err(|error| format!("no entropy: {error}"))?;
    Ok(bytes.first_chunk().copied().unwrap_or_default())
}

impl ServeArguments {
    fn file_config(&self) -> Result<FileConfig, String> {
        let mut config = match &self.config {
            Some(path) => FileConfig::read(path, random()?).map_err(|error| error.to_string())?,
            None => FileConfig::with_cookies(random()?),
        };
        config.zones.extend(self.zone.iter().cloned());
        let transferred = config.dns.transfers.zones.values().any(|zone| !zone.primaries.is_empty());
        if config.zones.is_empty() && !transferred {
            return Err("no zones: give one with --zone NAME=FILE, or in the file".to_owned());
        }
        config.dns.port = self.port.unwrap_or(config.dns.port);
        if let Some(identity) = &self.identity {
            config.dns.settings.identity = identity.clone().into_bytes();
        }
        config.metrics = self.metrics.or(config.metrics);
        Ok(config)
    }
}

/// A server, but for its cards.
struct Prepared {
    file: FileConfig,
    sources: Sources,
    publisher: CatalogPublisher,
    /// The first instance's.
    transfers: Option<Transfers>,
    /// What it needs of an address.
    services: Vec<PortRange>,
    figures: SharedFigures,
}

impl Prepared {
    /// What can be wrong with the zones is said before anything is made.
    fn new(arguments: &ServeArguments) -> Result<Prepared, String> {
        let mut file = arguments.file_config()?;
        let transfers = file.dns.transfers.clone();
        let sources = Sources {
            files: std::mem::take(&mut file.zones),
            transfers: transfers.clone(),
            versions: Versions::default(),
            text_index: arguments.text_index,
        };
        let zones = load(&sources)?.into_iter().chain(kept_images(&sources));
        let publisher = CatalogPublisher::new(Catalog::new(zones).with_missing(transfers.secondaries()));
        let port = file.dns.port;
        let range = |protocol| PortRange { protocol, first: port, last: port };
        let mut services = vec![range(PROTOCOL_UDP), range(PROTOCOL_TCP)];
        let mut first_transfers = None;
        if !transfers.is_empty() {
            let transfers = Transfers::new(transfers, sources.versions.clone(), &publisher)?;
            if arguments.queues > 1 && transfers.fetches() {
                return Err(
                    "a zone that has a primary needs one queue: what the primary answers may come by any, and each \
                            is a stack of its own; leave out --queues, or have such zones served by another qanat dns"
                        .to_owned(),
                );
            }
            if transfers.fetches() {
                services.push(PortRange { protocol: PROTOCOL_TCP, first: *PORTS.start(), last: *PORTS.end() });
            }
            first_transfers = Some(transfers);
        }
        let figures = SharedFigures::default();
        Ok(Prepared { file, sources, publisher, transfers: first_transfers, services, figures })
    }

    /// Figures for Prometheus, and signals.
    fn watch(&mut self, control: &Control) -> Result<(), String> {
        if let Some(address) = self.file.metrics {
            let publisher = self.publisher.clone();
            metrics::serve(address, Arc::clone(&self.figures), move || publisher.latest())
                .map_err(|error| format!("metrics at {address}: {error}; choose an address of the kernel's"))?;
        }
        handle_signals(control.clone(), self.publisher.clone(), self.sources.clone())
    }
}

fn serve(arguments: &ServeArguments) -> Result<(), String> {
    let mut prepared = Prepared::new(arguments)?;
    if arguments.placement.app_cores > 1 {
        return app_cores::run(&arguments.placement, &arguments.attach, &prepared.services);
    }
    if arguments.placement.is_split() {
        return split::serve(arguments, prepared);
    }
    let queues = u32::from(arguments.queues);
    let attachment = arguments.attach.open_queues(std::mem::take(&mut prepared.services), queues)?;
    let control = Control::new(queues)?;
    prepared.watch(&control)?;
    let printer = Printer::new(arguments.json);
    let mut meter = Meter::new();
    let mut watch = AddressWatch::new(&attachment.addresses());
    let Prepared { file, publisher, transfers, figures, .. } = prepared;
    let plan = Plan {
        attachment: &attachment,
        publisher: &publisher,
        config: &file.dns,
        batch: arguments.batch.into(),
        options: RuntimeOptions { spin: arguments.attach.spin.into(), ..RuntimeOptions::default() },
        secret: random()?,
        control: control.clone(),
    };
    let place = (attachment.addresses(), attachment.interface(), attachment.driver());
    let ready = || announce(&printer, file.dns.port, &publisher.latest(), place);
    let outcome = plan.run(transfers, ready, |look| {
        let now = sum(&look.done).dns;
        *figures.lock().unwrap_or_else(PoisonError::into_inner) = now;
        meter.show(&printer, &now, &look.done);
        look.messages.iter().for_each(|text| say(&printer, text));
        watch.show(&printer, look.runtime);
        if look.report {
            // By a thread of its own: standard error may block, the data path must not.
            let head = if queues > 1 { "queue 0:\n" } else { "" };
            let text = metrics::text(&now, &publisher.latest()) + head + &stack_report(look.runtime, Some(&attachment));
            std::thread::spawn(move || eprint!("{text}"));
        }
    });
    outcome.iter().flatten().for_each(|text| say(&printer, text));
    finish(&printer, &control.done());
    outcome.map(drop)
}

/// Something about transfers.
fn say(printer: &Printer, text: &str) {
    printer.lasting(match printer.is_json() {
        true => serde_json::json!({ "event": "transfer", "text": text }).to_string(),
        false => text.to_owned(),
    });
}

/// INT and TERM stop gracefully, a second time at once; HUP reads the zones again, on this thread.
fn handle_signals(control: Control, publisher: CatalogPublisher, sources: Sources) -> Result<(), String> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1]).map_err(|error| format!("handling signals: {error}"))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                match load(&sources) {
                    Ok(images) => {
                        // Zones of other servers stay.
                        publisher.update(|catalog| catalog.with(images));
                        eprintln!("qanat: the zones are read again");
                    }
                    Err(error) => eprintln!("qanat: the zones stay as they were: {error}"),
                }
            } else if signal == SIGUSR1 {
                control.report();
            } else if !control.stop() {
                std::process::exit(128 + signal);
            }
        }
    });
    Ok(())
}

/// `place`: addresses, interface, driver.
fn announce(printer: &Printer, port: u16, catalog: &Catalog, place: (Vec<IpAddr>, &str, &str)) {
    let (addresses, interface, driver) = place;
    let addresses: Vec<String> = addresses.iter().map(|address| SocketAddr::new(*address, port).to_string()).collect();
    if printer.is_json() {
        let zones: Vec<serde_json::Value> = catalog
            .zones()
            .iter()
            .map(|zone| {
                serde_json::json!({
                    "name": zone.apex().to_string(), "serial": zone.serial(), "names": zone.name_count(),
                    "records": zone.record_count(), "image_bytes": zone.memory_bytes(),
                })
            })
            .collect();
        let line = serde_json::json!({
            "event": "serving", "addresses": addresses, "zones": zones,
            "interface": interface, "driver": driver,
        });
        printer.lasting(line.to_string());
        return;
    }
    for zone in catalog.zones() {
        printer.lasting(format!(
            "{} serial {}: {} names, {} records, {:.1} MiB",
            zone.apex(),
            zone.serial(),
            grouped(zone.name_count() as u64),
            grouped(zone.record_count() as u64),
            zone.memory_bytes() as f64 / f64::from(1 << 20),
        ));
    }
    printer.lasting(format!("Answering at {}  (Ctrl-C stops)", addresses.join(" ")));
}

/// Turns counters into rates.
struct Meter {
    before: Figures,
    at: Instant,
}

impl Meter {
    fn new() -> Meter {
        Meter { before: Figures::default(), at: Instant::now() }
    }

    fn show(&mut self, printer: &Printer, figures: &Figures, instances: &[Done]) {
        let elapsed_s = self.at.elapsed().as_secs_f64().max(1e-3);
        let answers_per_s = (figures.answers - self.before.answers) as f64 / elapsed_s;
        if printer.is_json() {
            let mut line = serde_json::json!({ "event": "figures", "answers_per_s": answers_per_s, "dns": figures });
            add_queues(&mut line, instances);
            printer.live(line.to_string());
        } else if answers_per_s > 0.0 || self.before == Figures::default() {
            printer.live(format!(
                "{} answers/s  {} requests  {} truncated  {} limited  {} open",
                grouped(answers_per_s as u64),
                grouped(figures.requests),
                grouped(figures.truncated),
                grouped(figures.limited),
                grouped(figures.connections_open),
            ));
        }
        self.before = *figures;
        self.at = Instant::now();
    }
}

/// Of each queue, if there are several.
fn add_queues(line: &mut serde_json::Value, instances: &[Done]) {
    if instances.len() > 1 {
        line["queues"] = instances.iter().map(|done| serde_json::json!(done.dns)).collect();
    }
}

fn finish(printer: &Printer, instances: &[Done]) {
    let Done { dns: figures, transfers } = sum(instances);
    if printer.is_json() {
        let mut line = serde_json::json!({ "event": "stopped", "dns": figures, "transfers": transfers });
        add_queues(&mut line, instances);
        printer.last(line.to_string());
        return;
    }
    printer.last(format!(
        "Answered {} of {} requests, {} bytes.",
        grouped(figures.answers),
        grouped(figures.requests),
        grouped(figures.answer_bytes),
    ));
    if instances.len() > 1 {
        let each: Vec<String> = instances.iter().map(|done| grouped(done.dns.answers)).collect();
        printer.last(format!("By queue: {}.", each.join("  ")));
    }
}
