//! The process of a disk core, which the daemon starts with its orders on standard input.

use crate::host::attach::Spin;
use crate::log;
use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Started by the daemon
#[derive(Args)]
pub struct Arguments {
    /// When it sleeps while somebody has an area
    #[arg(long, value_name = "WHEN", default_value = "adaptive")]
    spin: Spin,
}

/// Starts one, which takes its orders from the socket. `spin`: when it sleeps, as the policy says it.
pub fn start(orders: OwnedFd, spin: &str) -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["disk-core", "--spin", spin]).args(log::forwarded());
    // A terminal's Ctrl-C is for the daemon.
    command.process_group(0);
    command.stdin(Stdio::from(orders)).stdout(Stdio::null()).spawn()
}

/// Is one.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let orders = std::io::stdin().as_fd().try_clone_to_owned();
    let orders = orders.map_err(|error| format!("standard input: {error}"))?;
    rustix::io::ioctl_fionbio(&orders, true).map_err(|error| format!("standard input: {error}"))?;
    // It ends when the daemon does, and not before: a terminal's Ctrl-C is for the daemon.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::default()).map_err(|error| format!("handling signals: {error}"))?;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| format!("ending with the daemon: {error}"))?;
    qanat::disk_core::serve(orders, arguments.spin.into()).map_err(|error| error.to_string())
}
