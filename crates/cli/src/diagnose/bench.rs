//! `qanat bench`: side by side with others, on the same link.

use crate::columns::fitted;
use crate::log;
use crate::say::sayln;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use qanat_bench::harness::document;
use qanat_bench::harness::environment::VERSION;
use qanat_bench::harness::page::{Section, page};
use qanat_bench::load::duration;
use qanat_bench::tables::{self, BenchOptions, Entry, TABLES};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure beside others, on the same link
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  sudo qanat bench --all --report bench.html           every table, as one page with plots: more than an hour
  sudo qanat bench --all --quick --report bench.html   the same in five minutes, less exact
  sudo qanat bench --all --report bench.md             in Markdown, pictures beside it; text that is there stays
  sudo qanat bench --tables web,echo-veth --json       some of them, for programs
  qanat bench --list                                   their names"
)]
pub struct Arguments {
    #[command(subcommand)]
    table: Option<Table>,
    /// Every table, one after the other
    #[arg(long, conflicts_with = "tables")]
    all: bool,
    /// These tables
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    tables: Vec<String>,
    /// Say which tables there are
    #[arg(long, conflicts_with_all = ["all", "tables"])]
    list: bool,
    #[command(flatten)]
    common: Common,
}

/// What every table understands.
#[derive(Args)]
struct Common {
    /// Fewer cases, one short run each
    #[arg(long)]
    quick: bool,
    /// Runs of each peer in each case
    #[arg(long, value_name = "COUNT", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    repetitions: Option<usize>,
    /// Length of a run
    #[arg(short, long, value_name = "TIME", value_parser = run_length)]
    duration: Option<Duration>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The tables as JSON
    #[arg(long)]
    json: bool,
    /// A page with tables and plots, complete in one file. FILE.md: in Markdown, each table between its marks, the plots in files beside it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// How long a run may take, as load generators have it.
fn run_length(text: &str) -> Result<Duration, String> {
    let length = duration::parse(text).map_err(|error| error.to_string())?;
    match duration::LENGTHS.contains(&length) {
        true => Ok(length),
        false => Err(format!("{text}: a run takes from 1ms to 7 days")),
    }
}

#[derive(Subcommand)]
enum Table {
    Web(WebArguments),
    Crossing(CrossingArguments),
    Model(ModelArguments),
    Https(HttpsArguments),
    Video(VideoArguments),
    ReadCache(ReadCacheArguments),
    Disk(DiskArguments),
    Dns(DnsArguments),
    Echo(EchoArguments),
    Paths(PathsArguments),
    Breakdown(BreakdownArguments),
    Fence(FenceArguments),
    Gate(GateArguments),
    Kv(KvArguments),
    Run(ProgramsArguments),
    Split(SplitArguments),
    Ratio(RatioArguments),
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
    #[command(flatten)]
    common: Common,
    /// Where to write the picture
    #[arg(long, value_name = "FILE", default_value = "bench-web.svg")]
    svg: PathBuf,
}

/// `qanat web` as it is, with a null system call for each of its own, and over the kernel: what crossing costs by itself
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench crossing --quick              under 20 s
  sudo qanat bench crossing                      five runs of each
  sudo qanat bench crossing --filter 'one after'  latencies only")]
struct CrossingArguments {
    #[command(flatten)]
    common: Common,
}

/// What crossing costs: this machine's costs by small benchmarks, what a model makes of them, and what is measured then
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench model --quick                 memif, veth, a file of its own: under a minute
  sudo qanat bench model                         five runs of each
  qanat bench model --filter memif               over shared memory alone; no root
Writes a picture of prediction and measurement beside it (--svg).
As in “The Case Against User-Level Networking”, section V.")]
struct ModelArguments {
    #[command(flatten)]
    common: Common,
    /// Where to write the picture
    #[arg(long, value_name = "FILE", default_value = "bench-model.svg")]
    svg: PathBuf,
}

/// A disk by our driver and by fio's engines: random reads and overwrites, past the page cache
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat bench disk --quick                       a file of 1 GiB of its own: under a minute; no root
  qanat bench disk --on /srv/fast.img --overwrite     a file that is there: WHAT IS IN IT IS LOST
  qanat bench disk --on /dev/sdx --filter reads       a device that is only read
  qanat bench disk --filter 'reads, 4 KiB'       some of its rows
  qanat bench disk --tenants --quick             an area beside one that floods the same disk
Needs fio (apt-get install fio), but for --tenants.")]
struct DiskArguments {
    /// The file or block device to use
    #[arg(long, value_name = "PATH")]
    on: Option<PathBuf>,
    /// What is in it may be overwritten, and is lost
    #[arg(long, requires = "on")]
    overwrite: bool,
    /// An area of a disk core beside one that floods the same disk, instead of fio's engines
    #[arg(long)]
    tenants: bool,
    #[command(flatten)]
    common: Common,
}

/// `qanat dns`, Knot and NSD in turn, under the same clients
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench dns --quick                   under a minute
  sudo qanat bench dns                           five runs of each, a million names too: a quarter of an hour
  sudo qanat bench dns --filter kxdpgun          under Knot's own load generator only
Needs knot, knot-dnsutils and nsd (apt-get install knot knot-dnsutils nsd).")]
struct DnsArguments {
    #[command(flatten)]
    common: Common,
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
    #[command(flatten)]
    common: Common,
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
    #[command(flatten)]
    common: Common,
}

/// Where the time of an echoed packet goes: Linux, ours with copies, ours
#[derive(Args)]
#[command(after_help = "\
Examples:
  make bench-breakdown                         builds a program that counts cycles, and runs this with it
  sudo qanat bench breakdown --quick           by a program that was built so")]
struct BreakdownArguments {
    #[command(flatten)]
    common: Common,
}

/// The fence around virtual cards: the gate's cost, and a neighbour's latency while another card floods
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench fence --quick                     under 20 s
  sudo qanat bench fence                             ten pairs of each: two minutes and a half
  sudo qanat bench fence --filter neighbour          latencies only")]
struct FenceArguments {
    #[command(flatten)]
    common: Common,
}

/// `qanat web --https` and nginx in turn, under wrk on kernel sockets
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench https --quick                 under a minute
  sudo qanat bench https                         five runs of each: seven minutes
  sudo qanat bench https --filter 'handshake'    some of its rows")]
struct HttpsArguments {
    #[command(flatten)]
    common: Common,
}

/// `qanat video` and nginx in turn, from the same disk, under wrk on kernel sockets
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench video --quick                 a minute
  sudo qanat bench video                         five runs of each: eight minutes
  sudo qanat bench video --filter encrypted      some of its rows")]
struct VideoArguments {
    #[command(flatten)]
    common: Common,
}

/// Large files that do not fit the memory for them: the kernel's page cache, none, and `qanat web`'s own cache, under wrk
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench read-cache --quick              320 MiB of files, 64 of memory
  sudo qanat bench read-cache                      960 MiB of files, 192 of memory; five runs of each
  sudo qanat bench read-cache --filter popular     without a reader of everything")]
struct ReadCacheArguments {
    #[command(flatten)]
    common: Common,
}

/// `qanat web` on a device of its own and on a card of the daemon's, in turn, under the same client
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench gate --quick                      under 20 s
  sudo qanat bench gate                              five pairs of each: three minutes
  sudo qanat bench gate --filter 'kernel client'     some of its rows")]
struct GateArguments {
    #[command(flatten)]
    common: Common,
}

/// Programs as they are, under `qanat run` and on the kernel's sockets, in turn
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench run --quick                   nginx, haproxy, redis, memcached: under two minutes
  sudo qanat bench run                           five runs of each
  sudo qanat bench run --filter redis            one program
  sudo qanat bench run --profile --quick         where a request's processor time goes, by perf: a minute
Programs that are not there are named with their package.")]
struct ProgramsArguments {
    /// Where the processors' time goes, instead of rates: program, libqanat, kernel, link
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    common: Common,
}

/// Redis and `qanat kv` in turn, on the same link and file system, under the same clients
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat bench kv --quick                    under two minutes
  sudo qanat bench kv                            five runs of each
  sudo qanat bench kv --filter durable           writes that are answered when they are on the disk
  sudo qanat bench kv --memory                   what a key takes of memory
Programs that are not there are named with their package.")]
struct KvArguments {
    /// What a key takes of memory, instead
    #[arg(long)]
    memory: bool,
    #[command(flatten)]
    common: Common,
}

/// The split placement beside the linked one: ping-pong, costs, a service that blocks, a net core killed
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat bench split --quick                      over shared memory, as root also veth: 40 s
  qanat bench split                              five runs of each: six minutes
  qanat bench split --filter blocks              what a service that blocks does to its peers
  sudo qanat bench split --filter killed         a net core of the daemon's is killed: how long it is missed
  qanat bench split --filter 'bare program'      what two threads take that only hand each other memory")]
struct SplitArguments {
    #[command(flatten)]
    common: Common,
}

/// How many net cores to how many service cores: a model fed with costs measured here
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat bench ratio --quick                      under 15 s; no root
  qanat bench ratio                              costs of five runs
It is a model: every core a queue of its own. On a machine with more processors its costs are that machine's.")]
struct RatioArguments {
    #[command(flatten)]
    common: Common,
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

impl EchoLink {
    fn table(self) -> &'static str {
        match self {
            EchoLink::Veth => "echo-veth",
            EchoLink::Memif => "echo-memif",
            EchoLink::Pair => "echo-pair",
        }
    }
}

/// Runs a benchmark.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    // Each table says what it was measured with. It is set nowhere else.
    let _ = VERSION.set(crate::version::VERSION);
    match &arguments.table {
        Some(Table::Web(web)) => run_and_draw("web", &web.common, &web.svg),
        Some(Table::Model(model)) => run_and_draw("model", &model.common, &model.svg),
        Some(Table::Disk(disk)) => {
            let name = if disk.tenants { "disk-tenants" } else { "disk" };
            finish(&measure_on(&[name], &disk.common, None, (disk.on.clone(), disk.overwrite))?, &disk.common, false)
        }
        Some(Table::Dns(dns)) => run_one("dns", &dns.common),
        Some(Table::Crossing(crossing)) => run_one("crossing", &crossing.common),
        Some(Table::Https(https)) => run_one("https", &https.common),
        Some(Table::Video(video)) => run_one("video", &video.common),
        Some(Table::ReadCache(read_cache)) => run_one("read-cache", &read_cache.common),
        Some(Table::Paths(paths)) => run_one("paths", &paths.common),
        Some(Table::Fence(fence)) => run_one("fence", &fence.common),
        Some(Table::Gate(gate)) => run_one("gate", &gate.common),
        Some(Table::Run(programs)) => run_one(if programs.profile { "run-profile" } else { "run" }, &programs.common),
        Some(Table::Kv(kv)) => run_one(if kv.memory { "kv-memory" } else { "kv" }, &kv.common),
        Some(Table::Split(split)) => run_one("split", &split.common),
        Some(Table::Ratio(ratio)) => run_one("ratio", &ratio.common),
        Some(Table::Breakdown(breakdown)) => run_one("breakdown", &breakdown.common),
        Some(Table::Echo(echo)) => run_one(echo.link.table(), &echo.common),
        None if arguments.list => {
            for entry in &TABLES {
                sayln!("{}", fitted(&format!("{:<12}  {}", entry.name, entry.about)));
            }
            Ok(())
        }
        None => {
            let all = TABLES.iter().filter_map(|entry| match entry.missing {
                Some(remedy) if arguments.all => {
                    log::warning!("table", "{} is left out: {remedy}", entry.name);
                    None
                }
                _ => Some(entry.name),
            });
            let some = arguments.tables.iter().map(String::as_str);
            let names: Vec<&str> = if arguments.all { all.collect() } else { some.collect() };
            if names.is_empty() {
                return Err("which? --all, --tables with names (--list has them), or one by its command".to_owned());
            }
            let sections = measure(&names, &arguments.common, None)?;
            finish(&sections, &arguments.common, true)
        }
    }
}

fn run_and_draw(name: &str, common: &Common, svg: &Path) -> Result<(), String> {
    let sections = measure(&[name], common, Some(svg))?;
    draw(&sections, svg)?;
    finish(&sections, common, false)
}

fn run_one(name: &str, common: &Common) -> Result<(), String> {
    finish(&measure(&[name], common, None)?, common, false)
}

fn measure(names: &[&str], common: &Common, picture: Option<&Path>) -> Result<Vec<Section>, String> {
    measure_on(names, common, picture, (None, false))
}

/// `on`: the file or device of a table of disks, and whether it may be overwritten.
fn measure_on(
    names: &[&str],
    common: &Common,
    picture: Option<&Path>,
    (on, overwrite): (Option<PathBuf>, bool),
) -> Result<Vec<Section>, String> {
    let entries = names.iter().map(|name| tables::named(name)).collect::<Result<Vec<&Entry>, _>>();
    let entries = entries.map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    // Before an hour of measuring, not after it. What is there stays until there is something better.
    let can_write = |path: &Path| std::fs::OpenOptions::new().create(true).append(true).open(path).map(|_| ());
    if let Some(report) = &common.report {
        can_write(report).map_err(|error| refused(report, &error, "--report"))?;
        if is_document(report) {
            let text = document_at(report)?;
            for name in names {
                document::place(&text, name).map_err(|error| format!("{}: {error}", report.display()))?;
            }
        }
    }
    if let Some(picture) = picture {
        can_write(picture).map_err(|error| refused(picture, &error, "--svg"))?;
    }
    let options = BenchOptions {
        program,
        quick: common.quick,
        repetitions: common.repetitions,
        duration: common.duration,
        on,
        overwrite,
        filter: common.filter.clone(),
    };
    // Drawn on standard error, and only where that is a terminal: the tables alone go to standard output.
    let progress = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {msg}") {
        progress.set_style(style);
    }
    let sections = tables::run(&entries, &options, &mut |message| {
        progress.set_message(message.to_owned());
        progress.tick();
    });
    progress.finish_and_clear();
    Ok(sections)
}

/// Prints the tables, writes the report, and fails if one could not be made.
fn finish(sections: &[Section], common: &Common, several: bool) -> Result<(), String> {
    let tables: Vec<_> = sections.iter().filter_map(|section| section.outcome.as_ref().ok()).collect();
    let failures: Vec<String> = sections
        .iter()
        .filter_map(|section| {
            let error = section.outcome.as_ref().err()?;
            Some(if several { format!("{}: {error}", section.name) } else { error.to_string() })
        })
        .collect();
    if common.json {
        let found: Vec<_> = tables.iter().map(|(table, _)| table).collect();
        let text = match (several, found.first()) {
            (true, _) => serde_json::to_string_pretty(&serde_json::json!({ "tables": found, "failures": failures })),
            (false, Some(table)) => serde_json::to_string_pretty(table),
            (false, None) => Ok(String::new()),
        };
        sayln!("{}", text.map_err(|error| error.to_string())?);
    } else {
        tables.iter().for_each(|(table, _)| sayln!("{table}"));
    }
    if let Some(report) = &common.report {
        write_report(report, sections)?;
        log::info!("report", "report: {}", report.display());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n       ")) }
}

/// Whether a report is Markdown, by its name.
fn is_document(report: &Path) -> bool {
    report.extension().is_some_and(|ending| ending == "md")
}

/// The document that a report is to become part of.
fn document_at(report: &Path) -> Result<String, String> {
    std::fs::read_to_string(report).map_err(|error| refused(report, &error, "--report"))
}

/// The report as a page, or in a document of Markdown.
fn write_report(report: &Path, sections: &[Section]) -> Result<(), String> {
    const TITLE: &str = "Qanat beside others";
    let write =
        |file: &Path, text: String| std::fs::write(file, text).map_err(|error| refused(file, &error, "--report"));
    if !is_document(report) {
        return write(report, page(TITLE, sections));
    }
    let name = |section: &Section| {
        let stem = report.file_stem().unwrap_or_default().to_string_lossy();
        format!("{stem}-{}.svg", section.name)
    };
    let mut drawn = Vec::new();
    for section in sections {
        if let Ok((_, chart)) = &section.outcome
            && !chart.panels.is_empty()
        {
            write(&report.with_file_name(name(section)), chart.to_svg())?;
            drawn.push(section.name.as_str());
        }
    }
    let picture = |section: &Section| drawn.contains(&section.name.as_str()).then(|| name(section));
    let text = document::renewed(&document_at(report)?, TITLE, sections, picture);
    write(report, text.map_err(|error| format!("{}: {error}", report.display()))?)
}

fn draw(sections: &[Section], path: &Path) -> Result<(), String> {
    let Some(Ok((_, chart))) = sections.first().map(|section| &section.outcome) else { return Ok(()) };
    std::fs::write(path, chart.to_svg()).map_err(|error| refused(path, &error, "--svg"))?;
    log::info!("report", "picture: {}", path.display());
    Ok(())
}

fn refused(file: &Path, error: &std::io::Error, option: &str) -> String {
    format!("{}: {error}; name another file with {option}", file.display())
}
