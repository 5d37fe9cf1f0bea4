//! The `qanat` command: every service, the load generators and the benchmarks, one subcommand each.
//!
//! Exit codes: 0 done, 1 could not do it (the message names the place and the remedy), 2 wrong usage.
#![forbid(unsafe_code)]

mod attach;
mod bench;
mod delay;
mod hello;
mod live;
mod load;
mod report;
mod web;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Applications that own their network card, with protection.
#[derive(Parser)]
#[command(
    name = "qanat",
    version,
    about,
    max_term_width = 100,
    after_help = "\
Examples:
  qanat hello                                   the whole stack in one process, no root
  sudo qanat web ./site                         serve a directory at http://10.77.0.2/
  sudo qanat load http http://10.77.0.2/ -c 64  ask for it, as fast as one core can
  sudo qanat delay eth1 eth2 --delay 20ms       a network emulator between two interfaces
  sudo qanat bench web --quick                  beside nginx, on the same link"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Hello(hello::Arguments),
    Web(web::Arguments),
    Delay(Box<delay::Arguments>),
    Load(load::Arguments),
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Hello(arguments) => hello::run(&arguments),
        Command::Web(arguments) => web::run(arguments),
        Command::Delay(arguments) => delay::run(&arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("qanat: {message}");
            ExitCode::FAILURE
        }
    }
}
