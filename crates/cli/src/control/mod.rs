//! Commands about the daemon, its cards, and net cores.

pub mod down;
pub mod filter;
pub mod kept_dashboard;
pub mod limits;
pub mod net;
pub mod net_core;
pub mod policy;
pub mod programs;
pub mod rate;
pub mod status;
pub mod top;
pub mod up;
pub mod vnic;
