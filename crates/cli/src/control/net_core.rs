//! `qanat net-core`: the daemon's net cores, added and removed while they run.

use crate::daemon::{DaemonArguments, TellArguments};
use crate::say::done;
use clap::{Args, Subcommand};
use qanat::control::protocol::Request;
use serde_json::json;

/// Add and remove the daemon's net cores while they run
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat net-core add 1       processor 1 has a net core, too: services that come have their card there
  sudo qanat net-core remove 1    processor 1 is free; connections there go on on another's, until their services end
The policy ([net] cores) says what the daemon starts with; this changes it until the daemon ends. `qanat status` shows them.")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    #[command(flatten)]
    tell: TellArguments,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start one on a processor, or have the one that was removed from it back
    #[command(after_help = "\
Examples:
  sudo qanat net-core add 1       services that come have their card there, and cards of the fullest move to it")]
    Add {
        /// Its number
        processor: u32,
    },
    /// Free a processor: what its net core serves goes on on another's, and it takes no more
    #[command(after_help = "\
Examples:
  sudo qanat net-core remove 1    `qanat status` shows where its cards are")]
    Remove {
        /// Its number
        processor: u32,
    },
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let (request, event, processor, text) = match arguments.action {
        Action::Add { processor } => {
            (Request::AddNetCore { processor }, "net-core-add", processor, "has a net core, which takes cards")
        }
        Action::Remove { processor } => {
            let text = "has a net core no more: its cards move to the others, see `qanat status`";
            (Request::RemoveNetCore { processor }, "net-core-remove", processor, text)
        }
    };
    arguments.daemon.order(request)?;
    let fields = json!({ "event": event, "processor": processor });
    done(arguments.tell.json, &fields, &format!("Processor {processor} {text}."));
    Ok(())
}
