//! Runs a target for a bounded time on stable Rust: seeded, without coverage feedback.

use crate::{Target, mutate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// An input that keeps a target busy for this long counts as a hang.
pub const HANG_TIME: Duration = Duration::from_secs(10);

/// Attempts at making a crashing input smaller.
const SHRINK_ATTEMPTS_MAX: usize = 4000;

/// What stopped a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The target panicked.
    Panic,
    /// The target didn't return within [`HANG_TIME`].
    Hang,
}

/// An input that a target doesn't take.
#[derive(Debug)]
pub struct Crash {
    /// The input, made smaller if it panics.
    pub input: Vec<u8>,
    /// Which of the run's inputs it was.
    pub iteration: u64,
    /// How it shows.
    pub cause: Cause,
}

/// How long to run.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Wall-clock time.
    pub time: Duration,
    /// Inputs.
    pub iterations: u64,
}

/// The corpus of a target, in order of file names so that a seed means the same everywhere.
pub fn load_corpus(directory: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(std::fs::read).collect()
}

/// Whether the target returns from this input. A hang isn't noticed here.
fn passes(target: &Target, input: &[u8]) -> bool {
    // Targets keep no state across calls.
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok()
}

/// Runs the corpus as it is, then mutations of it until the bound. Returns the inputs tried, or the first crash. Panics'
/// messages go to the panic hook, as always.
pub fn run(target: &Target, corpus: &[Vec<u8>], seed: u64, bound: Bound) -> Result<u64, Crash> {
    let iteration = AtomicU64::new(0);
    let current = Mutex::new(Vec::new());
    let (finished, wait) = mpsc::channel();
    let target = *target;
    // A hanging worker can't be stopped, only left behind: so it owns what it uses.
    let shared = std::sync::Arc::new((iteration, current));
    let (theirs, their_corpus) = (shared.clone(), corpus.to_vec());
    std::thread::spawn(move || {
        let result = work(&target, &their_corpus, seed, bound, &theirs.0, &theirs.1);
        // The receiver is gone only after a hang.
        let _ = finished.send(result);
    });
    let mut last = (u64::MAX, Instant::now());
    loop {
        match wait.recv_timeout(Duration::from_millis(200)) {
            Ok(Ok(iterations)) => return Ok(iterations),
            Ok(Err(crash)) => return Err(crash),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the fuzzing thread ended without a result"),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let now = shared.0.load(Ordering::Relaxed);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > HANG_TIME {
                    let input = shared.1.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    return Err(Crash { input, iteration: now, cause: Cause::Hang });
                }
            }
        }
    }
}

fn work(
    target: &Target,
    corpus: &[Vec<u8>],
    seed: u64,
    bound: Bound,
    iteration: &AtomicU64,
    current: &Mutex<Vec<u8>>,
) -> Result<u64, Crash> {
    let started = Instant::now();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut input = Vec::with_capacity(mutate::LENGTH_MAX);
    let mut count = 0u64;
    while count < bound.iterations && (!count.is_multiple_of(64) || started.elapsed() < bound.time) {
        match usize::try_from(count).ok().and_then(|index| corpus.get(index)) {
            Some(entry) => {
                input.clear();
                input.extend_from_slice(entry);
            }
            None => {
                mutate::mutate(&mut random, corpus, &mut input);
                let repaired = random.bool();
                if let Some(repair) = target.repair.filter(|_| repaired) {
                    repair(&mut input);
                }
            }
        }
        current.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&input);
        iteration.store(count, Ordering::Relaxed);
        if !passes(target, &input) {
            return Err(Crash { input: shrink(target, input, iteration), iteration: count, cause: Cause::Panic });
        }
        count += 1;
    }
    Ok(count)
}

/// Makes a crashing input shorter and simpler while it still panics. Its panics aren't printed.
fn shrink(target: &Target, mut input: Vec<u8>, alive: &AtomicU64) -> Vec<u8> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut attempts = 0;
    let mut attempt = |candidate: &[u8]| {
        attempts += 1;
        // Shows the watchdog that shrinking goes on.
        alive.fetch_add(1, Ordering::Relaxed);
        attempts <= SHRINK_ATTEMPTS_MAX && !passes(target, candidate)
    };
    let mut piece = input.len() / 2;
    while piece > 0 {
        let mut at = input.len();
        while at > 0 {
            at = at.saturating_sub(piece);
            let end = (at + piece).min(input.len());
            let candidate = [&input[..at], &input[end..]].concat();
            if attempt(&candidate) {
                input = candidate;
            }
        }
        piece /= 2;
    }
    for at in 0..input.len() {
        let byte = std::mem::replace(&mut input[at], 0);
        if byte != 0 && !attempt(&input) {
            input[at] = byte;
        }
    }
    std::panic::set_hook(hook);
    input
}

/// Writes a crash to `directory` and returns where.
pub fn save(crash: &Crash, target: &Target, seed: u64, directory: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join(format!("{}-{seed:016x}-{}.bin", target.name, crash.iteration));
    std::fs::write(&path, &crash.input)?;
    Ok(path)
}
