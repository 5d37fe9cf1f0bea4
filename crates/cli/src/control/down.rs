//! `qanat down`: ends the daemon.

use crate::daemon::{DaemonArguments, TellArguments};
use crate::say::done;
use clap::Args;
use qanat_control::client::{ClientError, Session};
use qanat_control::protocol::Request;
use qanat_daemon::{clear, leftovers};
use serde_json::json;
use std::time::{Duration, Instant};

/// A daemon that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stop the daemon and take back every card
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat down                  stop the daemon and take back every card; services are told
  sudo qanat down --leave-cards    stop the daemon only
If the daemon crashed, this command removes what it left behind.")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// Stop the daemon only. Cards go on, and the next `qanat up` takes them over
    #[arg(long)]
    leave_cards: bool,
    #[command(flatten)]
    tell: TellArguments,
}

/// Asks the daemon to end, and waits until it has.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let path = arguments.daemon.path();
    let request = if arguments.leave_cards { Request::Leave } else { Request::Stop };
    match Session::connect(&path) {
        Err(ClientError::Unreachable(..)) if !arguments.leave_cards && leftovers(&path).is_some() => {
            if !rustix::process::geteuid().is_root() {
                return Err("a control plane that crashed has left cards: run with sudo".to_owned());
            }
            clear(&path);
            // The next `qanat up` tries again, and says why if that fails.
            let _ = qanat_nic::remove_left_behind(&path);
            let fields = json!({ "event": "down", "was_up": false, "cards": "ended" });
            done(arguments.tell.json, &fields, "No control plane was up; what one had left is gone.");
            return Ok(());
        }
        outcome => drop(outcome),
    }
    arguments.daemon.order(request)?;
    let start = Instant::now();
    while path.exists() {
        if start.elapsed() > PATIENCE {
            return Err(format!("{} is still there after {PATIENCE:?}: look at the daemon's log", path.display()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (cards, text) = match arguments.leave_cards {
        true => ("left", "The control plane is down; its cards go on."),
        false => ("ended", "The control plane is down."),
    };
    done(arguments.tell.json, &json!({ "event": "down", "was_up": true, "cards": cards }), text);
    Ok(())
}
