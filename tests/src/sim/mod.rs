//! A simulator of whole systems: stacks, services and networks on one virtual clock, repeatable by seed.
//!
//! ```text
//!  Node (stack + service)                                            Node (stack + service, or another's stack)
//!    └ Device: Pcap(trace) → Fault → SimulatedLink → Pair ══════════ Pair ← SimulatedLink ← Fault ← Pcap ┘
//! ```
//!
//! [`World`] joins two nodes and moves the clock from event to event; nothing in it reads the real time or real
//! randomness, so a seed fixes every byte on the wire ([`World::trace_hash`]). [`seeds::for_each`] runs a scenario for
//! many seeds and says how to replay the one that fails.

pub mod network;
pub mod node;
pub mod pattern;
pub mod seeds;
pub mod streams;
pub mod trace;
pub mod world;

pub use network::{Device, Network};
pub use node::{Moves, Node, StackNode};
pub use seeds::Run;
pub use trace::Trace;
pub use world::{Outcome, World};
