//! What a process without rights has done for it: its *steward*, a process of the user that started both, does a few things that were
//! fixed before the rights were given up, as often as it is told to.
//!
//! ```text
//!   service (nobody) ── channel: an errand ──▶ steward (as the service was) ── connect ──▶ daemon
//!        └─────────── a socket pair for each connection, whose requests are looked at ───┘
//! ```
//! The daemon knows its clients by their user. So after a restart of the daemon it is the steward that it sees, and the policy gives the
//! service the card that it had. The service can have exactly what it had, and nothing else that its former user may have.

mod errand;
mod serve;
pub(crate) mod service;

pub use errand::{Duties, NetCoreDuty, NoNetCore, StewardError, channel};
pub use serve::{Provide, serve};
pub use service::{begin, farewell, net_core};
