//! How processes come to share a world and how they leave it: the first socket, `fork`, `exec`, rights given up, ends.

pub(crate) mod admission;
pub(crate) mod attach;
#[cfg(feature = "breakdown")]
mod breakdown_report;
pub(crate) mod crash_reset;
pub(crate) mod detached;
pub(crate) mod ending;
pub(crate) mod environment;
pub(crate) mod fork;
pub(crate) mod join;
mod join_error;
pub(crate) mod keeper;
pub(crate) mod keeper_image;
pub(crate) mod lowering;
pub(crate) mod mourner;
pub(crate) mod offspring;
pub(crate) mod pump;
pub(crate) mod pumped;
pub(crate) mod registry;
pub(crate) mod rendezvous;
pub(crate) mod report;
pub(crate) mod signal_sockets;
pub(crate) mod start;
pub(crate) mod transit;
