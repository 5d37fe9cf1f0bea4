//! `memif`: a network card made of memory between two processes, no kernel on the path (the shared-memory packet
//! interface of FD.io, version 2, as spoken by VPP's and DPDK's drivers).
//!
//! ```text
//!   slave                                                               master
//!   frames in region 1…, rings in region 0: memory files of its own,    maps them
//!   their size sealed                 ── Unix socket: descriptors ──▶
//!   transmit(frame) ─descriptor→ ring to master: head ───────────▶ copied into a frame of its own, tail back
//!   empty frames    ─descriptor→ ring to slave:  head ───────────▶ copied into by transmit, tail back
//! ```
//!
//! The slave owns all shared memory, and its frames live in it: it sends and receives without copying. The master copies
//! each packet once, out of the peer's region or into it; its frames are private.
//!
//! **Who trusts whom.** Neither end can make the other touch memory that isn't shared, crash it, or stop it: every index,
//! offset and length is copied before it is checked, regions that could shrink are refused, and a peer that breaks the rules is
//! cut off ([`Violation`]). But a master can, at any time, rewrite any packet in the slave's region, those being worked
//! on included. A slave should therefore only connect to a master that it would trust with its traffic. A master need not
//! trust its slaves.
//!
//! There is no checksum offload unless both ends agree ([`MemifConfig::checksums`]), and no scatter-gather for sent packets. A packet
//! received in several pieces is several frames.

mod config;
mod control;
mod device;
mod error;
mod handshake;
mod link;
mod listener;
pub mod message;
mod queue;
mod shared;
#[cfg(test)]
mod tests;

pub use config::{MemifConfig, QUEUES_MAX};
pub use device::MemifDevice;
pub use error::{MemifError, Violation};
pub use link::MemifLink;
pub use listener::{MemifListener, connect};
pub use queue::{Memif, MemifOpener};
