//! `qanat dns`: zones, answered from ready-made packets.

mod ask;
mod check;
mod control;
mod instances;
mod reading;
mod split;
mod zones;

use crate::host::addresses::AddressWatch;
use crate::host::app_cores;
use crate::host::attach::AttachArguments;
use crate::host::card::{self, Card, Failure};
use crate::host::placement::PlacementArguments;
use crate::host::privilege::access::Need;
use crate::host::privilege::paths::directory_of;
use crate::host::privilege::{Privilege, PrivilegeArguments};
use crate::host::report::stack_report;
use crate::live::{Printer, grouped};
use crate::log;
use crate::signals::{Signals, hangups};
use ask::{RefreshArguments, ReloadArguments, StatusArguments};
use check::CheckArguments;
use clap::{Args, Subcommand};
use control::Door;
use instances::{Control, Done, Plan, sum};
use qanat::confine::Places;
use qanat::nic::af_xdp::PortRange;
use qanat::{PROTOCOL_TCP, PROTOCOL_UDP, RuntimeOptions, entropy};
use qanat_dns::image::Catalog;
use qanat_dns::name::Name;
use qanat_dns::service::metrics::{self, SharedFigures};
use qanat_dns::service::{Figures, FileConfig, ZoneFile, ZoneRules};
use qanat_dns::transfer::{PORTS, Transfers};
use reading::parse_name;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use zones::Zones;

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
  sudo qanat dns --config dns.toml --user dns                   as that user (default: who called sudo, or nobody), without
                                                                root's rights: it must be able to read zones and keys
  sudo qanat dns --zone example.com=a.zone --placement split    its stack in another process, which it cannot harm
  qanat dns check ./example.com.zone                            what is wrong with a zone, and what to do about it
  qanat dns status; qanat dns reload; qanat dns refresh example.net          what a running server does, and what it should
A file, all of it optional (names of files start at its directory):
  identity = \"ns1\"                                            NSID and id.server; version = … for version.bind
  udp_payload_max = 1232
  metrics = \"127.0.0.1:9153\"
  control = \"/run/dns.sock\"                                   for status, reload and refresh
  include = [\"zones.d\", \"more.toml\"]                          keys, templates and zones; of a directory each *.toml
  zone = [{ name = \"example.com\", file = \"example.com.zone\" }]
  [tcp]         connections_max = 4096 (of each queue), connections_per_peer = a quarter of them, idle_timeout_s = 10,
                send_rate_min = 1000 (bytes a second that a client must take of its answers)
  [rate_limit]  answers_per_s = 0 (off; of each queue), slip = 2, ipv4_prefix = 24, ipv6_prefix = 56, exempt = [\"192.0.2.1\"]
  [cookies]     secret = \"32 hexadecimal digits\", former = [], off = false
  [log]         file = \"queries.json\", sample_every = 100
  [[key]]       name = \"transfer.example.com\", algorithm = \"hmac-sha256\", secret = \"base 64\": as `keymgr -t` makes it
  [[template]]  name = \"default\", file = \"zones/%s.zone\": what a zone leaves open, which may name another template; %s is its name
  [[zone]]      name = \"example.com\", file = \"example.com.zone\", allow_transfer = [\"192.0.2.0/24\",
                \"key:transfer.example.com\"], also_notify = [\"192.0.2.9\", \"192.0.2.10:5353 key:transfer.example.com\"]
  [[zone]]      name = \"example.net\", primary = [\"192.0.2.9 key:transfer.example.com\"], file = \"example.net.copy\": a secondary.
                The file is the server's own: each version that comes is written to it, and after a restart the zone is served from
                it until a primary answers, or the zone expires. Without a file it is fetched anew, and SERVFAIL until it is there
  [[zone]]      name = \"catalog.example\", primary = [\"192.0.2.9\"], catalog = [\"members\"]: a catalog zone (RFC 9432). The zones
                it lists are served by the template \"members\"; those of a group by the template of that name, if it is in the list
A zone that cannot be used is told of, with file and line, and answered with SERVFAIL, or as it was before; all others are served.
Signals: INT, TERM: answer what is here and stop. HUP: read the configuration and the zones again, add and remove zones; answers
         go on from the old ones meanwhile.
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
    Status(StatusArguments),
    Reload(ReloadArguments),
    Refresh(RefreshArguments),
}

/// Serving.
#[derive(Args, Clone)]
struct ServeArguments {
    /// A zone and its master file; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_zone, required_unless_present = "config")]
    zone: Vec<ZoneFile>,
    /// Zones, limits, log and all else from a file (see below); what is given here comes on top
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Port (53)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
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
    /// Where `qanat dns status`, `reload` and `refresh` find this server (default: a socket of this process's in the user's
    /// run-time directory)
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
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
    #[command(flatten)]
    privilege: PrivilegeArguments,
    /// Figures as JSON, a line each second
    #[arg(long)]
    json: bool,
}

fn parse_zone(text: &str) -> Result<ZoneFile, String> {
    let (name, path) = text.split_once('=').ok_or("write it as NAME=FILE, as in example.com=./example.com.zone")?;
    Ok(ZoneFile { apex: parse_name(name)?, path: path.into() })
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.command {
        Some(DnsCommand::Check(arguments)) => check::run(arguments),
        Some(DnsCommand::Status(arguments)) => ask::status(arguments),
        Some(DnsCommand::Reload(arguments)) => ask::reload(arguments),
        Some(DnsCommand::Refresh(arguments)) => ask::refresh(arguments),
        None => serve(&arguments.serve),
    }
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
        self.zone.iter().for_each(|zone| config.zones.add_file(zone));
        if config.zones.is_empty() {
            return Err("no zones: give one with --zone NAME=FILE, or in the file".to_owned());
        }
        config.dns.port = self.port.unwrap_or(config.dns.port);
        if let Some(identity) = &self.identity {
            config.dns.settings.identity = identity.clone().into_bytes();
        }
        config.metrics = self.metrics.or(config.metrics);
        config.control = self.control.clone().or(config.control);
        Ok(config)
    }

    /// The zones of the configuration as it is now. All else takes effect when a server starts: `fixed` is how it was then.
    fn rules(&self, fixed: &str) -> Result<ZoneRules, String> {
        let config = self.file_config()?;
        if config.fixed != fixed {
            log::warning!(
                "reload",
                "what the file says beside zones, keys and templates has changed: restart the server for that"
            );
        }
        if self.queues > 1 && config.zones.may_fetch() {
            return Err(ONE_QUEUE.to_owned());
        }
        Ok(config.zones)
    }
}

const ONE_QUEUE: &str = "a zone that has a primary needs one queue: what the primary answers may come by any, and each is a \
                         stack of its own; leave out --queues, or have such zones served by another qanat dns";

/// A server, but for its cards.
struct Prepared {
    file: FileConfig,
    zones: Zones,
    /// What it needs of an address.
    services: Vec<PortRange>,
    figures: SharedFigures,
    arguments: ServeArguments,
    /// What it goes on needing of the file system.
    files: Files,
    privilege: Privilege,
    /// Where figures can be fetched.
    metrics: Cell<Option<TcpListener>>,
    /// Where it can be asked.
    door: Option<Door>,
}

/// Files of a server.
struct Files {
    /// Whether it can be used by who goes on.
    needs: Vec<Need>,
    places: Places,
}

impl Files {
    fn of(arguments: &ServeArguments, file: &FileConfig, rules: &ZoneRules) -> Files {
        let read = file.files.iter().cloned().chain(rules.files().into_iter().map(|zone| zone.path)).map(Need::Read);
        let log = file.dns.log.iter().map(|log| Need::Append(log.file.clone()));
        let needs = read.chain(rules.copies().into_iter().map(Need::Replace)).chain(log).collect();
        let zones = arguments.zone.iter().map(|zone| directory_of(&zone.path));
        // What a configuration names when it is read again can be anywhere.
        let all = arguments.config.is_some().then(|| PathBuf::from("/"));
        let logs = file.dns.log.iter().map(|log| directory_of(&log.file));
        let write = rules.directories_of_copies().into_iter().chain(logs).collect();
        Files { needs, places: Places { read: zones.chain(all).collect(), write } }
    }
}

impl Prepared {
    /// What can be wrong with the zones is said before anything is made.
    fn new(arguments: &ServeArguments) -> Result<Prepared, String> {
        let mut file = arguments.file_config()?;
        let rules = std::mem::take(&mut file.zones);
        if arguments.queues > 1 && rules.may_fetch() {
            return Err(ONE_QUEUE.to_owned());
        }
        let rules_for_files = rules.clone();
        let zones = Zones::start(rules, arguments.text_index)?;
        let port = file.dns.port;
        let range = |protocol| PortRange { protocol, first: port, last: port };
        let mut services = vec![range(PROTOCOL_UDP), range(PROTOCOL_TCP)];
        if zones.can_fetch() {
            services.push(PortRange { protocol: PROTOCOL_TCP, first: *PORTS.start(), last: *PORTS.end() });
        }
        let figures = SharedFigures::default();
        let files = Files::of(arguments, &file, &rules_for_files);
        let privilege = Privilege::of(&arguments.privilege, "dns", arguments.placement.app_core)?;
        let arguments = arguments.clone();
        Ok(Prepared {
            file,
            zones,
            services,
            figures,
            arguments,
            files,
            privilege,
            metrics: Cell::default(),
            door: None,
        })
    }

    /// Makes what takes rights: the log, and the sockets for figures and control.
    fn open(&mut self) -> Result<(), String> {
        if let Some(log) = &self.file.dns.log {
            self.privilege.make_file(&log.file)?;
        }
        if let Some(address) = self.file.metrics {
            let listener = TcpListener::bind(address)
                .map_err(|error| format!("metrics at {address}: {error}; choose an address of the kernel's"))?;
            self.metrics.set(Some(listener));
        }
        match (control::open(self.file.control.as_deref()), &self.file.control) {
            (Ok(door), _) => {
                self.privilege.is_to_remove(door.path());
                self.door = Some(door);
            }
            // Who named it needs it; else a server is one without it.
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => log::warning!("control", "`qanat dns status` will not find this server: {error}"),
        }
        Ok(())
    }

    /// Threads for figures, control and signals begin: once the rights are given up.
    fn watch(&self, signals: Signals, control: &Control) -> Result<(), String> {
        if let Some(listener) = self.metrics.take() {
            let (zones, figures) = (self.zones.clone(), Arc::clone(&self.figures));
            metrics::serve(listener, move || metrics_text(&zones, &figures))
                .map_err(|error| format!("metrics: {error}; raise `ulimit -u`"))?;
        }
        let (arguments, fixed) = (self.arguments.clone(), self.file.fixed.clone());
        let rules = move || arguments.rules(&fixed);
        if let Some(door) = &self.door {
            door.serve(self.zones.clone(), Box::new(rules.clone()))?;
        }
        handle_signals(signals, control.clone(), self.zones.clone(), rules)
    }
}

/// What the first instance fetches and sends; each time that there is a new one.
fn transfers(zones: &Zones) -> Result<Transfers, String> {
    let arrived = zones.clone();
    let transfers = Transfers::new(zones.control().clone(), zones.versions().clone(), zones.publisher())?;
    Ok(transfers.with_arrival(Arc::new(move |apex| arrived.arrived(apex))))
}

/// The figures as Prometheus reads them.
fn metrics_text(zones: &Zones, figures: &SharedFigures) -> String {
    let (figures, transfers) = *figures.lock().unwrap_or_else(PoisonError::into_inner);
    let broken: Vec<Name> = zones.broken().into_keys().collect();
    metrics::text(&metrics::Report {
        figures: &figures,
        transfers: &transfers,
        catalog: &zones.publisher().latest(),
        standings: &zones.control().board(),
        broken: &broken,
    })
}

fn serve(arguments: &ServeArguments) -> Result<(), String> {
    // From the first: one that is told to reload while it starts is not ended by that.
    let signals = hangups()?.of_led(arguments.placement.app_core);
    let mut prepared = Prepared::new(arguments)?;
    if arguments.placement.app_cores > 1 {
        // Its processes give up their rights, each by itself.
        return app_cores::run(&arguments.placement, &arguments.attach, &prepared.services, signals);
    }
    if arguments.placement.is_split() {
        return split::serve(arguments, prepared, signals);
    }
    prepared.open()?;
    let queues = u32::from(arguments.queues);
    let services = std::mem::take(&mut prepared.services);
    let control = Control::new(queues)?;
    let signals = Cell::new(Some(signals));
    let printer = Printer::new(arguments.json);
    let mut meter = Meter::new();
    let outcome = card::serve(&arguments.attach, services, queues, &|| control.is_stopped(), |card| {
        control.begin()?;
        let messages = serve_on(card, &prepared, (&control, &signals), &printer, &mut meter)?;
        messages.iter().for_each(|text| say(&printer, text));
        Ok(())
    });
    if signals.take().is_none() {
        finish(&printer, &control.done());
    }
    outcome
}

/// On one card, until the server is to stop or the card is gone; messages of the end are given back.
fn serve_on(
    card: &Card,
    prepared: &Prepared,
    (control, signals): (&Control, &Cell<Option<Signals>>),
    printer: &Printer,
    meter: &mut Meter,
) -> Result<Vec<String>, Failure> {
    let Prepared { file, zones, figures, arguments, .. } = prepared;
    let attachment = &card.attachment;
    let mut watch = AddressWatch::new(&attachment.addresses());
    prepared.privilege.start_steward(Vec::new())?;
    prepared.privilege.prepare(prepared.files.places.clone());
    let plan = Plan {
        card,
        privilege: &prepared.privilege,
        needs: &prepared.files.needs,
        publisher: zones.publisher(),
        config: &file.dns,
        batch: arguments.batch.into(),
        options: RuntimeOptions { spin: arguments.attach.spin.into(), ..RuntimeOptions::default() },
        secret: random()?,
        control: control.clone(),
    };
    let place = (attachment.addresses(), attachment.interface(), attachment.driver());
    let ready = || {
        prepared.privilege.make_sure()?;
        signals.take().map_or(Ok(()), |signals| prepared.watch(signals, control))?;
        if !card.tell_return() {
            announce(printer, file.dns.port, &zones.publisher().latest(), place);
        }
        Ok(())
    };
    plan.run(Some(transfers(zones)?), ready, |look| {
        let now = sum(&look.done);
        *figures.lock().unwrap_or_else(PoisonError::into_inner) = (now.dns, now.transfers);
        meter.show(printer, &now.dns, &look.done);
        look.messages.iter().for_each(|text| say(printer, text));
        watch.show(printer, look.runtime);
        if look.report {
            // By a thread of its own: standard error may block, the data path must not; and what the zones' state is may have
            // to be waited for.
            let head = if arguments.queues > 1 { "queue 0:\n" } else { "" };
            let report = head.to_owned() + &stack_report(look.runtime, Some(attachment));
            let (zones, figures) = (zones.clone(), Arc::clone(figures));
            std::thread::spawn(move || log::report(&(metrics_text(&zones, &figures) + &report)));
        }
    })
}

/// Something about transfers.
fn say(printer: &Printer, text: &str) {
    printer.lasting(match printer.is_json() {
        true => serde_json::json!({ "event": "transfer", "text": text }).to_string(),
        false => text.to_owned(),
    });
}

/// INT and TERM stop gracefully, a second time at once; HUP reads the configuration and the zones again, on this thread's
/// sibling, so that a signal to stop need not wait for it.
fn handle_signals(
    mut signals: Signals,
    control: Control,
    zones: Zones,
    rules: impl Fn() -> Result<ZoneRules, String> + Send + 'static,
) -> Result<(), String> {
    signals.also_handle(&[SIGINT, SIGTERM, SIGUSR1])?;
    // One that waits is enough: it sees all that came before it.
    let (again, wanted) = std::sync::mpsc::sync_channel::<()>(1);
    std::thread::spawn(move || {
        for () in wanted {
            match rules().and_then(|rules| zones.reload(rules)) {
                Ok(changes) => {
                    changes.lines.iter().for_each(|line| log::info!("reload", "{line}"));
                    log::info!("reload", "{}", changes.summary());
                }
                Err(error) => log::warning!("reload", "the zones stay as they were: {error}"),
            }
        }
    });
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                let _ = again.try_send(());
            } else if signal == SIGUSR1 {
                control.report();
            } else if !control.stop() {
                crate::exit::by_signal(signal);
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
