//! `--app-cores`: several processes of one service that share a net core (or several), its card and its listeners; or, over the kernel's
//! TCP/IP, its ports.
//!
//! This process runs none of the service: it starts the app cores, passes signals on, and starts one again that dies. Its
//! connections are reset, its share of the listeners is the others' until then.

use crate::daemon::DaemonArguments;
use crate::host::attach::AttachArguments;
use crate::host::net_core::SOCKET_NAME;
use crate::host::placement::{PlacementArguments, ValueName, forwarded, service_argument};
use crate::log;
use crate::signals::{Signals, stop_signals};
use qanat::split::ask_status;
use qanat_nic::af_xdp::PortRange;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An app core that ends sooner than this after its start is not started again at once.
const SHORT_LIFE: Duration = Duration::from_millis(500);
/// How often children are looked at.
const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a net core may take to listen.
const NET_CORE_PATIENCE: Duration = Duration::from_secs(10);

/// Whether the daemon has net cores for these arguments.
fn has_daemon(attach: &AttachArguments) -> bool {
    let status = || DaemonArguments::default().session().ok()?.status().ok();
    attach.suits_a_daemons_net_core() && status().is_some_and(|status| !status.net_cores_started.is_empty())
}

/// A net core for all of them, which is started again if it dies.
fn start_net_core(
    placement: &PlacementArguments,
    attach: &AttachArguments,
    services: &[PortRange],
    number: usize,
) -> Result<(Child, String), String> {
    let name = format!("@{SOCKET_NAME}-of-{}-{number}", std::process::id());
    let mut command = Command::new("/proc/self/exe");
    command.args(["net", "--with-parent", "--socket", &name, "--accept", &placement.accept.unwrap_or_default().name()]);
    command.args(log::forwarded()).args(forwarded(attach)?).args(services.iter().map(|range| service_argument(*range)));
    // A terminal's Ctrl-C is for the app cores, which finish what is under way by the net core.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("starting a net core: {error}"))?;
    let began = Instant::now();
    while ask_status(Path::new(&name)).is_err() {
        if !matches!(child.try_wait(), Ok(None)) || began.elapsed() > NET_CORE_PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            // It has said why, on standard error.
            return Err("the net core did not start".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok((child, name))
}

/// One of several.
struct AppCore {
    child: Child,
    started: Instant,
}

/// This program's arguments without the number of app cores, and of net cores if those are named.
fn own_arguments(are_named: bool) -> Vec<String> {
    let is_left_out = |name: &str| name == "--app-cores" || (are_named && name == "--net-cores");
    let mut kept = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.split_once('=') {
            None if is_left_out(&argument) => drop(arguments.next()),
            Some((name, _)) if is_left_out(name) => {}
            _ => kept.push(argument),
        }
    }
    kept
}

fn start(arguments: &[String]) -> Result<AppCore, String> {
    let mut command = Command::new("/proc/self/exe");
    // Signals come to it once, from here.
    command.args(arguments).arg("--app-core").process_group(0);
    let child = command.spawn().map_err(|error| format!("starting an app core: {error}"))?;
    Ok(AppCore { child, started: Instant::now() })
}

fn tell(child: &Child, signal: Signal) {
    let _ = kill_process(Pid::from_child(child), signal);
}

/// Signals that are not for this process alone. They are handled before anything is started.
struct Passed {
    stop: UnixStream,
    hangups: Signals,
}

impl Passed {
    /// Reports are the app cores', as reloads are.
    fn new(hangups: Signals) -> Result<Passed, String> {
        hangups.also_handle(&[SIGUSR1])?;
        Ok(Passed { stop: stop_signals(&[SIGINT, SIGTERM])?, hangups })
    }
}

/// Runs them on net cores until told to stop.
///
/// # Errors
/// Why they can't be run.
pub fn run(
    placement: &PlacementArguments,
    attach: &AttachArguments,
    services: &[PortRange],
    hangups: Signals,
) -> Result<(), String> {
    let is_own = placement.net.is_empty() && !has_daemon(attach);
    let mut arguments = own_arguments(is_own);
    let mut own = OwnNetCores(Vec::new());
    if is_own {
        placement.check_own(attach)?;
    }
    let signals = Passed::new(hangups)?;
    let cards = if is_own { placement.cards(attach)? } else { Vec::new() };
    for (number, card) in cards.iter().enumerate() {
        let (child, name) = start_net_core(placement, card, services, number)?;
        arguments.push(format!("--net={name}"));
        own.0.push(child);
    }
    run_all(placement.app_cores, &arguments, own, signals)
}

/// Runs them over the kernel's TCP/IP until told to stop.
///
/// # Errors
/// Why they can't be run.
pub fn run_over_kernel(placement: &PlacementArguments, hangups: Signals) -> Result<(), String> {
    let signals = Passed::new(hangups)?;
    let mut arguments = own_arguments(false);
    if placement.placement.is_none() {
        // They need not find out again, nor say it again.
        arguments.push("--placement=kernel".to_owned());
    }
    run_all(placement.app_cores, &arguments, OwnNetCores(Vec::new()), signals)
}

fn run_all(count: u32, arguments: &[String], mut own: OwnNetCores, mut signals: Passed) -> Result<(), String> {
    let mut cores = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..count {
        match start(arguments) {
            Ok(core) => cores.push(core),
            Err(error) => outcome = Err(error),
        }
    }
    if outcome.is_ok() {
        outcome = watch(&mut signals, arguments, &mut cores, &mut own);
    }
    for core in &cores {
        tell(&core.child, Signal::INT);
    }
    for core in &mut cores {
        let _ = core.child.wait();
    }
    drop(own);
    outcome
}

/// Net cores of this program's own: they end with it, however it ends.
struct OwnNetCores(Vec<Child>);

impl Drop for OwnNetCores {
    fn drop(&mut self) {
        self.0.iter().for_each(|child| tell(child, Signal::TERM));
        self.0.iter_mut().for_each(|child| _ = child.wait());
    }
}

/// Until told to stop, or one of them says that it cannot go on.
fn watch(
    signals: &mut Passed,
    arguments: &[String],
    cores: &mut Vec<AppCore>,
    own: &mut OwnNetCores,
) -> Result<(), String> {
    loop {
        let mut fds = [PollFd::new(&signals.stop, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&LOOK_INTERVAL));
        if fds.iter().any(|fd| !fd.revents().is_empty()) {
            return Ok(());
        }
        for signal in signals.hangups.pending() {
            let signal = match signal {
                SIGUSR1 => Signal::USR1,
                SIGHUP => Signal::HUP,
                // Its terminal is closed.
                _ => return Ok(()),
            };
            cores.iter().for_each(|core| tell(&core.child, signal));
        }
        // It starts its net core again when that dies. Nobody would start a new one under its name.
        if let Some(status) = own.0.iter_mut().find_map(|child| child.try_wait().ok().flatten()) {
            return Err(format!(
                "what looks after a net core of this service ended ({status}): start the service again"
            ));
        }
        for core in cores.iter_mut() {
            match core.child.try_wait() {
                Ok(Some(status)) if status.code().is_some_and(|code| code != 0) => {
                    return Err(format!("an app core ended with {status}"));
                }
                // Told to by somebody: the others have its connections.
                Ok(Some(status)) if status.success() => core.started = Instant::now(),
                Ok(Some(_)) if core.started.elapsed() < SHORT_LIFE => {}
                Ok(Some(status)) => {
                    log::warning!("app-core-died", "an app core died ({status}): started again");
                    *core = start(arguments)?;
                }
                _ => {}
            }
        }
        cores.retain_mut(|core| !matches!(core.child.try_wait(), Ok(Some(status)) if status.success()));
        if cores.is_empty() {
            return Ok(());
        }
    }
}
