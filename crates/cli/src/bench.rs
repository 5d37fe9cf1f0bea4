//! `qanat bench`: side by side with others, on the same link.

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use qanat_bench::echo::{BenchLink, EchoBenchOptions};
use qanat_bench::load::duration;
use qanat_bench::paths::PathsOptions;
use qanat_bench::web::{WebBenchOptions, chart};
use std::path::PathBuf;
use std::time::Duration;

/// Measure beside others, on the same link
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    table: Table,
}

#[derive(Subcommand)]
enum Table {
    Web(WebArguments),
    Paths(PathsArguments),
    Echo(EchoArguments),
}

/// `qanat web` and nginx in turn, under the same client
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench web --quick                 under 50 s
  sudo qanat bench web                         the full table: five runs of each, some minutes
  sudo qanat bench web --filter '1 KiB'        some of its rows
Writes a picture of the table beside it (--svg).")]
struct WebArguments {
    /// Fewer cases, one short run each
    #[arg(long)]
    quick: bool,
    /// Runs of each server in each case
    #[arg(long, value_name = "COUNT")]
    repetitions: Option<usize>,
    /// Length of a run
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Where to write the picture
    #[arg(long, value_name = "FILE", default_value = "bench-web.svg")]
    svg: PathBuf,
    /// The table as JSON
    #[arg(long)]
    json: bool,
}

/// Our TCP and Linux' over emulated paths: goodput, many downloads, flows side by side
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench paths --quick                   five paths, under a minute
  sudo qanat bench paths                           the full table: a quarter of an hour
  sudo qanat bench paths --filter '1 % loss'       some of its rows
  sudo qanat bench paths --filter 'side by side'   fairness alone")]
struct PathsArguments {
    /// Fewer paths, one short run each
    #[arg(long)]
    quick: bool,
    /// Runs of each sender and receiver on each path
    #[arg(long, value_name = "COUNT")]
    repetitions: Option<usize>,
    /// Length of a run
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Only paths whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The table as JSON
    #[arg(long)]
    json: bool,
}

/// The driver alone, our stack, Linux and DPDK, echoing on one link
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat bench echo --quick                     over shared memory; no root: under 50 s
  sudo qanat bench echo --link veth            over a virtual interface, beside Linux' sockets
  qanat bench echo --filter 'one at a time'    latencies only")]
struct EchoArguments {
    /// The link
    #[arg(long, value_enum, default_value_t)]
    link: EchoLink,
    /// Fewer cases, one short run each
    #[arg(long)]
    quick: bool,
    /// Runs of each echo in each case
    #[arg(long, value_name = "COUNT")]
    repetitions: Option<usize>,
    /// Length of a run
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The table as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum EchoLink {
    /// Two network namespaces joined by a veth pair
    Veth,
    /// Shared memory between two processes
    #[default]
    Memif,
    /// Memory between two threads
    Pair,
}

/// Runs a benchmark.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.table {
        Table::Web(web) => run_web(web),
        Table::Paths(paths) => run_paths(paths),
        Table::Echo(echo) => run_echo(echo),
    }
}

fn run_web(arguments: &WebArguments) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let mut options = WebBenchOptions::new(program);
    options.quick = arguments.quick;
    options.repetitions = arguments.repetitions;
    options.duration = arguments.duration;
    options.filter.clone_from(&arguments.filter);
    // Drawn on standard error, and only where that is a terminal: the table alone goes to standard output.
    let progress = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {msg}") {
        progress.set_style(style);
    }
    let table = qanat_bench::web::run(&options, &mut |message| {
        progress.set_message(message.to_owned());
        progress.tick();
    });
    progress.finish_and_clear();
    let table = table.map_err(|error| error.to_string())?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&table).map_err(|error| error.to_string())?);
    } else {
        println!("{table}");
    }
    std::fs::write(&arguments.svg, chart(&table).to_svg())
        .map_err(|error| format!("{}: {error}; name another file with --svg", arguments.svg.display()))?;
    eprintln!("picture: {}", arguments.svg.display());
    Ok(())
}

fn run_paths(arguments: &PathsArguments) -> Result<(), String> {
    let options = PathsOptions {
        quick: arguments.quick,
        repetitions: arguments.repetitions,
        duration: arguments.duration,
        filter: arguments.filter.clone(),
    };
    let progress = ProgressBar::new_spinner();
    let table = qanat_bench::paths::run(&options, &mut |message| {
        progress.set_message(message.to_owned());
        progress.tick();
    });
    progress.finish_and_clear();
    let table = table.map_err(|error| error.to_string())?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&table).map_err(|error| error.to_string())?);
    } else {
        println!("{table}");
    }
    Ok(())
}

fn run_echo(arguments: &EchoArguments) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let link = match arguments.link {
        EchoLink::Veth => BenchLink::Veth,
        EchoLink::Memif => BenchLink::Memif,
        EchoLink::Pair => BenchLink::Pair,
    };
    let mut options = EchoBenchOptions::new(program, link);
    options.quick = arguments.quick;
    options.repetitions = arguments.repetitions;
    options.duration = arguments.duration;
    options.filter.clone_from(&arguments.filter);
    let progress = ProgressBar::new_spinner();
    let table = qanat_bench::echo::run(&options, &mut |message| {
        progress.set_message(message.to_owned());
        progress.tick();
    });
    progress.finish_and_clear();
    let table = table.map_err(|error| error.to_string())?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&table).map_err(|error| error.to_string())?);
    } else {
        println!("{table}");
    }
    Ok(())
}
