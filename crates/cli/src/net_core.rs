//! `qanat net-core`: the daemon's net cores, added and removed while they run.

use crate::control::DaemonArguments;
use clap::{Args, Subcommand};
use qanat::control::protocol::Request;

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
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start one on a processor, or have the one that was removed from it back
    Add {
        /// Its number
        processor: u32,
    },
    /// Free a processor: what its net core serves goes on on another's, and it takes no more
    Remove {
        /// Its number
        processor: u32,
    },
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.daemon.order(match arguments.action {
        Action::Add { processor } => Request::AddNetCore { processor },
        Action::Remove { processor } => Request::RemoveNetCore { processor },
    })
}
