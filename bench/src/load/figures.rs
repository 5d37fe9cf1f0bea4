//! What a run counts, and the report made of it.

use crate::machine::{CpuTimes, MachineSample};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why a request or connection failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The server refused the connection.
    ConnectRefused,
    /// No connection: nobody answered, or there is no way to the server.
    ConnectUnreachable,
    /// No local port, address or connection slot was left.
    NoPort,
    /// No complete answer within the time-out.
    Timeout,
    /// The server reset the connection, or closed it before answering.
    Reset,
    /// A complete answer whose status is not 2xx.
    Status,
    /// The stream ended within an answer.
    ShortBody,
    /// The answer is not HTTP/1.x.
    Protocol,
    /// The body differs from the first one received for the same URL (`--verify`).
    Body,
}

impl ErrorKind {
    const ALL: [ErrorKind; 9] = [
        ErrorKind::ConnectRefused,
        ErrorKind::ConnectUnreachable,
        ErrorKind::NoPort,
        ErrorKind::Timeout,
        ErrorKind::Reset,
        ErrorKind::Status,
        ErrorKind::ShortBody,
        ErrorKind::Protocol,
        ErrorKind::Body,
    ];
}

/// Errors by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ErrorCounts {
    /// [`ErrorKind::ConnectRefused`].
    pub connect_refused: u64,
    /// [`ErrorKind::ConnectUnreachable`].
    pub connect_unreachable: u64,
    /// [`ErrorKind::NoPort`].
    pub no_port: u64,
    /// [`ErrorKind::Timeout`].
    pub timeout: u64,
    /// [`ErrorKind::Reset`].
    pub reset: u64,
    /// [`ErrorKind::Status`].
    pub status: u64,
    /// [`ErrorKind::ShortBody`].
    pub short_body: u64,
    /// [`ErrorKind::Protocol`].
    pub protocol: u64,
    /// [`ErrorKind::Body`].
    pub body: u64,
}

impl ErrorCounts {
    /// Counts one.
    pub fn add(&mut self, kind: ErrorKind) {
        *self.slot(kind) += 1;
    }

    fn slot(&mut self, kind: ErrorKind) -> &mut u64 {
        match kind {
            ErrorKind::ConnectRefused => &mut self.connect_refused,
            ErrorKind::ConnectUnreachable => &mut self.connect_unreachable,
            ErrorKind::NoPort => &mut self.no_port,
            ErrorKind::Timeout => &mut self.timeout,
            ErrorKind::Reset => &mut self.reset,
            ErrorKind::Status => &mut self.status,
            ErrorKind::ShortBody => &mut self.short_body,
            ErrorKind::Protocol => &mut self.protocol,
            ErrorKind::Body => &mut self.body,
        }
    }

    /// All of them together.
    pub fn total(mut self) -> u64 {
        ErrorKind::ALL.iter().map(|kind| *self.slot(*kind)).sum()
    }
}

impl fmt::Display for ErrorCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            ("refused", self.connect_refused),
            ("unreachable", self.connect_unreachable),
            ("no port left", self.no_port),
            ("timed out", self.timeout),
            ("reset", self.reset),
            ("status not 2xx", self.status),
            ("short body", self.short_body),
            ("not HTTP", self.protocol),
            ("body differs", self.body),
        ];
        let mut first = true;
        for (name, count) in named.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, "{}{count} {name}", if first { "" } else { ", " })?;
            first = false;
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

/// Time from a request's start to its answer's last byte, or of a handshake: nanoseconds in a high-dynamic-range
/// histogram, three significant digits from 64 ns to 100 s.
#[derive(Clone, Debug)]
pub struct LatencyHistogram(Histogram<u64>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram::new()
    }
}

impl LatencyHistogram {
    const LOW_NS: u64 = 64;
    const HIGH_NS: u64 = 100_000_000_000;

    /// An empty one.
    pub fn new() -> LatencyHistogram {
        // Constant bounds, tested below: the crate refuses only a high bound under twice the low one.
        #[allow(clippy::expect_used, reason = "constants")]
        let histogram = Histogram::new_with_bounds(Self::LOW_NS, Self::HIGH_NS, 3).expect("valid bounds");
        LatencyHistogram(histogram)
    }

    /// Counts one; beyond the range counts at its end.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Its summary in microseconds.
    pub fn summary(&self) -> Latency {
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1_000.0;
        if self.0.is_empty() {
            return Latency::default();
        }
        Latency {
            count: self.0.len(),
            min: microseconds(self.0.min()),
            mean: self.0.mean() / 1_000.0,
            p50: microseconds(self.0.value_at_quantile(0.5)),
            p90: microseconds(self.0.value_at_quantile(0.9)),
            p99: microseconds(self.0.value_at_quantile(0.99)),
            p99_9: microseconds(self.0.value_at_quantile(0.999)),
            max: microseconds(self.0.max()),
        }
    }
}

/// Percentiles, microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// How many were counted.
    pub count: u64,
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Largest.
    pub max: f64,
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p50 {:.1}  p90 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1} µs",
            self.p50, self.p90, self.p99, self.p99_9, self.max
        )
    }
}

/// Live figures since the last call of [`Engine::figures`](super::engine::Engine::figures).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Answers a second.
    pub requests_per_s: f64,
    /// Received bytes of answers, heads included, Gbit/s.
    pub gbit_per_s: f64,
    /// Connections open now.
    pub open: usize,
    /// Answers since the start.
    pub requests: u64,
    /// Errors since the start.
    pub errors: u64,
    /// Median answer time since the start of the window, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} requests/s  {:.3} Gbit/s  {} open  p50 {:.1} µs  p99 {:.1} µs  {} errors",
            self.requests_per_s, self.gbit_per_s, self.open, self.p50_us, self.p99_us, self.errors
        )
    }
}

/// Open-loop counters.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Requests a second asked for.
    pub rate_per_s: f64,
    /// Requests that came due in the window.
    pub scheduled: u64,
    /// Requests that were sent more than 1 ms after they were due.
    pub late: u64,
    /// Requests that were never sent because the backlog was full.
    pub dropped: u64,
    /// Most requests that waited at once.
    pub backlog_peak: u64,
}

/// The result of a run. Latencies are in microseconds; everything counts the window after the warm-up only, but errors,
/// which count from the start.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// `native` (our stack) or `kernel` (sockets).
    pub client: String,
    /// What was asked for, and of whom.
    pub url: String,
    /// The server's address.
    pub peer: String,
    /// Connections kept busy.
    pub connections: usize,
    /// A new connection for every request.
    pub close: bool,
    /// Requests in flight per connection.
    pub pipeline: usize,
    /// Length of the window, seconds.
    pub duration_s: f64,
    /// Complete answers.
    pub requests: u64,
    /// Complete answers a second.
    pub requests_per_s: f64,
    /// Bytes received: heads and bodies.
    pub received_bytes: u64,
    /// The same as a rate.
    pub gbit_per_s: f64,
    /// From a request's start (closed loop: when it was sent, or its connection begun with `close`; open loop: when it
    /// was due) to the last byte of its answer.
    pub response_time_us: Latency,
    /// From SYN to the handshake's end; from the start of the run.
    pub connect_time_us: Latency,
    /// By kind, from the start of the run.
    pub errors: ErrorCounts,
    /// All errors.
    pub errors_total: u64,
    /// Connections opened in the whole run.
    pub connections_opened: u64,
    /// Only in an open loop.
    pub open_loop: Option<OpenLoop>,
    /// CPU time of the loader's process in the window, seconds.
    pub client_cpu_s: f64,
    /// Share of the window in which the loader, polling, found nothing to do (native client only).
    pub client_idle_share: Option<f64>,
    /// CPU time by processor in the window, the whole machine.
    pub cpus: Vec<CpuTimes>,
    /// CPU time in the window of the process watched ([`HttpLoadOptions::watch_process`](super::HttpLoadOptions)),
    /// seconds.
    pub watched_cpu_s: Option<f64>,
}

impl Report {
    /// Fills in the processors' shares from samples at both ends of the window.
    pub(crate) fn set_machine(&mut self, before: &MachineSample, after: &MachineSample) {
        self.client_cpu_s = (after.own_cpu_s - before.own_cpu_s).max(0.0);
        self.cpus = after.cpus.iter().zip(&before.cpus).map(|(after, before)| after.since(before)).collect();
        self.watched_cpu_s = after.watched_cpu_s.zip(before.watched_cpu_s).map(|(after, before)| after - before);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} from {}: {} connections, {}, {:.1} s, {} client",
            self.url,
            self.peer,
            self.connections,
            match (self.close, self.pipeline) {
                (true, _) => "a new one per request".to_owned(),
                (false, 1) => "kept alive".to_owned(),
                (false, depth) => format!("kept alive, {depth} requests in flight each"),
            },
            self.duration_s,
            self.client
        )?;
        writeln!(f, "  requests       {} ({:.0}/s)", self.requests, self.requests_per_s)?;
        writeln!(f, "  received       {} bytes ({:.3} Gbit/s)", self.received_bytes, self.gbit_per_s)?;
        writeln!(f, "  response time  {}", self.response_time_us)?;
        if self.connect_time_us.count > 0 {
            writeln!(f, "  connect time   {} ({} connections)", self.connect_time_us, self.connections_opened)?;
        }
        if let Some(open) = &self.open_loop {
            writeln!(
                f,
                "  open loop      {} due at {:.0}/s, {} sent over 1 ms late, {} dropped, backlog at most {}",
                open.scheduled, open.rate_per_s, open.late, open.dropped, open.backlog_peak
            )?;
        }
        let idle = self.client_idle_share.map_or(String::new(), |share| format!(", idle {:.0} %", share * 100.0));
        writeln!(f, "  loader's CPU   {:.2} s{idle}", self.client_cpu_s)?;
        write!(f, "  errors         {}", self.errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut histogram = LatencyHistogram::new();
        for microseconds in 1..=1_000 {
            histogram.record(Duration::from_micros(microseconds));
        }
        histogram.record(Duration::from_secs(1_000));
        let summary = histogram.summary();
        assert_eq!(summary.count, 1_001);
        assert!((summary.p50 - 501.0).abs() < 2.0, "{summary:?}");
        assert!((summary.p99 - 991.0).abs() < 3.0, "{summary:?}");
        assert!(summary.max >= 100e6 * 0.999, "clamped to the range's end: {summary:?}");
        assert_eq!(LatencyHistogram::new().summary(), Latency::default());
    }

    #[test]
    fn errors_by_kind() {
        let mut errors = ErrorCounts::default();
        assert_eq!(errors.to_string(), "none");
        for kind in ErrorKind::ALL {
            errors.add(kind);
        }
        errors.add(ErrorKind::Reset);
        assert_eq!(errors.total(), 10);
        assert!(errors.to_string().contains("2 reset"));
    }

    #[test]
    fn a_report_survives_json() {
        let report = Report { url: "http://x/".to_owned(), open_loop: Some(OpenLoop::default()), ..Report::default() };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
