//! Where processors are, by sampling: `perf record` of the whole machine while something is loaded. Only samples of the
//! measurement's own processes are kept; the caller sorts them by their stacks.

use super::HarnessError;
use super::process::{Spec, start};
use qanat_nic::link::Namespace;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

const PERF: &str = "/usr/bin/perf";
/// Samples a second on each processor.
const FREQUENCY: u32 = 10_000;
/// From the start of the load until it runs evenly.
const SETTLING: Duration = Duration::from_millis(900);
/// The sampled time is looked at in so many parts: where one has no sample of the measurement's own, the load did not run through all of it.
const PARTS: usize = 8;
/// So often is it sampled anew then.
const TRIES: usize = 3;
/// The load runs for so long after the sampled time, at least: `perf` takes a while to begin.
const MARGIN: Duration = Duration::from_millis(600);

/// Whether `perf` is there.
pub fn has_perf() -> bool {
    Path::new(PERF).exists()
}

/// A sample: where, and the functions from the innermost out.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// When, by perf's clock.
    pub at_s: f64,
    /// The processor.
    pub cpu: usize,
    /// The process.
    pub process: u32,
    /// The thread's name, 15 bytes at most.
    pub program: String,
    /// By name.
    pub functions: Vec<String>,
    /// The file the innermost is from: a program's, a library's, `[kernel.kallsyms]`.
    pub object: String,
}

/// Samples of some time.
pub struct Samples {
    /// All of them.
    pub samples: Vec<Sample>,
    /// The time sampled.
    pub duration_s: f64,
    /// The time a sample stands for.
    pub period_ns: f64,
}

/// Samples the machine while `work` loads something for `whole`, which is some seconds, its warm-up included. Keeps the samples of processes that are in one of
/// `namespaces`, which must be the measurement's own, and of the kernel's threads: whatever else runs on the machine, in
/// whatever program's name, does not count. When the load did not run through all of the sampled time, it is done again.
pub fn during<T>(
    whole: Duration,
    namespaces: &[&Namespace],
    mut work: impl FnMut() -> T,
) -> (T, Result<Samples, HarnessError>) {
    let mut last = once(whole, namespaces, &mut work);
    for _ in 1..TRIES {
        if !matches!(last.1, Err(Failed::Uneven)) {
            break;
        }
        last = once(whole, namespaces, &mut work);
    }
    let explain = |failed| match failed {
        Failed::Uneven => HarnessError::Child(format!(
            "the load did not run through the time that was sampled, {TRIES} times: the machine is busy; measure longer, by -d"
        )),
        Failed::Other(error) => error,
    };
    (last.0, last.1.map_err(explain))
}

/// Why there are no samples.
enum Failed {
    Uneven,
    Other(HarnessError),
}

impl From<HarnessError> for Failed {
    fn from(error: HarnessError) -> Failed {
        Failed::Other(error)
    }
}

fn once<T>(whole: Duration, namespaces: &[&Namespace], work: &mut impl FnMut() -> T) -> (T, Result<Samples, Failed>) {
    let length = whole.saturating_sub(SETTLING + MARGIN).max(Duration::from_millis(100));
    let file = std::env::temp_dir().join(format!("qanat-bench-perf-{}", std::process::id()));
    let path = file.display().to_string();
    let (delay, frequency) = (SETTLING.as_millis().to_string(), FREQUENCY.to_string());
    let sleep = format!("{:.3}", (SETTLING + length).as_secs_f64());
    let arguments = [
        "record",
        "--all-cpus",
        "--event",
        "cpu-clock",
        "--freq",
        &frequency,
        "--call-graph",
        "fp",
        "--delay",
        &delay,
        "--output",
        &path,
        "--quiet",
        "--",
        "sleep",
        &sleep,
    ];
    let perf = start(&Spec::new("perf", PERF, &arguments));
    // One look, in the middle: a look at all processes takes time of the processors that are sampled.
    let (result, own) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            std::thread::sleep(SETTLING + length / 2);
            processes_in(namespaces)
        });
        (work(), looking.join().unwrap_or_default())
    });
    let sampled = || -> Result<Samples, Failed> {
        perf?.output(whole + Duration::from_secs(20))?;
        let fields = ["script", "--input", &path, "--fields", "comm,pid,cpu,time,ip,sym,dso", "--force"];
        let text = start(&Spec::new("perf script", PERF, &fields))?.output(Duration::from_secs(60))?;
        let period_ns = 1e9 / f64::from(FREQUENCY);
        let mut samples = parse(&text);
        if !runs_throughout(&samples, &own) {
            return Err(Failed::Uneven);
        }
        samples.retain(|sample| sample.is_of_kernel() || own.contains(&sample.process));
        Ok(Samples { samples, duration_s: length.as_secs_f64(), period_ns })
    };
    let samples = sampled();
    let _ = std::fs::remove_file(&file);
    (result, samples)
}

/// Whether the processes called `own` are seen in every part of the sampled time. Processors that wait are sampled too, so the samples
/// begin and end with that time.
fn runs_throughout(samples: &[Sample], own: &HashSet<u32>) -> bool {
    let times = || samples.iter().map(|sample| sample.at_s);
    let (from, to) = (times().fold(f64::INFINITY, f64::min), times().fold(f64::NEG_INFINITY, f64::max));
    let mut is_seen = [false; PARTS];
    for sample in samples.iter().filter(|sample| own.contains(&sample.process)) {
        let part = (sample.at_s - from) / (to - from) * PARTS as f64;
        is_seen[(part as usize).min(PARTS - 1)] = true;
    }
    is_seen.iter().all(|seen| *seen)
}

/// The processes whose network namespace is one of `namespaces`.
fn processes_in(namespaces: &[&Namespace]) -> HashSet<u32> {
    let inode = |namespace: &&Namespace| rustix::fs::fstat(namespace.as_fd()).ok().map(|status| status.st_ino);
    let wanted: HashSet<u64> = namespaces.iter().filter_map(inode).collect();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_there = |process: &u32| {
        rustix::fs::stat(format!("/proc/{process}/ns/net")).is_ok_and(|status| wanted.contains(&status.st_ino))
    };
    numbers.filter(is_there).collect()
}

/// Reads what `perf script` prints: a line with program, process, processor and time, a line for each function, an empty line.
fn parse(text: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.trim().is_empty());
        let Some((program, rest)) = lines.next().and_then(|line| line.rsplit_once('[')) else { continue };
        let Some(cpu) = rest.split(']').next().and_then(|cpu| cpu.trim().parse().ok()) else { continue };
        let at_s =
            rest.split(']').nth(1).and_then(|time| time.trim().trim_end_matches(':').parse().ok()).unwrap_or(0.0);
        // The kernel's idle threads have the number 0.
        let Some((program, process)) = program.trim().rsplit_once(' ') else { continue };
        let Ok(process) = process.trim().parse() else { continue };
        let lines: Vec<&str> = lines.collect();
        let function = |line: &&str| Some(line.split_whitespace().nth(1)?.to_owned());
        let object = |line: &&str| Some(line.rsplit_once(" (")?.1.trim_end().trim_end_matches(')').to_owned());
        samples.push(Sample {
            at_s,
            cpu,
            process,
            program: program.trim().to_owned(),
            functions: lines.iter().filter_map(function).collect(),
            object: lines.first().and_then(object).unwrap_or_default(),
        });
    }
    samples
}

/// The processor waits.
const IDLE: [&str; 6] =
    ["default_idle", "pv_native_safe_halt", "acpi_safe_halt", "native_safe_halt", "cpuidle", "mwait"];

/// Whether a name begins with one of `names`.
pub fn begins(name: &str, names: &[&str]) -> bool {
    names.iter().any(|beginning| name.starts_with(beginning))
}

impl Sample {
    /// Whether a function on its stack begins with one of `names`.
    pub fn has(&self, names: &[&str]) -> bool {
        self.functions.iter().any(|function| begins(function, names))
    }

    /// Whether the processor waited.
    pub fn is_idle(&self) -> bool {
        self.functions.first().is_none_or(|innermost| begins(innermost, &IDLE))
    }

    /// Whether it was no program's: interrupts in idle processors, and their thread.
    pub fn is_of_kernel(&self) -> bool {
        self.process == 0 || self.program.starts_with("ksoftirqd/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read() {
        let samples = parse(
            "qanat 17 [000]  3702.250500: \n\tffffffff81 rep_movs_alternative ([kernel.kallsyms])\n\tffffffff82 _copy_to_iter ([kernel.kallsyms])\n\
             \t 55 recvfrom (/lib/libc.so.6)\n\nswapper     0 [001]  3702.250600: \n\tffffffff81 pv_native_safe_halt ([kernel.kallsyms])\n\n\
             a b  4711 [001] 3702.250700:\n\t55 <T as X>::y (/opt/a (b)/libx.so)\n",
        );
        assert_eq!(samples[0].functions, ["rep_movs_alternative", "_copy_to_iter", "recvfrom"]);
        assert_eq!((samples[0].cpu, samples[0].process, samples[0].object.as_str()), (0, 17, "[kernel.kallsyms]"));
        assert_eq!(samples.iter().map(|sample| sample.at_s).collect::<Vec<_>>(), [3702.2505, 3702.2506, 3702.2507]);
        assert!(samples[1].is_idle() && samples[1].is_of_kernel() && !samples[0].is_idle());
        assert_eq!((samples[2].program.as_str(), samples[2].process), ("a b", 4711));
        assert!(parse("").is_empty() && parse("garbage\n\n[x]\n").is_empty());
    }

    /// One end of the load that starts late, or ends early, would have its requests cost less than they do.
    #[test]
    fn a_load_that_does_not_run_all_the_time_is_seen() {
        let sample = |at: usize, process| Sample {
            at_s: 100.0 + at as f64 * 0.01,
            cpu: 0,
            process,
            program: String::new(),
            functions: Vec::new(),
            object: String::new(),
        };
        let own = HashSet::from([7]);
        let with = |from: usize, to: usize| {
            let idle = (0..100).map(|at| sample(at, 0));
            let samples: Vec<Sample> = idle.chain((from..to).map(|at| sample(at, 7))).collect();
            runs_throughout(&samples, &own)
        };
        assert!(with(0, 100) && with(5, 95));
        assert!(!with(20, 100) && !with(0, 80) && !with(50, 50));
        assert!(!runs_throughout(&[], &own));
    }

    #[test]
    fn processes_are_known_by_their_namespace() {
        let here = processes_in(&[&Namespace::current().unwrap()]);
        assert!(here.contains(&std::process::id()));
        assert!(processes_in(&[]).is_empty());
    }
}
