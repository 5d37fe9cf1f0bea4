//! Virtual storage controllers (VSICs): the trait [`Vsic`], its drivers and its middleware.
//!
//! A [`Vsic`] has the shape of an NVMe queue pair: requests are queued by [`submit`](Vsic::submit), started together by
//! [`ring`](Vsic::ring) (one doorbell), and complete in any order, once each. A request owns the [`Frame`](qanat_nic::Frame) it
//! reads into or writes from until it completes, so a buffer is never in two hands.
//!
//! ```text
//!  application ── submit(Request) … ring() ──►  Uring    a file, a partition or a disk, by io_uring; NVMe commands passed through
//!              ◄── complete(&mut completions) ─  Sim      memory that keeps what a crash may leave
//!                                                Fault    over any of them: errors, losses, rot
//!                                                Trace    over any of them: a file that can be replayed
//! ```
//! Everything here is single-threaded by construction (`!Send` once opened): one queue pair, one thread.

pub mod area;
pub mod controller;
pub mod disk_core;
mod error;
pub mod fault;
pub mod fence;
pub mod nvme;
pub mod shared;
pub mod sim;
mod slots;
pub mod trace;
pub mod uring;
mod vsic;

pub use error::OpenError;
pub use fault::{Fault, FaultCounters, FaultRates};
pub use qanat_api::{Geometry, StorageError};
pub use sim::{Media, Sim, SimConfig};
pub use trace::Trace;
pub use uring::{DiskFile, DiskOptions, Polling, Uring, make_file};
pub use vsic::{Completion, Operation, Request, Vsic, VsicStatistics};
