//! `qanat up`: the daemon that hands out virtual cards.

use clap::Args;
use qanat::control::daemon::Daemon;
use qanat::control::policy::Policy;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where the policy is, if there is one.
const DEFAULT_CONFIG: &str = "/etc/qanat/qanat.toml";

/// Start the control plane: the daemon that hands out virtual network cards
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat up                          root and the group qanat may have cards in 10.77.0.0/24
  sudo qanat up --config policy.toml     who may have what: see qanatd(8)
It stays in the foreground; a systemd unit is in packaging/. INT and TERM, or `qanat down`, end it, and every card with it.")]
pub struct Arguments {
    /// Policy file (default: /etc/qanat/qanat.toml if there is one)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen here instead of where the policy says
    #[arg(long, value_name = "PATH", env = "QANAT_SOCKET")]
    socket: Option<PathBuf>,
    /// Read the policy, say what it means, and do nothing else
    #[arg(long)]
    check: bool,
}

/// Runs the daemon until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let default = Some(Path::new(DEFAULT_CONFIG)).filter(|path| path.exists());
    let mut policy = match arguments.config.as_deref().or(default) {
        Some(path) => Policy::read(path)?,
        None => Policy::default(),
    };
    if let Some(socket) = &arguments.socket {
        policy.socket.clone_from(socket);
    }
    if arguments.check {
        for rule in &policy.rule {
            println!("rule \"{}\": users {:?}, groups {:?}: {} VNICs", rule.name, rule.users, rule.groups, rule.vnics);
        }
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("the daemon needs root: run with sudo".to_owned());
    }
    // Each client has a handful of descriptors here; the soft limit is for programs that use select.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let socket = policy.socket.clone();
    let (stop, mut stopper) = UnixStream::pair().map_err(|error| format!("a pair of sockets: {error}"))?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // The loop has ended already if nobody reads.
            let _ = stopper.write_all(&[0]);
        }
        // Kept open: closing would end the loop as well.
        std::mem::forget(stopper);
    });
    let mut daemon = Daemon::start(policy, stop.into(), log)?;
    log(&format!("listening at {}", socket.display()));
    let outcome = daemon.run();
    log("ended");
    outcome
}

/// A line of the log on standard error, with the priority systemd reads when it is the reader.
fn log(line: &str) {
    let priority = if std::env::var_os("JOURNAL_STREAM").is_some() { "<6>" } else { "" };
    // Nobody to read the log is no reason to end.
    let _ = writeln!(std::io::stderr(), "{priority}qanatd: {line}");
}
