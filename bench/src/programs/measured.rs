//! What one run of a program under a load yields.

use crate::load::Report;
use crate::load::echo::EchoReport;
use crate::load::figures::Latency;
use crate::load::values::ValueReport;
use crate::machine::CpuTimes;

/// The server's processor.
pub(crate) const SERVER_CPU: usize = 0;
/// The client's processor.
pub(crate) const CLIENT_CPU: usize = 1;
/// A processor busier than this was at its limit.
const SATURATED_SHARE: f64 = 0.97;

/// What one run yields.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub per_s: f64,
    pub count: f64,
    pub duration_s: f64,
    pub latency: Latency,
    pub bad: u64,
    pub cpus: Vec<CpuTimes>,
}

impl Measured {
    /// From the load's last line.
    pub(crate) fn read(output: &str) -> Option<Measured> {
        let line = output.lines().rev().find(|line| line.starts_with('{'))?;
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        if value.get("response_time_us").is_some() {
            let report: Report = serde_json::from_str(line).ok()?;
            return Some(Measured {
                per_s: report.requests_per_s,
                count: report.requests as f64,
                duration_s: report.duration_s,
                latency: report.response_time_us,
                bad: report.errors_total,
                cpus: report.cpus,
            });
        }
        let (trips, bad) = match value.get("wrong") {
            Some(_) => {
                let report: ValueReport = serde_json::from_str(line).ok()?;
                (report.trips, report.wrong + report.closed)
            }
            None => (serde_json::from_str::<EchoReport>(line).ok()?.trips, 0),
        };
        Some(Measured {
            per_s: trips.per_s(),
            count: trips.received as f64,
            duration_s: trips.duration_s,
            latency: trips.round_trip_us,
            bad: bad + trips.lost,
            cpus: trips.cpus,
        })
    }

    pub(crate) fn busy_s(&self, cpu: usize) -> f64 {
        self.cpus.get(cpu).map_or(0.0, CpuTimes::busy_s)
    }

    pub(crate) fn server_us(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.busy_s(SERVER_CPU) * 1e6 / self.count)
    }

    pub(crate) fn both_us(&self) -> Option<f64> {
        (self.count > 0.0).then(|| (self.busy_s(SERVER_CPU) + self.busy_s(CLIENT_CPU)) * 1e6 / self.count)
    }

    pub(crate) fn is_server_busy(&self) -> bool {
        self.busy_s(SERVER_CPU) >= SATURATED_SHARE * self.duration_s
    }

    /// The same, with the times of the processors.
    pub(crate) fn with(self, cpus: Vec<CpuTimes>) -> Measured {
        Measured { cpus, ..self }
    }
}
