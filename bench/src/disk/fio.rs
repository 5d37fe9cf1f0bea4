//! The flexible I/O tester, as a peer.

use super::point::{Outcome, Point, busy};
use crate::harness::HarnessError;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const MISSING: &str = "fio is not here: apt-get install fio";

/// Whether it is there.
pub(super) fn look() -> Result<(), HarnessError> {
    version().map(drop)
}

/// What it says it is.
pub(super) fn version() -> Result<String, HarnessError> {
    let output = Command::new("fio").arg("--version").output();
    let output = output.map_err(|_| HarnessError::Missing(MISSING.to_owned()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs it at a point, with the options of an engine.
pub(super) fn measure(
    engine: &[&str],
    path: &Path,
    bytes: u64,
    point: Point,
    duration: Duration,
) -> Result<Outcome, HarnessError> {
    let mut command = Command::new("fio");
    command.args(["--name=peer", "--direct=1", "--time_based", "--norandommap", "--randrepeat=0", "--invalidate=0"]);
    command.args(["--output-format=json", "--thread", "--gtod_reduce=0", "--allow_file_create=0"]).args(engine);
    command.arg(format!("--filename={}", path.display()));
    command.arg(format!("--rw={}", if point.is_write { "randwrite" } else { "randread" }));
    command.arg(format!("--bs={}", point.bytes)).arg(format!("--iodepth={}", point.depth));
    command.arg(format!("--size={bytes}")).arg(format!("--runtime={}ms", duration.as_millis()));
    let (output, busy_s) = busy(|| command.output().map_err(|error| HarnessError::system("run fio", error)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(HarnessError::Child(format!("fio: {}", said.trim())));
    }
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    read(&report, point, busy_s)
        .ok_or_else(|| HarnessError::Child("fio printed a report that can't be read".to_owned()))
}

/// What its report says.
fn read(report: &Value, point: Point, busy_s: f64) -> Option<Outcome> {
    let job = report.get("jobs")?.get(0)?.get(if point.is_write { "write" } else { "read" })?;
    let requests = job.get("total_ios")?.as_f64()?;
    let percentile = |name: &str| Some(job.get("clat_ns")?.get("percentile")?.get(name)?.as_f64()? / 1e3);
    Some(Outcome {
        requests_per_s: job.get("iops")?.as_f64()?,
        cpu_us: busy_s * 1e6 / requests.max(1.0),
        p50_us: percentile("50.000000")?,
        p99_us: percentile("99.000000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_and_nonsense_is_not() {
        let text = r#"{"jobs": [{"read": {"total_ios": 1000, "iops": 500.5, "clat_ns": {"percentile": {"50.000000": 40448, "99.000000": 90000}}}}]}"#;
        let report: Value = serde_json::from_str(text).unwrap();
        let point = Point { is_write: false, bytes: 512, depth: 1 };
        let outcome = read(&report, point, 0.01).unwrap();
        assert_eq!((outcome.requests_per_s, outcome.cpu_us, outcome.p50_us), (500.5, 10.0, 40.448));
        assert!(read(&report, Point { is_write: true, ..point }, 0.01).is_none());
        assert!(read(&Value::Null, point, 0.01).is_none());
    }
}
