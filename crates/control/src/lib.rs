//! The control plane as its clients see it: the words they share with the daemon (`qanat-daemon`), and the client's end.
//!
//! ```text
//!   application ── control.sock ── daemon ── tables ── gate, deliver (every packet)
//!        └────────── a socket of its own, rings and memory ─────────┘ the daemon never sees one
//! ```
//!
//! A handle is a descriptor: one end of a socket pair whose other end the daemon watches. It is used by sending on it,
//! passed on by passing the descriptor, given up by closing it, and revoked by the daemon closing its own end.
#![forbid(unsafe_code)]

pub mod address;
pub mod card_watch;
pub mod client;
pub mod disk_core;
pub mod field;
pub mod filter;
pub mod log_line;
pub mod name;
pub mod net_core;
mod parse_error;
pub mod prometheus;
pub mod protocol;
pub mod refusal;
pub mod regular_file;
pub mod steward;

pub use parse_error::ParseError;
