//! A software NVMe controller: what serves queue pairs in memory to drivers that are not believed, and what the driver is tested on.
//!
//! ```text
//!  driver's memory ── queues ─▶ Controller::turn ── fetch (one copy) ─ judge ─ walk PRPs ─▶ Vsic of the namespace
//!     registers, doorbells ──────┘      ◀── completion entry, data ◀───────────────────────────┘
//! ```
//! Every number a driver says is judged when it is read, and read once. A command that can't be is answered with a status; what no driver
//! does (an [`Offence`]) fails the controller until its driver resets it. Work is bounded by turn.

mod admin;
mod config;
mod core;
mod flights;
mod loopback;
mod memory;
mod namespace;
mod offence;
mod prp;
mod queues;
mod registers;

pub use self::core::{Controller, ControllerCounters, Turn};
pub use config::{ControllerConfig, ControllerError};
pub use loopback::Loopback;
pub use memory::{GuestMemory, RegionMemory};
pub use namespace::NamespaceConfig;
pub use offence::Offence;
