//! `qanat load redis` and `qanat load memcached`: keys written and read; every byte of every answer is compared.
//!
//! * [`workload`]: which request is next, and its answer
//! * [`stream`]: over our TCP, several requests on their way on a connection
//! * [`datagram`]: memcached's over UDP

pub mod datagram;
pub mod stream;
pub mod workload;

use super::datagrams::link::{Client, Link, Near};
use super::datagrams::{Pace, RoundTrips, TripFigures, native};
use super::http::LoadError;
use datagram::Datagrams;
use qanat::nic::Vnic;
use qanat::{Runtime, StopHandle};
use qanat_echo::LinkChoice;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use stream::Stream;
use workload::{Protocol, Workload, WorkloadOptions};

/// Most requests on their way at once on a connection.
pub const PIPELINE_MAX: usize = 1_024;

/// What to do.
#[derive(Clone, Debug)]
pub struct ValueLoadOptions {
    /// Who has the keys.
    pub target: SocketAddr,
    /// Requests.
    pub workload: WorkloadOptions,
    /// memcached's datagrams instead of a stream.
    pub udp: bool,
    /// Connections (not with `udp`).
    pub connections: usize,
    /// Its window: requests on their way at once, on all connections together.
    pub pace: Pace,
}

impl ValueLoadOptions {
    /// Refuses what can't be done.
    ///
    /// # Errors
    /// [`LoadError::Option`], with what may be.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |message: String| Err(LoadError::Option(message));
        let workload = &self.workload;
        if self.udp && workload.protocol == Protocol::Redis {
            return wrong("redis has no datagrams".to_owned());
        }
        if self.target.is_ipv6() {
            return wrong(format!("{}: this load generator speaks IPv4", self.target));
        }
        let key_length_max = if workload.protocol == Protocol::Redis { 4_096 } else { 250 };
        if !(8..=key_length_max).contains(&workload.key_length) {
            return wrong(format!("--key-size {}: from 8 to {key_length_max} bytes", workload.key_length));
        }
        if !self.udp && (self.connections == 0 || self.pace.window > self.connections * PIPELINE_MAX) {
            return wrong(format!("--pipeline: from 1 to {PIPELINE_MAX} requests"));
        }
        self.pace.check()
    }
}

/// The result. Counts are those of the window after the warm-up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ValueReport {
    /// How it was sent: `veth`, `memif`.
    pub client: String,
    /// Who answered.
    pub target: String,
    /// Different keys.
    pub keys: usize,
    /// Bytes of a value.
    pub value_length: usize,
    /// Connections; 0: datagrams.
    pub connections: usize,
    /// Right answers a second.
    pub answers_per_s: f64,
    /// Answers that were not what they had to be, the warm-up's included.
    pub wrong: u64,
    /// Connections that the server closed, the warm-up's included.
    pub closed: u64,
    /// The rest.
    #[serde(flatten)]
    pub trips: RoundTrips,
}

impl fmt::Display for ValueReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = if self.connections == 0 { "UDP".to_owned() } else { format!("{} connections", self.connections) };
        writeln!(
            f,
            "{} → {}: {} keys, values of {} bytes, {over}, {} at once, {:.2} s",
            self.client, self.target, self.keys, self.value_length, self.trips.window, self.trips.duration_s
        )?;
        write!(f, "  answers     {:.0}/s", self.answers_per_s)?;
        for (count, what) in [(self.wrong, "wrong"), (self.closed, "connections closed by the server")] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        writeln!(f)?;
        self.trips.fmt(f)
    }
}

/// What a way of asking has counted beside the round trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Answers that were not what they had to be.
    pub wrong: u64,
    /// Connections the server closed.
    pub closed: u64,
}

/// Loads over `link`.
///
/// # Errors
/// [`LoadError`], with the remedy.
pub fn over_link(
    options: &ValueLoadOptions,
    link: &Link,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&TripFigures),
) -> Result<ValueReport, LoadError> {
    options.check()?;
    if link.choice == LinkChoice::Pair {
        return Err(LoadError::Option("--link pair: there is no such server in this process".to_owned()));
    }
    let nobody = Box::new(|_, _| Ok(()));
    link.run(options.target, ValueClient { options, stop, observe }, nobody, stop)
}

struct ValueClient<'a> {
    options: &'a ValueLoadOptions,
    stop: &'a StopHandle,
    observe: &'a mut dyn FnMut(&TripFigures),
}

impl Client for ValueClient<'_> {
    type Report = ValueReport;

    fn over<V: Vnic + 'static>(self, vnic: V, near: Near) -> Result<ValueReport, LoadError> {
        let options = self.options;
        let workload = Workload::new(&options.workload);
        let (trips, tally) = if options.udp {
            let SocketAddr::V4(target) = options.target else {
                return Err(LoadError::Option("IPv4 only".to_owned()));
            };
            let mut datagrams = Datagrams::new(workload, options.pace.window)?;
            let trips = native::run(vnic, &mut datagrams, (target, near.ends), &options.pace, self.stop, self.observe)?;
            (trips, datagrams.tally()?)
        } else {
            let mut config = near.config;
            config.connections_max = options.connections + 64;
            let seed = qanat::entropy()
                .map_err(|error| LoadError::System { what: "ask the kernel for random bytes".to_owned(), error })?;
            let mut runtime = Runtime::new(Box::new(vnic), config, seed);
            Stream::new(options, workload, runtime.now()).run(&mut runtime, self.stop, self.observe)?
        };
        Ok(ValueReport {
            client: near.kind.to_owned(),
            target: options.target.to_string(),
            keys: options.workload.keys,
            value_length: options.workload.value_length,
            connections: if options.udp { 0 } else { options.connections },
            answers_per_s: trips.per_s(),
            wrong: tally.wrong,
            closed: tally.closed,
            trips,
        })
    }

    fn is_empty(report: &ValueReport) -> bool {
        report.trips.received == 0
    }
}

/// Counting has begun before every key was written.
fn not_filled() -> LoadError {
    LoadError::Option("the warm-up ended before all keys were written: a longer --warm-up, or fewer --keys".to_owned())
}
