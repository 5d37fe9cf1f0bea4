//! What services and net cores know of each other: the name of a net core's socket, and how connections are shared.

use clap::ValueEnum;
use qanat::split::AcceptPolicy;

/// Start of the names of sockets that `qanat status` finds.
pub const SOCKET_NAME: &str = "qanat-net";
/// Which service gets the next connection, if several share a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Accept {
    /// The services take turns
    #[default]
    RoundRobin,
    /// The service with the fewest connections
    LeastLoaded,
    /// By a hash of the flow, as a NIC chooses a queue (RSS)
    Queue,
}

impl From<Accept> for AcceptPolicy {
    fn from(accept: Accept) -> AcceptPolicy {
        match accept {
            Accept::RoundRobin => AcceptPolicy::RoundRobin,
            Accept::LeastLoaded => AcceptPolicy::LeastLoaded,
            Accept::Queue => AcceptPolicy::Queue,
        }
    }
}
