//! `qanat down`: ends the daemon.

use crate::control::DaemonArguments;
use clap::Args;
use qanat::control::protocol::Request;
use std::time::{Duration, Instant};

/// A daemon that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// End the control plane, and every card it handed out
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
}

/// Asks the daemon to end, and waits until it has.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.daemon.order(Request::Stop)?;
    let (start, path) = (Instant::now(), arguments.daemon.path());
    while path.exists() {
        if start.elapsed() > PATIENCE {
            return Err(format!("{} is still there after {PATIENCE:?}: look at the daemon's log", path.display()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("The control plane is down.");
    Ok(())
}
