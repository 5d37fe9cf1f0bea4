//! The control plane's daemon: who may have a virtual card, what it may send and receive, and how fast. It decides once, in the
//! kernel's name, and then stays out of the way.
//!
//! ```text
//!   application ── control.sock ── daemon ── tables ── gate, deliver (bpf/gate.c: every packet)
//!        └────────── a socket of its own, rings and memory ─────────┘ the daemon never sees one
//! ```
//!
//! One thread, one loop over descriptors, no wait but for them: whoever is slow, silent or hostile delays himself only.
//!
//! What there is to know is in files that know nothing of each other's users: `policy`, `fence`, `state`, and the structures in
//! `cards`, `clients` and `net_cores`. The daemon ([`Daemon`]) is made of it. Whatever acts on the whole is above: the turn of the
//! loop, conversations, requests, steering, the take-over.
#![forbid(unsafe_code)]

mod cards;
mod clients;
mod daemon;
mod error;
pub mod fence;
mod log;
mod net_cores;
pub mod policy;
mod requests;
mod start;
mod state;
mod takeover;
mod turn;

pub use daemon::{Daemon, Ending, UNUSED_MAX};
pub use error::DaemonError;
pub use log::Event;
pub use net_cores::core::Starter;
pub use takeover::leftovers::{Leftover, clear, is_left_program, leftovers};
pub use takeover::manager::{HEIR, tell_ready};
pub use turn::LEAVE;
