//! The control plane's daemon: who may have a virtual card, what it may send and receive, and how fast. It decides once, in the
//! kernel's name, and then stays out of the way.
//!
//! ```text
//!   application ── control.sock ── daemon ── tables ── gate, deliver (bpf/gate.c: every packet)
//!        └────────── a socket of its own, rings and memory ─────────┘ the daemon never sees one
//! ```
//!
//! One thread runs one loop over descriptors, and waits for nothing else. A client that is slow, silent or hostile delays only itself.
//!
//! A file either describes a structure, and does not import [`Daemon`], or it has a part of what the daemon does with its structures.
//! The structures are the policy, the fence's tables, the notes for the next daemon, cards, clients, net cores and disks. What the daemon
//! does begins at its start and in the loop.
#![forbid(unsafe_code)]

mod cards;
mod clients;
mod daemon;
mod disks;
mod error;
pub mod fence;
pub mod fitness;
mod log;
mod net_cores;
pub mod policy;
mod requests;
mod start;
mod state;
mod takeover;
mod turn;

pub use daemon::{Daemon, Ending, UNUSED_MAX};
pub use disks::core::DiskCoreStarter;
pub use disks::left::{LeftPartitions, left_partitions};
pub use error::DaemonError;
pub use log::Event;
pub use net_cores::core::Starter;
pub use takeover::leftovers::{Leftover, clear, is_left_program, leftovers};
pub use takeover::manager::{HEIR, tell_ready};
pub use turn::LEAVE;
