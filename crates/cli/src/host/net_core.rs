//! What services and net cores know of each other: how a net core's socket is called, and who has the next connection.

use clap::ValueEnum;
use qanat::split::AcceptPolicy;

/// Start of the names of sockets that `qanat status` finds.
pub const SOCKET_NAME: &str = "qanat-net";
/// Which of the services that share a listener has the next connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Accept {
    /// One after the other
    #[default]
    RoundRobin,
    /// Who has the fewest connections
    LeastLoaded,
    /// By the flow, as a NIC would choose a queue (RSS)
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
