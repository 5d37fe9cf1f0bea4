//! Segment scripts: packetdrill's language, run against this stack and against the Linux kernel.
//!
//! ```text
//!  *.pkt → parse → Script ─→ run ─→ Backend: qanat (memory NIC, virtual clock) | linux (TUN in a namespace, real time)
//! ```
//!
//! The language is described in `docs/conformance.md`. One script runs on both, so that a wrong script is found too.

pub mod conformance;
pub mod linux;
pub mod matching;
pub mod packet;
pub mod parse;
pub mod qanat;
pub mod run;
pub mod syntax;

pub use run::{Backend, Failure, run};
pub use syntax::{Script, Stack};
