//! `qanat net-core`: the daemon's net cores, added and removed while they run.

use crate::daemon::{DaemonArguments, TellArguments};
use crate::say::done;
use clap::{Args, Subcommand};
use qanat_control::protocol::Request;
use serde_json::json;

/// Add and remove the daemon's net cores while they run
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat net-core add 1       start a net core on processor 1; new services get their card there
  sudo qanat net-core remove 1    free processor 1; its connections go on at another net core
The daemon starts with the net cores of its policy ([net] cores). These commands change that until the daemon ends. `qanat status` lists
them.")]
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
    /// Start a net core on a processor, or take back its removal
    #[command(after_help = "\
Examples:
  sudo qanat net-core add 1       new services get their card there, and cards of the fullest net core move to it")]
    Add {
        /// The processor's number
        processor: u32,
    },
    /// Free a processor. The cards of its net core move to another one
    #[command(after_help = "\
Examples:
  sudo qanat net-core remove 1    `qanat status` shows where its cards went")]
    Remove {
        /// The processor's number
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
