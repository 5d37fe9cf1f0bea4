//! What a load of keys and values is asked to do, and what is refused.

use super::workload::{Protocol, WorkloadOptions};
use crate::load::datagrams::pace::Pace;
use crate::load::http::LoadError;
use std::net::SocketAddr;

/// Most requests on their way at once on a connection.
pub const PIPELINE_MAX: usize = 1_024;

/// What to do.
#[derive(Clone, Debug)]
pub struct ValueLoadOptions {
    /// The server that has the keys.
    pub target: SocketAddr,
    /// Requests.
    pub workload: WorkloadOptions,
    /// memcached's datagrams instead of a stream.
    pub udp: bool,
    /// Connections (not with `udp`).
    pub connections: usize,
    /// How fast. Its window is the number of requests on their way at once, on all connections together.
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
