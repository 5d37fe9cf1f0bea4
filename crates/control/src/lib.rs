//! The control plane: who may have a virtual card, what it may send and receive, and how fast.
//!
//! ```text
//!   application ── control.sock ── daemon ── tables ── gate, deliver (bpf/gate.c: every packet)
//!        └────────── a socket of its own, rings and memory ─────────┘ the daemon never sees one
//! ```
//!
//! A handle is a descriptor: one end of a socket pair whose other end the daemon watches. It is used by sending on it,
//! passed on by passing the descriptor, given up by closing it, and revoked by the daemon closing its own end.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod address;
pub mod card_watch;
pub mod client;
pub mod daemon;
pub mod field;
pub mod filter;
pub mod log_line;
pub mod name;
pub mod names;
pub mod net_core;
pub mod policy;
pub mod protocol;
pub mod refusal;
pub mod steward;
