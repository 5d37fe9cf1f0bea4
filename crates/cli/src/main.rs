//! The `qanat` command: every service, the load generators and the benchmarks, one subcommand each.
//!
//! Exit codes are in [`exit`].
#![forbid(unsafe_code)]

mod cert;
mod columns;
mod completions;
mod control;
mod daemon;
mod descriptors;
mod diagnose;
mod disk;
mod exit;
mod host;
mod live;
mod load;
mod log;
mod manual;
mod memory_limits;
mod program;
mod progress;
mod run;
mod say;
mod services;
mod signals;
mod support;
mod version;

use control::{down, filter, limits, net, net_core, rate, status, top, up, vnic};
use diagnose::{bench, doctor};
use host::disk_core;
use host::export::keeper as export_keeper;
use host::privilege::steward;
use services::Service;
use version::VERSION;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

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
  sudo qanat web ./site --https                 the same by HTTPS, with a certificate of its own
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
    #[command(flatten)]
    Service(Service),
    Cert(cert::Arguments),
    Load(load::Arguments),
    Disk(disk::Arguments),
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
    Completions(completions::Arguments),
    Manual(manual::Arguments),
    #[command(hide = true)]
    DiskCore(disk_core::Arguments),
    #[command(hide = true)]
    ExportKeeper(export_keeper::Arguments),
    #[command(hide = true)]
    Steward(steward::Arguments),
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
        std::process::exit(if error.use_stderr() { exit::USAGE.into() } else { 0 })
    })
}

fn main() -> ExitCode {
    let Cli { command, log } = parsed();
    // What they say is the log alone.
    let is_json = match &command {
        Command::Up(arguments) => arguments.json,
        Command::Net(arguments) => arguments.json,
        _ => false,
    };
    log::set_up(if is_json { log.as_json() } else { log });
    let code = run(command);
    log::flush();
    code
}

/// Runs a command, and tells why it failed.
fn run(command: Command) -> ExitCode {
    let is_service = matches!(
        command,
        Command::Service(_) | Command::Load(_) | Command::Net(_) | Command::NetCore(_) | Command::Up(_)
    );
    let room = match command {
        Command::Run(_) => Ok(()),
        _ if is_service => descriptors::make_room().and_then(|()| memory_limits::make_room()),
        _ => descriptors::make_room(),
    };
    if let Err(message) = room {
        log::error!("failed", "{message}");
        return ExitCode::from(exit::FAILED);
    }
    let outcome = match command {
        Command::Service(service) => service.run(),
        Command::Cert(arguments) => cert::run(&arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Disk(arguments) => disk::run(&arguments),
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
        Command::Completions(arguments) => {
            completions::run(&arguments, &Cli::command());
            Ok(())
        }
        Command::Manual(arguments) => manual::run(&arguments, Cli::command()),
        Command::DiskCore(arguments) => disk_core::run(&arguments),
        Command::ExportKeeper(arguments) => export_keeper::run(&arguments),
        Command::Steward(arguments) => steward::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log::error!("failed", "{message}");
            ExitCode::from(exit::FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands without `--json`, and why.
    const WITHOUT_JSON: [(&str, &str); 2] = [
        ("qanat run", "becomes the program, whose output is its own"),
        ("qanat completions", "prints a script, for a shell"),
    ];

    /// Each command that does something, by its words.
    fn commands(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
        let words =
            if words.is_empty() { command.get_name().to_owned() } else { format!("{words} {}", command.get_name()) };
        // What processes of ours start is nobody's to type.
        let is_typed = |below: &&clap::Command| below.get_name() != "help" && !below.is_hide_set();
        let mut below = command.get_subcommands().filter(is_typed).peekable();
        if below.peek().is_none() || command.is_args_conflicts_with_subcommands_set() {
            found.push((words.clone(), command.clone()));
        }
        below.for_each(|below| commands(below, &words, found));
    }

    fn all() -> Vec<(String, clap::Command)> {
        let mut root = Cli::command();
        root.build();
        let mut found = Vec::new();
        commands(&root, "", &mut found);
        found
    }

    #[test]
    fn every_command_has_json_and_examples() {
        let mut wrong = Vec::new();
        let all = all();
        assert!(all.len() > 30, "{}", all.len());
        for (words, command) in &all {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if !help.contains("Examples:\n") {
                wrong.push(format!("{words}: no examples"));
            }
            let has_json = command.get_arguments().any(|argument| argument.get_id() == "json");
            if has_json == WITHOUT_JSON.iter().any(|(name, _)| name == words) {
                wrong.push(format!("{words}: --json is there: {has_json}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// The command of an example: up to the words that say what it does, or to where its output goes.
    fn example(line: &str) -> Option<Vec<String>> {
        let line = line.trim_start().trim_start_matches("sudo ");
        let line = line.strip_prefix("qanat ")?;
        let line = line.split("  ").next()?.split(';').next()?.split(" > ").next()?;
        let mut words = vec!["qanat".to_owned()];
        for (number, part) in line.split('\'').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        Some(words)
    }

    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        let mut wrong = Vec::new();
        let mut count = 0;
        let mut root = Cli::command();
        root.build();
        let mut helps = vec![root.clone()];
        let mut next = 0;
        while let Some(command) = helps.get(next).cloned() {
            helps.extend(command.get_subcommands().cloned());
            next += 1;
        }
        for help in helps.iter().filter_map(|command| command.get_after_help()).map(ToString::to_string) {
            for words in help.lines().filter(|line| line.starts_with("  ")).filter_map(example) {
                count += 1;
                if let Err(error) = Cli::try_parse_from(&words) {
                    wrong.push(format!("{}: {error}", words.join(" ")));
                }
            }
        }
        assert!(count > 80 && wrong.is_empty(), "{count}: {wrong:#?}");
    }
}
