//! `qanat load dns`: questions from a file, in random order, answers told by identifier and question.
//!
//! * [`options`]: whom to ask, how fast, how long
//! * [`queries`]: the file of names and types, as ready messages
//! * [`traffic`]: which question is on its way under which identifier; answers judged and counted

pub mod options;
pub mod queries;
pub mod traffic;

use super::datagrams::link::{Client, FarEnd, Link, Near};
use super::datagrams::trips::{RoundTrips, TripFigures};
use super::datagrams::{self, native};
use super::http::LoadError;
use options::DnsLoadOptions;
use qanat::StopHandle;
use qanat_nic::Vnic;
use queries::Queries;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use traffic::Questions;

/// Port of DNS.
pub const PORT: u16 = 53;

/// The result. Counts are those of the window after the warm-up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DnsReport {
    /// How it was sent: `veth`, `memif`, `pair`, `kernel`.
    pub client: String,
    /// The server that answered.
    pub target: String,
    /// Different questions.
    pub questions: usize,
    /// Answers per second.
    pub answers_per_s: f64,
    /// Bytes of answers per second, headers not counted, Gbit/s.
    pub gbit_per_s: f64,
    /// Answers by response code, as the header has it.
    pub response_codes: BTreeMap<String, u64>,
    /// Answers cut short (TC).
    pub truncated: u64,
    /// NOERROR without a record in the answer section: no such type, or a referral.
    pub without_records: u64,
    /// The identifier of a question on its way, but another question, or no answer at all: none of those above.
    pub wrong: u64,
    /// The rest.
    #[serde(flatten)]
    pub trips: RoundTrips,
}

impl DnsReport {
    fn new(options: &DnsLoadOptions, client: &str, questions: &Questions<'_>, trips: RoundTrips) -> DnsReport {
        let tally = questions.tally();
        DnsReport {
            client: client.to_owned(),
            target: options.target.to_string(),
            questions: questions.count(),
            answers_per_s: trips.per_s(),
            gbit_per_s: if trips.duration_s > 0.0 { tally.bytes as f64 * 8e-9 / trips.duration_s } else { 0.0 },
            response_codes: tally.response_codes(),
            truncated: tally.truncated,
            without_records: tally.without_records,
            wrong: tally.wrong,
            trips,
        }
    }
}

impl fmt::Display for DnsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} → {}: {} questions, {} at once, {:.2} s",
            self.client, self.target, self.questions, self.trips.window, self.trips.duration_s
        )?;
        writeln!(f, "  answers     {:.0}/s  {:.3} Gbit/s", self.answers_per_s, self.gbit_per_s)?;
        let codes: Vec<String> = self.response_codes.iter().map(|(code, count)| format!("{code} {count}")).collect();
        write!(f, "  by code     {}", if codes.is_empty() { "none".to_owned() } else { codes.join(", ") })?;
        for (count, what) in
            [(self.without_records, "without a record"), (self.truncated, "truncated"), (self.wrong, "wrong")]
        {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        writeln!(f)?;
        self.trips.fmt(f)
    }
}

/// Asks over a kernel socket.
///
/// # Errors
/// [`LoadError`].
pub fn over_kernel(
    options: &DnsLoadOptions,
    queries: &Queries,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&TripFigures),
) -> Result<DnsReport, LoadError> {
    let mut questions = Questions::new(queries, options);
    let trips = datagrams::kernel::run(&mut questions, options.target, &options.pace, stop, observe)?;
    Ok(DnsReport::new(options, "kernel", &questions, trips))
}

/// Asks over `link`, without a stack; `far` answers if it is a pair.
///
/// # Errors
/// [`LoadError`], with the remedy.
pub fn over_link(
    options: &DnsLoadOptions,
    queries: &Queries,
    (link, far): (&Link, FarEnd),
    stop: &StopHandle,
    observe: &mut dyn FnMut(&TripFigures),
) -> Result<DnsReport, LoadError> {
    link.run(options.target, DnsClient { options, queries, stop, observe }, far, stop)
}

struct DnsClient<'a> {
    options: &'a DnsLoadOptions,
    queries: &'a Queries,
    stop: &'a StopHandle,
    observe: &'a mut dyn FnMut(&TripFigures),
}

impl Client for DnsClient<'_> {
    type Report = DnsReport;

    fn over<V: Vnic + 'static>(self, vnic: V, near: Near) -> Result<DnsReport, LoadError> {
        let SocketAddr::V4(target) = self.options.target else {
            return Err(LoadError::Option(format!(
                "{}: this load generator speaks IPv4; --kernel speaks both",
                self.options.target
            )));
        };
        let mut questions = Questions::new(self.queries, self.options);
        let pace = &self.options.pace;
        let trips = native::run(vnic, &mut questions, (target, near.ends), pace, self.stop, self.observe)?;
        Ok(DnsReport::new(self.options, near.kind, &questions, trips))
    }

    fn is_empty(report: &DnsReport) -> bool {
        report.trips.received == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::echo::link::PairEcho;
    use queries::QueryOptions;
    use std::net::UdpSocket;
    use std::time::Duration;

    fn queries() -> Queries {
        let text = "one.example A\ntwo.example AAAA\nthree.example MX\n";
        Queries::parse(text, &QueryOptions::default()).unwrap()
    }

    #[test]
    fn an_echo_is_the_floor() {
        let mut options = DnsLoadOptions::new("10.77.0.2:53".parse().unwrap());
        options.pace.window = 8;
        options.pace.duration = Duration::from_millis(200);
        let stop = StopHandle::new().unwrap();
        for echoed in [true, false] {
            options.echoed = echoed;
            // Questions are no answers: nothing counts until it is said to be an echo.
            options.pace.timeout = if echoed { Duration::from_secs(5) } else { Duration::from_millis(20) };
            let far = PairEcho::Raw.far_end(options.target, None);
            let report = over_link(&options, &queries(), (&Link::pair(), far), &stop, &mut |_| {}).unwrap();
            assert_eq!(report.trips.received > 8, echoed, "{report}");
            assert_eq!((report.trips.lost > 0, report.questions), (!echoed, 3), "{report}");
        }
    }

    #[test]
    fn answers_are_judged() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut options = DnsLoadOptions::new(server.local_addr().unwrap());
        options.pace.window = 4;
        options.pace.duration = Duration::from_millis(300);
        options.pace.warm_up = Duration::ZERO;
        options.pace.timeout = Duration::from_millis(20);
        server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 2_048];
            let mut count = 0u64;
            while let Ok((length, peer)) = server.recv_from(&mut bytes) {
                count += 1;
                bytes[2] |= 0x80;
                match count % 5 {
                    // Another question, or none: not the answer.
                    0 => bytes[13] ^= 1,
                    1 => bytes[2] &= 0x7f,
                    2 => bytes[3] |= 3,
                    3 => bytes[2] |= 2,
                    _ => {}
                }
                server.send_to(&bytes[..length], peer).unwrap();
            }
        });
        let stop = StopHandle::new().unwrap();
        let report = over_kernel(&options, &queries(), &stop, &mut |_| {}).unwrap();
        thread.join().unwrap();
        assert!(report.wrong > 0 && report.truncated > 0 && report.trips.lost > 0, "{report}");
        assert!(report.response_codes["NXDOMAIN"] > 0 && report.response_codes["NOERROR"] > 0, "{report}");
        let json = serde_json::to_string(&report).unwrap();
        let read: DnsReport = serde_json::from_str(&json).unwrap();
        assert_eq!((read.response_codes, read.trips.sent), (report.response_codes, report.trips.sent));
    }
}
