//! RocksDB's own benchmark, `db_bench`: writes that are answered when they are durable, without a network.

use crate::harness::HarnessError;
use crate::harness::installed::find;
use crate::harness::process::{Spec, start};
use crate::harness::scratch::Scratch;
use crate::harness::topology::Topology;
use crate::load::figures::Latency;
use crate::machine::MachineSample;
use crate::programs::clients::between;
use crate::programs::measured::{Measured, SERVER_CPU};
use std::path::PathBuf;
use std::time::Duration;

/// How long it may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn program() -> Result<PathBuf, HarnessError> {
    find("db_bench", "rocksdb-tools")
}

/// So many threads write values of so many bytes under random keys, each waiting until its own is durable, on the store's processor.
pub(super) fn measure(
    topology: &Topology,
    scratch: &Scratch,
    (threads, value_bytes): (u32, usize),
    duration: Duration,
) -> Result<Measured, HarnessError> {
    let seconds = duration.as_secs().max(1);
    let directory = scratch.path().join("rocksdb");
    let words = [
        "--benchmarks=fillrandom".to_owned(),
        format!("--db={}", directory.display()),
        "--sync=1".to_owned(),
        "--histogram=1".to_owned(),
        "--key_size=16".to_owned(),
        format!("--value_size={value_bytes}"),
        "--compression_type=none".to_owned(),
        format!("--threads={threads}"),
        format!("--duration={seconds}"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let spec = Spec::new("RocksDB", program()?, &words).placed(topology.server(), SERVER_CPU);
    let before = MachineSample::take(None);
    let output = start(&spec)?.output(Duration::from_secs(seconds) + PATIENCE)?;
    let cpus = between(&before);
    let figures = figures(&output).map(|figures| figures.with(cpus));
    figures.ok_or_else(|| HarnessError::Child(format!("RocksDB printed no figures, but: {output:?}")))
}

/// `fillrandom : 88.5 micros/op 11294 ops/sec 1.000 seconds 11295 operations; …`, and a line of percentiles.
fn figures(output: &str) -> Option<Measured> {
    let line = output.lines().find(|line| line.trim_start().starts_with("fillrandom"))?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let before = |name: &str| {
        let place = words.iter().position(|word| word.trim_end_matches(';') == name)?;
        words.get(place.checked_sub(1)?)?.parse::<f64>().ok()
    };
    let percentiles = output.lines().find(|line| line.starts_with("Percentiles:"))?;
    let after = |name: &str| {
        let mut words = percentiles.split_ascii_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse::<f64>().ok()
    };
    let latency = Latency { p50: after("P50:")?, p99: after("P99:")?, ..Latency::default() };
    let (per_s, count, duration_s) = (before("ops/sec")?, before("operations")?, before("seconds")?);
    Some(Measured { per_s, count, duration_s, latency, bad: 0, cpus: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints_is_read() {
        let output = "RocksDB:    version 7.8.3\nfillrandom   :     103.161 micros/op 9693 ops/sec 1.000 seconds 9694 operations;    9.6 MB/s\n\
                      Microseconds per write:\nCount: 9694 Average: 103.1573  StdDev: 25.56\n\
                      Percentiles: P50: 97.90 P75: 105.45 P99: 167.88 P99.9: 394.91 P99.99: 577.06\n";
        let found = figures(output).expect("figures");
        assert_eq!((found.per_s, found.count, found.duration_s), (9_693.0, 9_694.0, 1.0));
        assert_eq!((found.latency.p50, found.latency.p99), (97.9, 167.88));
        assert!(figures("open error").is_none());
    }
}
