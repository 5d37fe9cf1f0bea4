//! `qanat up`: the daemon that hands out virtual cards.

use crate::control::net::start_directed;
use crate::host::disk_core;
use crate::log::{self, Level};
use crate::say::sayln;
use crate::signals::Signals;
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::execve;
use qanat_control::filter::Addresses;
use qanat_daemon::policy::{Names, Policy, parse_processors};
use qanat_daemon::{Daemon, Ending, Event, HEIR, LEAVE, fitness, tell_ready};
use qanat_nic::link;
use rustix::process::{Resource, Rlimit, getpid, getrlimit, kill_process, setrlimit};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Handle;
use std::ffi::{CString, OsString};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Where the policy is, if there is one.
const DEFAULT_CONFIG: &str = "/etc/qanat/qanat.toml";

/// Start the control plane: the daemon that hands out virtual network cards
#[derive(Args, Clone)]
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
    /// A NIC, the wire of which cards may be on: root's if there is no policy file, otherwise those whose rule says `uplink = true`
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
    /// The log as JSON, or what --check says
    #[arg(long)]
    pub json: bool,
}

const NO_RULE: &str = "the policy has no rule, so nobody may have a card, root neither";

/// Told to start anew.
static IS_RESTART: AtomicBool = AtomicBool::new(false);

/// Runs the daemon until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    // Whoever reads the log may be slow, or have stopped: the daemon goes on.
    log::write_in_background();
    serve(arguments)
}

/// What the policy file and the command line say together.
fn policy(arguments: &Arguments) -> Result<Policy, String> {
    let default = Some(Path::new(DEFAULT_CONFIG)).filter(|path| path.exists());
    let file = arguments.config.as_deref().or(default);
    let mut policy = match file {
        Some(path) => Policy::read(path)?,
        None => Policy::default(),
    };
    if let Some(socket) = &arguments.socket {
        policy.socket.clone_from(socket);
    }
    if let Some(interface) = &arguments.uplink {
        policy.uplink.get_or_insert_default().interface.clone_from(interface);
        if file.is_none() {
            // Without an interface of that name the daemon says so later.
            let found = link::link(interface).and_then(|link| link::addresses(link.index)).unwrap_or_default();
            policy.let_root_use_uplink(found.into_iter().filter_map(|(own, length)| Addresses::prefix(own, length)));
        }
        policy.idle().map_or(Ok(()), Err)?;
    }
    if let Some(processors) = &arguments.net_cores {
        policy.net.cores = parse_processors(processors)?;
    }
    Ok(policy)
}

/// What the policy means, and what in it can't be meant.
fn check(policy: &Policy) -> Result<(), String> {
    let in_vain = Names::of(&policy.rule).in_vain(&policy.rule);
    let mut warnings: Vec<String> = policy.idle().into_iter().chain(in_vain.iter().map(ToString::to_string)).collect();
    warnings.extend(fitness::missing(policy));
    // A daemon with this policy may be up, and have its address for metrics.
    fitness::can_start(policy, policy.metrics)?;
    if log::is_json() {
        let rules: Vec<_> = policy
            .rule
            .iter()
            .map(|rule| json!({ "name": rule.name, "users": rule.users, "groups": rule.groups, "vnics": rule.vnics, "disks": rule.disks, "areas": rule.areas, "area_mib": rule.area_mib }))
            .collect();
        sayln!("{}", json!({ "rules": rules, "net_cores": policy.net.cores, "warnings": warnings }));
        return if rules.is_empty() { Err(format!("{NO_RULE}: add a [[rule]]")) } else { Ok(()) };
    }
    for rule in &policy.rule {
        let disks = match rule.disks.as_slice() {
            [] => String::new(),
            disks => format!(", {} areas of {} MiB together on disks {disks:?}", rule.areas, rule.area_mib),
        };
        sayln!("rule \"{}\": users {:?}, groups {:?}: {} VNICs{disks}", rule.name, rule.users, rule.groups, rule.vnics);
    }
    if !policy.net.cores.is_empty() {
        sayln!("net cores on processors {:?}", policy.net.cores);
    }
    if policy.rule.is_empty() {
        return Err(format!("{NO_RULE}: add a [[rule]]"));
    }
    warnings.iter().for_each(|what| sayln!("warning: {what}"));
    Ok(())
}

fn serve(arguments: &Arguments) -> Result<(), String> {
    if arguments.check {
        return check(&policy(arguments)?);
    }
    // Before the policy is read: a change that is signalled from now on is not missed.
    let failed = |error: &dyn std::fmt::Display| format!("signals: {error}");
    let signals = Signals::new(&[SIGINT, SIGTERM, SIGHUP])?;
    // The process that this one was before has left them blocked, too.
    SigSet::from_iter(SIGNALS).thread_block().map_err(|error| failed(&error))?;
    let policy = policy(arguments)?;
    if policy.rule.is_empty() {
        log(&Event { event: "policy", result: "failed", detail: NO_RULE.to_owned(), ..Event::default() });
    }
    if let Some(detail) = policy.idle() {
        log(&Event { event: "policy", result: "failed", detail, ..Event::default() });
    }
    if !rustix::process::geteuid().is_root() {
        return Err("the daemon needs root: run with sudo".to_owned());
    }
    // Each client has a handful of descriptors here; the soft limit is for programs that use select.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    // As it is called now: it may be another program by then.
    let program = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let socket = policy.socket.display().to_string();
    let net = policy.net.clone();
    let (watchman, stop) = Watchman::start(signals, arguments.clone(), policy.metrics)?;
    let mut daemon = Daemon::start(policy, stop.into(), log)?;
    log(&Event { event: "daemon-start", result: "done", detail: socket, ..Event::default() });
    daemon.start_net_cores(Box::new(move |processor, orders| start_directed(processor, orders, &net)))?;
    daemon.have_disk_cores(Arc::new(disk_core::start));
    // Where nobody can be told, whoever waits for it ends this.
    tell_ready().map_err(|error| format!("tell the service manager (NOTIFY_SOCKET): {error}"))?;
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
    log::flush();
    match namespace {
        None => Ok(()),
        Some(namespace) => {
            watchman.end();
            become_successor(&program, &namespace)
        }
    }
}

/// Becomes the program as it is on disk now, with the same arguments. Returns only if that fails.
fn become_successor(program: &Path, namespace: &OwnedFd) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
    let text = |text: OsString| CString::new(text.into_vec()).map_err(|error| failed(&error));
    let heir = (OsString::from(HEIR), OsString::from(namespace.as_raw_fd().to_string()));
    // What a service manager handed over to this one is closed by then.
    let kept = std::env::vars_os().filter(|(name, _)| name != "LISTEN_PID" && name != HEIR);
    let environment = kept.chain([heir]).map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        text(name)
    });
    let environment: Vec<CString> = environment.collect::<Result<_, _>>()?;
    let arguments: Vec<CString> = std::env::args_os().map(text).collect::<Result<_, _>>()?;
    // Unlike `Command`, it leaves signals blocked, with those that have arrived.
    let Err(error) = execve(&text(program.into())?, &arguments, &environment);
    Err(failed(&error))
}

/// What ends the daemon or has it start anew.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// The thread that signals come to. All other threads block them, so a signal that arrives while this process becomes the next daemon
/// waits for that one.
struct Watchman {
    handle: Handle,
    /// Whether the daemon was told to end after it was told to start anew.
    thread: JoinHandle<bool>,
}

impl Watchman {
    /// Starts it. The descriptor says what signals told: to end, or to start anew. A policy that can't be read is refused, and the
    /// daemon goes on with the one that it has.
    fn start(
        mut signals: Signals,
        arguments: Arguments,
        metrics: Option<SocketAddr>,
    ) -> Result<(Watchman, UnixStream), String> {
        let (stop, mut stopper) = UnixStream::pair().map_err(|error| format!("a pair of sockets: {error}"))?;
        let handle = signals.handle();
        let thread = std::thread::spawn(move || {
            let _ = SigSet::from_iter(SIGNALS).thread_unblock();
            for signal in signals.forever() {
                let is_restart = signal == SIGHUP;
                let refusal = || match policy(&arguments) {
                    // Whoever empties the file while it is edited does not mean that.
                    Ok(policy) if policy.rule.is_empty() => {
                        Some(format!("{NO_RULE}: add a [[rule]], or end the daemon"))
                    }
                    Ok(policy) => fitness::can_start(&policy, metrics).err().map(|error| error.to_string()),
                    Err(why) => Some(why),
                };
                if is_restart && let Some(why) = refusal() {
                    let detail = format!("{why}; the policy stays as it was");
                    log(&Event { event: "reload", result: "refused", detail, ..Event::default() });
                    continue;
                }
                IS_RESTART.store(is_restart, Ordering::Relaxed);
                // The loop has ended already if nobody reads.
                let _ = stopper.write_all(&[if is_restart { LEAVE } else { 0 }]);
                break;
            }
            let is_end = |signal: &i32| *signal != SIGHUP;
            // Until this thread is told to end.
            let told = signals.forever().filter(is_end).count();
            // What arrives from here on waits for the next daemon. What arrived before may have been overtaken by the word to end.
            let _ = SigSet::from_iter(SIGNALS).thread_block();
            told + signals.pending().filter(is_end).count() > 0
        });
        Ok((Watchman { handle, thread }, stop))
    }

    /// Ends it. What arrives from now on is for the next daemon; so is an end that this one was told too late.
    fn end(self) {
        self.handle.close();
        if self.thread.join().unwrap_or(false) {
            let _ = kill_process(getpid(), rustix::process::Signal::TERM);
        }
    }
}

/// A line of the log.
fn log(event: &Event) {
    let level = if event.result == "failed" { Level::Warn } else { Level::Info };
    let fields = || event.fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    log::tell_fields(level, "qanatd: ", &event.to_string(), fields);
}
