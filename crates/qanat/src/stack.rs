//! The TCP/IP stack, as far as the author of a service needs it: its configuration, its counters, and counts by peer. Programs of this
//! workspace that drive a stack by themselves use the crate `qanat-stack`.

pub use qanat_stack::tcp::{CongestionAlgorithm, ConnectionInfo, Counters as TcpCounters, TcpConfig};
pub use qanat_stack::{
    AddressState, Autoconfiguration, Config, Counters, DuplicateAddressDetection, FastOpenOptions, Peer, PeerCounts,
    Stack, Usage,
};
