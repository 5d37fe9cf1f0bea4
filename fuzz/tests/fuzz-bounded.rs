//! Runs fuzz targets for a bounded time on stable Rust; see the library's documentation.
#![forbid(unsafe_code)]

use clap::Parser;
use qanat_fuzz::bounded::{self, Bound};
use qanat_fuzz::{TARGETS, Target};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs fuzz targets for a bounded time on stable Rust.
#[derive(Parser)]
struct Arguments {
    /// Seconds per target.
    #[arg(long, env = "QANAT_FUZZ_SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Inputs per target, if reached before the time is up.
    #[arg(long, default_value_t = u64::MAX)]
    iterations: u64,
    /// Repeats the run with this seed; default: a new one, printed.
    #[arg(long, env = "QANAT_FUZZ_SEED")]
    seed: Option<u64>,
    /// Only this target; default: all.
    #[arg(long)]
    target: Option<String>,
    /// Runs one input from a file, once, instead.
    #[arg(long, requires = "target")]
    replay: Option<PathBuf>,
    /// Prints the targets' names.
    #[arg(long)]
    list: bool,
}

/// Why the driver could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no such target; there are: {}", .0.join(", "))]
    NoSuchTarget(Vec<&'static str>),
    #[error("can't read {}: {why}", path.display())]
    Input { path: PathBuf, why: io::Error },
    #[error("can't read the corpus {}: {why}", path.display())]
    Corpus { path: PathBuf, why: io::Error },
    #[error("can't write the crash to {}: {why}", path.display())]
    Crash { path: PathBuf, why: io::Error },
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("fuzz-bounded: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Whether no target crashed.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    if arguments.list {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return Ok(true);
    }
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| arguments.target.as_deref().is_none_or(|wanted| wanted == target.name))
        .collect();
    let Some(first) = targets.first() else {
        return Err(Failure::NoSuchTarget(TARGETS.iter().map(|target| target.name).collect()));
    };
    if let Some(path) = &arguments.replay {
        let input = std::fs::read(path).map_err(|why| Failure::Input { path: path.clone(), why })?;
        (first.run)(&input);
        println!("{}: takes {} ({} bytes)", first.name, path.display(), input.len());
        return Ok(true);
    }
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut clean = true;
    for target in targets {
        clean &= run_target(target, seed, arguments)?;
    }
    Ok(clean)
}

fn run_target(target: &Target, seed: u64, arguments: &Arguments) -> Result<bool, Failure> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = home.join("corpus").join(target.corpus);
    let corpus = bounded::load_corpus(&directory).map_err(|why| Failure::Corpus { path: directory.clone(), why })?;
    let bound = Bound { time: Duration::from_secs(arguments.seconds), iterations: arguments.iterations };
    println!("{}: seed {seed}, corpus of {}, {} s", target.name, corpus.len(), arguments.seconds);
    let started = Instant::now();
    let crash = match bounded::run(target, &corpus, seed, bound) {
        Ok(iterations) => {
            let seconds = started.elapsed().as_secs_f64();
            println!(
                "{}: ok, {iterations} inputs in {seconds:.1} s, {:.0}/s",
                target.name,
                iterations as f64 / seconds
            );
            return Ok(true);
        }
        Err(crash) => crash,
    };
    let path = bounded::save(&crash, target, seed, &home.join("crashes"))
        .map_err(|why| Failure::Crash { path: home.join("crashes"), why })?;
    println!(
        "{name}: {cause:?} at input {iteration} of seed {seed}: {length} bytes in {path}\nreplay: cargo test --package \
         qanat-fuzz --test fuzz-bounded -- --target {name} --replay {path}",
        name = target.name,
        cause = crash.cause,
        iteration = crash.iteration,
        length = crash.input.len(),
        path = path.display(),
    );
    Ok(false)
}
