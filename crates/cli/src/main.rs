//! The `qanat` command: every service, the load generators and the benchmarks, one subcommand each.
//!
//! Exit codes: 0 done, 1 could not do it (the message names the place and the remedy), 2 wrong usage; `qanat run` has more ([`run`]).
#![forbid(unsafe_code)]

mod addresses;
mod app_cores;
mod attach;
mod bench;
mod card;
mod control;
mod delay;
mod dns;
mod doctor;
mod down;
mod echo;
mod filter;
mod hello;
mod limits;
mod live;
mod load;
mod load_dns;
mod load_echo;
mod load_pace;
mod load_values;
mod log;
mod net;
mod net_core;
mod placement;
mod program;
mod programs;
mod rate;
mod report;
mod run;
mod say;
mod signals;
mod status;
mod support;
mod top;
mod up;
mod vnic;
mod web;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// With the commit that it was built from: `build.rs`.
const VERSION: &str = env!("QANAT_VERSION");

/// Applications that own their network card, with protection.
#[derive(Parser)]
#[command(
    name = "qanat",
    version = VERSION,
    about,
    max_term_width = 100,
    after_help = "\
Examples:
  qanat hello                                   the whole stack in one process, no root
  sudo qanat up                                 the daemon: then no server needs root
  sudo qanat run -- redis-server --bind 10.77.0.2   a program as it is, on a stack of its own
  sudo qanat web ./site                         serve a directory at http://10.77.0.2/
  sudo qanat load http http://10.77.0.2/ -c 64  ask for it, as fast as one core can
  sudo qanat delay eth1 eth2 --delay 20ms       a network emulator between two interfaces
  qanat echo --link memif:/tmp/echo.sock        send back what comes, through shared memory
  sudo qanat bench web --quick                  beside nginx, on the same link"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: log::LogArguments,
}

#[derive(Subcommand)]
enum Command {
    Hello(hello::Arguments),
    Web(web::Arguments),
    Delay(Box<delay::Arguments>),
    Dns(Box<dns::Arguments>),
    Echo(Box<echo::Arguments>),
    Load(load::Arguments),
    Net(Box<net::Arguments>),
    NetCore(net_core::Arguments),
    Run(run::Arguments),
    Bench(bench::Arguments),
    Up(up::Arguments),
    Down(down::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Vnic(vnic::Arguments),
    Filter(filter::Arguments),
    Rate(rate::Arguments),
    Limits(limits::Arguments),
    Doctor(doctor::Arguments),
}

/// The command line, or the end: with what is wrong about it, and a tip.
fn parsed() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let words: Vec<_> = std::env::args_os().collect();
        let tip = run::tip(&words).filter(|_| error.use_stderr());
        let tip = tip.map_or_else(String::new, |tip| format!("\n  tip: {tip}\n"));
        if error.use_stderr() && log::is_json_asked_for(&words) {
            log::set_up(log::LogArguments::json());
            log::error!("usage", "{error}{tip}");
        } else {
            // Help goes to standard output, mistakes to standard error; neither has anywhere to go if that is closed.
            let _ = error.print();
            if !tip.is_empty() {
                let _ = std::io::Write::write_all(&mut std::io::stderr(), tip.as_bytes());
            }
        }
        std::process::exit(error.exit_code())
    })
}

fn main() -> ExitCode {
    let Cli { command, log } = parsed();
    log::set_up(log);
    let code = run(command);
    log::flush();
    code
}

/// Runs a command, and tells why it failed.
fn run(command: Command) -> ExitCode {
    let outcome = match command {
        Command::Hello(arguments) => hello::run(&arguments),
        Command::Web(arguments) => web::run(arguments),
        Command::Delay(arguments) => delay::run(&arguments),
        Command::Dns(arguments) => dns::run(&arguments),
        Command::Echo(arguments) => echo::run(&arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Net(arguments) => net::run(&arguments),
        Command::NetCore(arguments) => net_core::run(&arguments),
        Command::Run(arguments) => return run::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Up(arguments) => up::run(&arguments),
        Command::Down(arguments) => down::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Vnic(arguments) => vnic::run(arguments),
        Command::Filter(arguments) => filter::run(&arguments),
        Command::Rate(arguments) => rate::run(&arguments),
        Command::Limits(arguments) => limits::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log::error!("failed", "{message}");
            ExitCode::FAILURE
        }
    }
}
