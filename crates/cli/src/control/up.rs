//! `qanat up`: the daemon that hands out virtual cards.

use crate::control::kept_dashboard::KeptDashboard;
use crate::control::net::start_directed;
use crate::control::policy::{self, KEPT, NO_RULE, Source, Words, named};
use crate::host::disk_core;
use crate::log::{self, Level};
use crate::say::sayln;
use crate::signals::Signals;
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::execve;
use qanat_daemon::policy::{Names, Policy};
use qanat_daemon::{Daemon, Ending, Event, HEIR, LEAVE, fitness, tell_ready};
use rustix::process::{Resource, Rlimit, getpid, getrlimit, kill_process, setrlimit};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Handle;
use std::ffi::{CString, OsString};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Start the control plane: the daemon that hands out virtual network cards
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  sudo qanat up                          root and the group qanat may have cards in 10.77.0.0/24
  sudo qanat up --config policy.toml     who may have what: see qanatd(8)
  sudo qanat up --net-cores 0-1          with two net cores, for services with --placement split
  sudo qanat up --dashboard 127.0.0.1:9480   with a page for browsers, of all cards, rates and drops
It stays in the foreground; a systemd unit is in packaging/. INT and TERM, or `qanat down`, end it, and every card with it.
HUP makes it start anew, with the policy and the program as they are on disk then, and the cards go on: so it is upgraded.
After a crash cards go on too, and the next `qanat up` takes them back.")]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
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

/// Told to start anew.
static IS_RESTART: AtomicBool = AtomicBool::new(false);

/// Runs the daemon until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    // Whoever reads the log may be slow, or have stopped: the daemon goes on.
    log::write_in_background();
    serve(arguments)
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
        return check(&Words::read(&arguments.source)?.policy(&arguments.source)?);
    }
    // Before the policy is read: a change that is signalled from now on is not missed.
    let failed = |error: &dyn std::fmt::Display| format!("signals: {error}");
    let signals = Signals::new(&[SIGINT, SIGTERM, SIGHUP])?;
    // The process that this one was before has left them blocked, too.
    SigSet::from_iter(SIGNALS).thread_block().map_err(|error| failed(&error))?;
    let (policy, refused) = policy::first(&arguments.source)?;
    if let Some(why) = refused {
        refuse(&why);
    }
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
    let (net, disk) = (policy.net.clone(), policy.disk.clone());
    // It asks, so whoever waits until nobody does would wait for ever.
    let dashboard = policy.dashboard.filter(|_| !arguments.until_unused);
    let dashboard = dashboard.map(|address| KeptDashboard::new(address, policy.socket.clone())).transpose();
    let dashboard = dashboard.map_err(|error| format!("a key for the dashboard: {error}"))?;
    let (watchman, stop) = Watchman::start(signals, arguments.source.clone(), policy.metrics)?;
    let mut daemon = Daemon::start(policy, stop.into(), log)?;
    log(&Event { event: "daemon-start", result: "done", detail: socket, ..Event::default() });
    daemon.start_net_cores(Box::new(move |processor, orders| start_directed(processor, orders, &net)))?;
    daemon.have_disk_cores(Arc::new(move |orders| disk_core::start(orders, &disk.spin)));
    // Where nobody can be told, whoever waits for it ends this.
    tell_ready().map_err(|error| format!("tell the service manager (NOTIFY_SOCKET): {error}"))?;
    let dashboard = dashboard.map(|dashboard| {
        let url = dashboard.url();
        log(&Event { event: "dashboard", result: "done", detail: url.clone(), ..Event::default() });
        daemon.has_dashboard(url);
        dashboard.keep(log)
    });
    if arguments.until_unused {
        daemon.end_when_unused();
    }
    let ending = daemon.run()?;
    // None is started any more, which could take along what is left to the next program.
    let _none = dashboard.as_ref().map(|starting| starting.lock());
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
            let kept = watchman.end().bequeath().map_err(|error| format!("keep the policy: {error}"))?;
            become_successor(&program, &[named(HEIR, &namespace), named(KEPT, &kept)])
        }
    }
}

/// Becomes the program as it is on disk now, with the same arguments, and with these words in its environment. Returns only if that
/// fails.
fn become_successor(program: &Path, heir: &[(OsString, OsString)]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
    let text = |text: OsString| CString::new(text.into_vec()).map_err(|error| failed(&error));
    // What a service manager handed over to this one is closed by then.
    let is_closed = |name: &OsString| name == "LISTEN_PID" || heir.iter().any(|(new, _)| name == new);
    let kept = std::env::vars_os().filter(|(name, _)| !is_closed(name));
    let environment = kept.chain(heir.iter().cloned()).map(|(mut name, value)| {
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
    /// The policy to start anew with, and whether the daemon was told to end after it was told to start anew.
    thread: JoinHandle<(Words, bool)>,
}

impl Watchman {
    /// Starts it. The descriptor says what signals told: to end, or to start anew. A policy that can't be read is refused, and the
    /// daemon goes on with the one that it has.
    fn start(
        mut signals: Signals,
        source: Source,
        metrics: Option<SocketAddr>,
    ) -> Result<(Watchman, UnixStream), String> {
        let (stop, mut stopper) = UnixStream::pair().map_err(|error| format!("a pair of sockets: {error}"))?;
        let handle = signals.handle();
        let thread = std::thread::spawn(move || {
            let _ = SigSet::from_iter(SIGNALS).thread_unblock();
            let mut kept = Words::default();
            for signal in signals.forever() {
                let is_restart = signal == SIGHUP;
                if is_restart {
                    match Words::fit(&source, metrics) {
                        Ok(words) => kept = words,
                        Err(why) => {
                            refuse(&why);
                            continue;
                        }
                    }
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
            (kept, told + signals.pending().filter(is_end).count() > 0)
        });
        Ok((Watchman { handle, thread }, stop))
    }

    /// Ends it. What arrives from now on is for the next daemon; so is an end that this one was told too late. Returns the policy that
    /// was found good.
    fn end(self) -> Words {
        self.handle.close();
        let (kept, is_told_to_end) = self.thread.join().unwrap_or_default();
        if is_told_to_end {
            let _ = kill_process(getpid(), rustix::process::Signal::TERM);
        }
        kept
    }
}

/// The file can't be gone by.
fn refuse(why: &str) {
    let detail = format!("{why}; the policy stays as it was");
    log(&Event { event: "reload", result: "refused", detail, ..Event::default() });
}

/// A line of the log.
fn log(event: &Event) {
    let level = if event.result == "failed" { Level::Warn } else { Level::Info };
    let fields = || event.fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    log::tell_fields(level, "qanatd: ", &event.to_string(), fields);
}
