//! Cards, frames and time, as far as the author of a service needs them. Programs of this workspace that drive devices by themselves use
//! the crate `qanat-nic`.

pub use qanat_nic::af_xdp::{Mode, PortRange, Verdicts};
pub use qanat_nic::link::Namespace;
pub use qanat_nic::{
    Capabilities, Clock, DeviceError, Frame, LendableFiles, ManualClock, MemoryPlan, MonotonicClock, Pair, PairConfig,
    PairPort, Pcap, Pool, Queue, Region, Time, TransmitBuffer, TransmitOptions, Vnic, VnicStatistics, pair, prefetch,
};
