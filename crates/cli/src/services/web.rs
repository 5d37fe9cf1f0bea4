//! `qanat web`: a directory, served from our own TCP.

use crate::host::addresses::AddressWatch;
use crate::host::app_cores;
use crate::host::attach::{AttachArguments, url};
use crate::host::card::{self, Card, Failure};
use crate::host::net_core_watch::NetCoreWatch;
use crate::host::placement::{PlacementArguments, Request};
use crate::host::privilege::access::Need;
use crate::host::privilege::paths::{directory_of, served};
use crate::host::privilege::{Privilege, PrivilegeArguments};
use crate::host::report::stack_report;
use crate::live::{Printer, grouped};
use crate::log;
use crate::signals::{Signals, hangups};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use qanat::confine::Places;
use qanat::nic::MemoryPlan;
use qanat::nic::af_xdp::PortRange;
use qanat::split::SplitRuntime;
use qanat::{PROTOCOL_TCP, Runtime, RuntimeOptions, StopHandle, entropy};
use qanat_web::{CopyMode, Figures, Site, WebConfig, WebHandle, WebService};
use rustix::fs::Access;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time-outs are at most a day.
const SECONDS_MAX: u64 = 86_400;
const DOORBELL_TOKEN: u64 = 1;
/// Frames each connection's requests and the receive ring need, beyond prepared content.
const RECEIVE_FRAMES: u32 = 8_192;
const TRANSMIT_FRAMES: u32 = 8_192;
/// Connections the stack takes beyond the service's limit, for the service to reset at once: with the stack full, a
/// client's handshake would succeed by cookie and nothing ever answer it.
const REFUSALS: usize = 256;

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
  sudo qanat web ./site --host blog.example=./blog   a second site, by host name
  sudo qanat web ./site --user www-data              served as that user (default: who called sudo, or nobody), without root's rights
Signals: INT, TERM: finish what is under way and stop. HUP: look at the files again, reopen the log.
         USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause.")]
pub struct Arguments {
    /// Directory to serve
    directory: PathBuf,
    #[command(flatten)]
    attach: AttachArguments,
    #[command(flatten)]
    placement: PlacementArguments,
    #[command(flatten)]
    privilege: PrivilegeArguments,
    /// Port to listen on
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// How each segment gets its bytes: copies kept ready in device memory, or one copied at each sending
    #[arg(long, value_enum, default_value_t = Copy::Pre)]
    copy: Copy,
    /// Serve requests for this host from another directory; may be repeated
    #[arg(long, value_name = "NAME=DIRECTORY", value_parser = parse_site)]
    host: Vec<Site>,
    /// Memory for content in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = count(1_048_576))]
    memory: usize,
    /// Memory for ready frames in MiB, locked (default: twice what the files need now, 4 to 64)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    frame_memory: Option<u32>,
    /// Prepare all content at start instead of at first request
    #[arg(long)]
    preload: bool,
    /// Write a log in combined format to this file
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Value of a Cache-Control field on every file
    #[arg(long, value_name = "VALUE")]
    cache_control: Option<String>,
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
    /// Figures as JSON, a line each second
    #[arg(long)]
    json: bool,
}

/// Sandstorm's two variants.
#[derive(Clone, Copy, ValueEnum)]
enum Copy {
    Pre,
    PerSend,
}

fn parse_site(text: &str) -> Result<Site, String> {
    let (host, root) = text.split_once('=').ok_or("write it as NAME=DIRECTORY")?;
    Ok(Site { hosts: vec![host.to_owned()], root: root.into() })
}

impl Arguments {
    /// `serves_six`: over IPv6 too, or perhaps.
    fn config(&self, serves_six: bool) -> WebConfig {
        let mut config = WebConfig::new(&self.directory);
        config.sites.clone_from(&self.host);
        config.port = self.port;
        config.copy_mode = match self.copy {
            Copy::Pre => CopyMode::Pre,
            Copy::PerSend => CopyMode::PerSend,
        };
        // Ready frames must fit the longer header if IPv6 is served too.
        if serves_six {
            config.packet_overhead = 72;
        }
        config.memory_bytes_max = self.memory << 20;
        config.preload = self.preload;
        config.access_log.clone_from(&self.access_log);
        config.cache_control.clone_from(&self.cache_control);
        config.hidden_files = self.hidden;
        config.limits.connections_max = self.connections;
        config.limits.connections_per_peer = self.connections_per_peer.unwrap_or((self.connections / 4 * 3).max(64));
        config.limits.send_timeout = Duration::from_secs(self.send_timeout);
        config.limits.send_rate_min = self.send_rate_min;
        config.limits.idle_timeout = Duration::from_secs(self.idle_timeout);
        config.limits.head_timeout = Duration::from_secs(self.head_timeout);
        config
    }

    /// A small site is to start where there is little memory; files may be added while it is served.
    fn frame_memory_mib(&self) -> u32 {
        self.frame_memory.unwrap_or_else(|| {
            let mut frames = 0;
            for directory in self.roots() {
                count_frames(directory, &mut frames);
            }
            let bytes = 2 * frames * u64::from(MemoryPlan::frame_size_for(1_500));
            u32::try_from(bytes >> 20).unwrap_or(u32::MAX).clamp(FRAME_MEMORY_MIB.0, FRAME_MEMORY_MIB.1)
        })
    }

    fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.directory).chain(self.host.iter().map(|site| &site.root))
    }

    /// The log is made with root's rights. All else that is read and written, is by who goes on.
    fn give_up(&self, privilege: &Privilege) -> Result<(), String> {
        let log = self.access_log.iter();
        log.clone().try_for_each(|log| privilege.make_file(log))?;
        privilege.give_up(Places {
            read: self.roots().flat_map(|root| served(root)).collect(),
            write: log.clone().map(|log| directory_of(log)).collect(),
        })?;
        let trees = self.roots().map(|root| Need::Tree(root.clone(), self.hidden));
        privilege.check(&trees.chain(log.cloned().map(Need::Append)).collect::<Vec<Need>>())
    }

    fn memory_plan(&self, mtu: u32) -> MemoryPlan {
        let frame_size = MemoryPlan::frame_size_for(mtu);
        let prepared_frames = match self.copy {
            Copy::Pre => (self.frame_memory_mib() << 20) / frame_size,
            Copy::PerSend => 0,
        };
        MemoryPlan { frame_size, receive_frames: RECEIVE_FRAMES, transmit_frames: TRANSMIT_FRAMES, prepared_frames }
    }
}

/// A number from 1 to `most`.
fn count(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Runs the server until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    // From the first: one that is told to reload while it starts is not ended by that.
    let signals = hangups()?.of_led(arguments.placement.app_core);
    // What can be wrong with the content is said before anything is made.
    std::fs::read_dir(&arguments.directory).map_err(|error| {
        format!("{}: {error}; name a directory that this user may read", arguments.directory.display())
    })?;
    let services = vec![PortRange { protocol: PROTOCOL_TCP, first: arguments.port, last: arguments.port }];
    if arguments.placement.app_cores > 1 {
        // Its processes give up their rights, each by itself.
        Privilege::of(&arguments.privilege, "web", false)?;
        return app_cores::run(&arguments.placement, &arguments.attach, &services, signals);
    }
    let privilege = Privilege::of(&arguments.privilege, "web", arguments.placement.app_core)?;
    if arguments.placement.is_split() {
        return run_split(arguments, &services, signals, &privilege);
    }
    let stop = StopHandle::new().map_err(|error| format!("doorbell: {error}"))?;
    let mut server = Linked {
        arguments,
        privilege: &privilege,
        signals: Some(signals),
        stop: stop.clone(),
        service: Arc::default(),
        report: Arc::default(),
        printer: Printer::new(arguments.json),
        meter: Meter::new(),
        place: None,
    };
    let outcome = card::serve(&arguments.attach, services, 1, &|| stop.is_requested(), |card| server.serve(card));
    if let Some((figures, place)) = server.place.take() {
        server.meter.finish(&server.printer, &figures, || place);
    }
    outcome
}

/// The server in one process with its stack: a service and a runtime for each card.
struct Linked<'a> {
    arguments: &'a Arguments,
    privilege: &'a Privilege,
    /// Until the first service is there.
    signals: Option<Signals>,
    stop: StopHandle,
    /// The service that runs now.
    service: Arc<Mutex<Option<WebHandle>>>,
    report: Arc<AtomicBool>,
    printer: Printer,
    meter: Meter,
    /// What the last service and its card came to.
    place: Option<(Figures, PlaceFigures)>,
}

impl Linked<'_> {
    /// On one card, until told to stop or the card is gone.
    fn serve(&mut self, card: &Card) -> Result<(), Failure> {
        let (arguments, attachment) = (self.arguments, &card.attachment);
        let serves_six =
            attachment.addresses().iter().any(IpAddr::is_ipv6) || attachment.config().autoconfiguration.is_some();
        let plan = arguments.memory_plan(attachment.mtu());
        let vnic = attachment.open_queue(0, plan).map_err(|error| error.to_string())?;
        arguments.give_up(self.privilege)?;
        let mut service = WebService::new(arguments.config(serves_six)).map_err(|error| error.to_string())?;
        let mut config = attachment.config().clone();
        config.connections_max = arguments.connections + REFUSALS;
        let seed = entropy().map_err(|error| format!("no entropy: {error}"))?;
        let mut runtime = Runtime::new(Box::new(vnic), config, seed);
        runtime.watch(service.doorbell_fd(), DOORBELL_TOKEN).map_err(|error| format!("watching for files: {error}"))?;
        card.watch(&mut runtime)?;
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = Some(service.handle());
        if let Some(signals) = self.signals.take() {
            let (service, report) = (Arc::clone(&self.service), Arc::clone(&self.report));
            handle_signals(signals, self.stop.clone(), service, report, arguments.access_log.clone())?;
        }
        runtime.start(&mut service)?;
        if !card.tell_return() {
            let urls: Vec<String> =
                attachment.addresses().iter().map(|address| url(*address, arguments.port)).collect();
            announce(&self.printer, arguments, &urls, (attachment.interface(), attachment.driver()));
        }
        let before = self.place.take().map(|(figures, _)| figures).unwrap_or_default();
        let (meter, printer, report) = (&mut self.meter, &self.printer, &self.report);
        let mut watch = AddressWatch::new(&attachment.addresses());
        let options = RuntimeOptions { spin: arguments.attach.spin.into(), ..RuntimeOptions::default() };
        let outcome = runtime.run(&mut service, &self.stop, options, &mut |service, runtime| {
            meter.show(printer, &service.figures().after(&before), || linked_figures(runtime));
            watch.show(printer, runtime);
            if report.swap(false, Ordering::Acquire) {
                // By a thread of its own: standard error may block, the data path must not.
                let text = stack_report(runtime, Some(attachment));
                std::thread::spawn(move || log::report(&text));
            }
        });
        let counters = runtime.stack().counters().iter().chain(runtime.stack().tcp_counters().iter());
        let counters = serde_json::Map::from_iter(counters.map(|(name, count)| (name.to_owned(), count.into())));
        let mut place = linked_figures(&runtime);
        place.push(("stack", counters.into()));
        self.place = Some((service.figures().after(&before), place));
        Ok(outcome?)
    }
}

/// The stack on a net core: the service is the same, but that its content is copied at each sending.
fn run_split(
    arguments: &Arguments,
    services: &[PortRange],
    signals: Signals,
    privilege: &Privilege,
) -> Result<(), String> {
    let request = Request::new("web", services, arguments.connections + REFUSALS);
    let mut placed = arguments.placement.attach(&arguments.attach, &request, privilege)?;
    arguments.give_up(privilege)?;
    let runtime = &mut placed.runtime;
    let mut config = arguments.config(runtime.addresses().iter().any(IpAddr::is_ipv6));
    config.copy_mode = CopyMode::PerSend;
    let mut service = WebService::new(config).map_err(|error| error.to_string())?;
    runtime.watch(service.doorbell_fd(), DOORBELL_TOKEN).map_err(|error| format!("watching for files: {error}"))?;
    let stop = StopHandle::new().map_err(|error| format!("doorbell: {error}"))?;
    let handle = Arc::new(Mutex::new(Some(service.handle())));
    handle_signals(signals, stop.clone(), handle, Arc::default(), arguments.access_log.clone())?;
    runtime.start(&mut service).map_err(|error| error.to_string())?;
    let printer = Printer::new(arguments.json);
    let urls: Vec<String> = runtime.addresses().iter().map(|address| url(*address, arguments.port)).collect();
    announce(&printer, arguments, &urls, (runtime.interface(), runtime.driver()));
    let mut meter = Meter::new();
    let mut watch = NetCoreWatch::new();
    let options = RuntimeOptions { spin: arguments.attach.spin.into(), ..RuntimeOptions::default() };
    let outcome = runtime.run(&mut service, &stop, options, &mut |service, runtime| {
        watch.show(runtime);
        meter.show(&printer, &service.figures(), || split_figures(runtime));
    });
    watch.show(runtime);
    meter.finish(&printer, &service.figures(), || split_figures(runtime));
    drop(placed);
    outcome.map_err(|error| error.to_string())
}

fn announce(printer: &Printer, arguments: &Arguments, urls: &[String], (interface, driver): (&str, &str)) {
    let directory = arguments.directory.display();
    if printer.is_json() {
        let line = serde_json::json!({
            "event": "serving", "urls": urls, "directory": directory.to_string(),
            "interface": interface, "driver": driver,
        });
        printer.lasting(line.to_string());
    } else {
        printer.lasting(format!("Serving {directory} at {}  (Ctrl-C stops)", urls.join(" ")));
    }
}

/// The log is opened anew by who serves, who may be no longer able to make one. Then it goes on in the file that was renamed.
fn tell_of_lost(log: &Path) {
    // Only looked for: who makes it is the writer, when it has written what it had for the old one.
    let outcome: io::Result<()> = match OpenOptions::new().append(true).open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            rustix::fs::access(directory_of(log), Access::WRITE_OK | Access::EXEC_OK).map_err(Into::into)
        }
        outcome => outcome.map(drop),
    };
    if let Err(error) = outcome {
        log::warning!(
            "access-log",
            "{}: {error}: lines go on to the file that was there before; whoever renames it is to make the next one for the user \
             that serves (logrotate: `create 0640 USER GROUP`)",
            log.display()
        );
    }
}

/// INT and TERM stop gracefully, a second time at once; HUP reloads.
fn handle_signals(
    mut signals: Signals,
    stop: StopHandle,
    service: Arc<Mutex<Option<WebHandle>>>,
    report: Arc<AtomicBool>,
    access_log: Option<PathBuf>,
) -> Result<(), String> {
    signals.also_handle(&[SIGINT, SIGTERM, SIGUSR1])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                access_log.iter().for_each(|log| tell_of_lost(log));
                service.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(WebHandle::reload);
            } else if signal == SIGUSR1 {
                report.store(true, Ordering::Release);
            } else if stop.is_requested() {
                crate::exit::by_signal(signal);
            } else {
                stop.request();
            }
        }
    });
    Ok(())
}

/// Turns counters into rates.
struct Meter {
    before: Figures,
    at: Instant,
    shown: bool,
}

impl Meter {
    fn new() -> Meter {
        Meter { before: Figures::default(), at: Instant::now(), shown: false }
    }

    fn show(&mut self, printer: &Printer, figures: &Figures, place: impl FnOnce() -> PlaceFigures) {
        let elapsed_s = self.at.elapsed().as_secs_f64().max(1e-3);
        let requests = figures.requests - self.before.requests;
        let requests_per_s = requests as f64 / elapsed_s;
        let gbit_per_s = (figures.bytes_acknowledged - self.before.bytes_acknowledged) as f64 * 8e-9 / elapsed_s;
        if printer.is_json() {
            let mut line = serde_json::json!({
                "event": "figures", "requests_per_s": requests_per_s, "gbit_per_s": gbit_per_s, "web": figures,
            });
            place().into_iter().for_each(|(name, value)| line[name] = value);
            printer.live(line.to_string());
        } else if requests > 0 || std::mem::replace(&mut self.shown, requests > 0) || self.before == Figures::default()
        {
            printer.live(format!(
                "{} requests/s  {gbit_per_s:.2} Gbit/s  {} open  {} requests  {} errors",
                grouped(requests_per_s as u64),
                grouped(figures.connections_open),
                grouped(figures.requests),
                grouped(figures.responses[3] + figures.responses[4]),
            ));
        }
        self.before = *figures;
        self.at = Instant::now();
    }

    fn finish(&mut self, printer: &Printer, figures: &Figures, place: impl FnOnce() -> PlaceFigures) {
        if printer.is_json() {
            let mut line = serde_json::json!({ "event": "stopped", "web": figures });
            place().into_iter().for_each(|(name, value)| line[name] = value);
            printer.last(line.to_string());
        } else {
            printer.last(format!(
                "Served {} requests on {} connections, {} bytes.",
                grouped(figures.requests),
                grouped(figures.connections_accepted),
                grouped(figures.bytes_acknowledged),
            ));
        }
    }
}

/// What a placement has to tell, by name.
type PlaceFigures = Vec<(&'static str, serde_json::Value)>;

fn linked_figures(runtime: &Runtime) -> PlaceFigures {
    let counters = runtime.vnic().statistics();
    let counters: serde_json::Map<_, _> =
        counters.iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
    vec![("usage", usage(runtime)), ("vnic", counters.into())]
}

fn split_figures(runtime: &SplitRuntime) -> PlaceFigures {
    let figures = runtime.figures();
    let value = serde_json::json!({
        "events": figures.events, "commands": figures.commands, "bells": figures.bells,
        "net_cores_lost": figures.net_cores_lost,
    });
    vec![("split", value)]
}

/// What the stack holds: for whoever looks for leaks.
fn usage(runtime: &Runtime) -> serde_json::Value {
    let usage = runtime.stack().usage();
    serde_json::json!({
        "connections": usage.connections, "half_open": usage.half_open, "time_wait": usage.time_wait,
        "flows": usage.flows, "timers": usage.timers, "neighbours": usage.neighbours,
        "transmit_frames_in_use": runtime.vnic().transmit_pool().in_use_count(),
        "prepared_frames_in_use": runtime.vnic().prepared_pool().in_use_count(),
    })
}
