//! `qanat up`: the daemon that hands out virtual cards.

use crate::net::start_directed;
use crate::say::sayln;
use clap::{Args, ValueEnum};
use qanat::control::daemon::{Daemon, Ending, Event, HEIR, LEAVE};
use qanat::control::policy::{Policy, parse_processors};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Where the policy is, if there is one.
const DEFAULT_CONFIG: &str = "/etc/qanat/qanat.toml";

/// Start the control plane: the daemon that hands out virtual network cards
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat up                          root and the group qanat may have cards in 10.77.0.0/24
  sudo qanat up --config policy.toml     who may have what: see qanatd(8)
  sudo qanat up --net-cores 0-1          with two net cores, for services with --placement split
It stays in the foreground; a systemd unit is in packaging/. INT and TERM, or `qanat down`, end it, and every card with it.
HUP makes it start anew, with the policy and the program as they are on disk then, and the cards go on: so it is upgraded.
After a crash cards go on too, and the next `qanat up` takes them back.")]
pub struct Arguments {
    /// Policy file (default: /etc/qanat/qanat.toml if there is one)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen here instead of where the policy says
    #[arg(long, value_name = "PATH", env = "QANAT_SOCKET")]
    socket: Option<PathBuf>,
    /// A NIC, the wire of which cards may be on whose rule says `uplink = true`
    #[arg(long, value_name = "INTERFACE")]
    uplink: Option<String>,
    /// Start net cores on these processors, as `[net] cores` in the policy: 0-1,3
    #[arg(long, value_name = "PROCESSORS")]
    net_cores: Option<String>,
    /// End when nobody has had a card for some seconds (as `qanat run` starts it)
    #[arg(long, hide = true)]
    until_unused: bool,
    /// Read the policy, say what it means, and do nothing else
    #[arg(long)]
    check: bool,
    /// What lines of the log look like
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

/// What lines of the log look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// key=value pairs
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// Lines of the log that wait for whoever reads it.
const LOG_LINES_MAX: usize = 4_096;
/// How long the last of them are waited for.
const LOG_PATIENCE: Duration = Duration::from_secs(1);

static IS_JSON: AtomicBool = AtomicBool::new(false);
/// Told to start anew.
static IS_RESTART: AtomicBool = AtomicBool::new(false);

/// Runs the daemon until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let outcome = serve(arguments);
    if let Some(log) = LOG.get() {
        log.flush();
    }
    outcome
}

fn serve(arguments: &Arguments) -> Result<(), String> {
    let default = Some(Path::new(DEFAULT_CONFIG)).filter(|path| path.exists());
    let mut policy = match arguments.config.as_deref().or(default) {
        Some(path) => Policy::read(path)?,
        None => Policy::default(),
    };
    if let Some(socket) = &arguments.socket {
        policy.socket.clone_from(socket);
    }
    if let Some(interface) = &arguments.uplink {
        policy.uplink.get_or_insert_default().interface.clone_from(interface);
    }
    if let Some(processors) = &arguments.net_cores {
        policy.net.cores = parse_processors(processors)?;
    }
    if arguments.check {
        for rule in &policy.rule {
            sayln!("rule \"{}\": users {:?}, groups {:?}: {} VNICs", rule.name, rule.users, rule.groups, rule.vnics);
        }
        if !policy.net.cores.is_empty() {
            sayln!("net cores on processors {:?}", policy.net.cores);
        }
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("the daemon needs root: run with sudo".to_owned());
    }
    // Each client has a handful of descriptors here; the soft limit is for programs that use select.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    IS_JSON.store(arguments.log_format == LogFormat::Json, Ordering::Relaxed);
    // As it is called now: it may be another program by then.
    let program = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let socket = policy.socket.display().to_string();
    let net = policy.net.clone();
    let mut daemon = Daemon::start(policy, stop_descriptor()?.into(), log)?;
    log(&Event { event: "daemon-start", result: "done", detail: socket, ..Event::default() });
    daemon.start_net_cores(Box::new(move |processor, orders| start_directed(processor, orders, &net)))?;
    if arguments.until_unused {
        daemon.end_when_unused();
    }
    let ending = daemon.run()?;
    // The cards' namespace goes on in the program that this process becomes, whatever else keeps it.
    let namespace = if IS_RESTART.load(Ordering::Relaxed) { Some(daemon.bequeath()?) } else { None };
    // Its connections, and its locks on nothing, end here.
    drop(daemon);
    let words = if ending == Ending::Left { "cards go on" } else { "" };
    log(&Event { event: "daemon-end", result: "done", detail: words.to_owned(), ..Event::default() });
    // Over an exec nothing waits.
    LOG.get_or_init(Log::start).flush();
    match namespace {
        None => Ok(()),
        Some(namespace) => {
            let mut successor = Command::new(&program);
            successor.args(std::env::args_os().skip(1)).env(HEIR, namespace.as_raw_fd().to_string());
            // What a service manager handed over to this one is closed by then.
            successor.env_remove("LISTEN_PID");
            Err(format!("{}: {}", program.display(), successor.exec()))
        }
    }
}

/// A descriptor that says what signals told: to end, or to start anew.
fn stop_descriptor() -> Result<UnixStream, String> {
    let (stop, mut stopper) = UnixStream::pair().map_err(|error| format!("a pair of sockets: {error}"))?;
    let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]);
    let mut signals = signals.map_err(|error| format!("signals: {error}"))?;
    std::thread::spawn(move || {
        let signal = signals.forever().next();
        let is_restart = signal == Some(SIGHUP);
        IS_RESTART.store(is_restart, Ordering::Relaxed);
        // The loop has ended already if nobody reads.
        let _ = stopper.write_all(&[if is_restart { LEAVE } else { 0 }]);
        // Kept open: closing would end the loop as well.
        std::mem::forget(stopper);
    });
    Ok(stop)
}

/// A line of the log, with the priority systemd reads when it is the reader.
fn log(event: &Event) {
    let priority = match std::env::var_os("JOURNAL_STREAM").is_some() {
        true if event.result == "failed" => "<4>",
        true => "<6>",
        false => "",
    };
    let line = match IS_JSON.load(Ordering::Relaxed) {
        true => event.json(),
        false => format!("qanatd: {event}"),
    };
    LOG.get_or_init(Log::start).write(format!("{priority}{line}"));
}

static LOG: OnceLock<Log> = OnceLock::new();

/// What is written to standard error by a thread of its own: whoever reads it may be slow, or have stopped.
struct Log {
    lines: SyncSender<String>,
    /// Lines taken, and lines lost for want of room.
    taken: AtomicU64,
    lost: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

impl Log {
    fn start() -> Log {
        let (lines, next) = sync_channel::<String>(LOG_LINES_MAX);
        let (lost, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (its_lost, its_written) = (Arc::clone(&lost), Arc::clone(&written));
        let write = move || {
            while let Ok(line) = next.recv() {
                // Nobody to read the log is no reason to end.
                let _ = writeln!(std::io::stderr(), "{line}");
                its_written.fetch_add(1, Ordering::Release);
                let lost = its_lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let _ = writeln!(std::io::stderr(), "qanatd: event=log result=failed detail=\"{lost} lines lost\"");
                }
            }
        };
        // Without a thread all lines are lost, as they were without a reader.
        let _ = std::thread::Builder::new().name("qanat-log".to_owned()).spawn(write);
        Log { lines, taken: AtomicU64::new(0), lost, written }
    }

    fn write(&self, line: String) {
        match self.lines.try_send(line) {
            Ok(()) => self.taken.fetch_add(1, Ordering::Relaxed),
            Err(_) => self.lost.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Lets what has been said be written, unless nobody reads it.
    fn flush(&self) {
        let begun = Instant::now();
        while self.written.load(Ordering::Acquire) < self.taken.load(Ordering::Relaxed)
            && begun.elapsed() < LOG_PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
