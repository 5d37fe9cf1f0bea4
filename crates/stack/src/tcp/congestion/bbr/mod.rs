//! BBR, version 3 (draft-ietf-ccwg-bbr): a model of the path, how much it delivers and how long it takes, instead of a reaction to each
//! loss. The names are the draft's.
//!
//! ```text
//!  Startup ──full──► Drain ──► ProbeBW: DOWN ─► CRUISE ─► REFILL ─► UP ─┐
//!                                  ▲                                   │      ProbeRTT: every 5 s, from anywhere and back
//!                                  └───────────────────────────────────┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `state.rs` | the numbers of the model, and the states |
//! | `update.rs` | what an acknowledgement changes, in the draft's order; round trips, the rate, the aggregation |
//! | `full_pipe.rs` | when Startup and UP have found the rate; Drain |
//! | `probe_bandwidth.rs` | the cycle of ProbeBW |
//! | `probe_rtt.rs` | the shortest round trip |
//! | `loss.rs` | what losses say of both bounds |
//! | `output.rs` | pacing rate and window |

mod filter;
mod full_pipe;
mod loss;
mod output;
mod probe_bandwidth;
mod probe_rtt;
mod state;
mod update;

#[cfg(test)]
mod tests;

pub use state::{Bbr, PathSample};
