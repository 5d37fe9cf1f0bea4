//! `qanat load redis` and `qanat load memcached`: keys written and read; every byte of every answer is compared.
//!
//! * [`options`]: what to do, and what is refused
//! * [`workload`]: which request is next, and its answer
//! * [`stream`]: over our TCP, several requests on their way on a connection
//! * [`datagram`]: memcached's over UDP
//! * [`tally`]: what both count beside the round trips

pub mod datagram;
pub mod options;
pub mod stream;
pub mod tally;
pub mod workload;

use super::datagrams::link::{Client, Link, Near};
use super::datagrams::native;
use super::datagrams::trips::{RoundTrips, TripFigures};
use super::http::LoadError;
use datagram::Datagrams;
use options::ValueLoadOptions;
use qanat::{Runtime, StopHandle};
use qanat_echo::LinkChoice;
use qanat_nic::Vnic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use stream::Stream;
use workload::Workload;

/// The result. Counts are those of the window after the warm-up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ValueReport {
    /// How it was sent: `veth`, `memif`.
    pub client: String,
    /// The server that answered.
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
