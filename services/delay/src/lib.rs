//! A network emulator: the middlebox of *Stack specialisation* (chapter 4, figure 4.11), grown up.
//!
//! ```text
//!  IF1 ──AF_XDP──▶ dice ──▶ bottleneck ──▶ bucket of the flow's band ──timing wheel──▶ AF_XDP ── IF2
//!       (and the same backward)  loss, copies,   rate and bounded     constant delay: first in, first out,
//!                                damage          queue, tail drop     so a flow's order is kept
//! ```
//!
//! Everything that arrives at one interface leaves by the other, whoever it is for. A thread per queue, which shares
//! nothing but the bottleneck; both interfaces' queues use one region of frame memory, so that a frame is sent from
//! where it was received (the kernel itself copies on devices without zero-copy, veth among them).
#![forbid(unsafe_code)]

mod bottleneck;
mod buckets;
mod config;
mod dice;
mod emulator;
mod figures;
mod flow;
mod forwarder;
mod lab;
mod lane;
mod parse;

pub use config::{Bursts, ConfigError, DelayConfig, Impairments, Port, QueueLimit, Rate, Spin};
pub use emulator::{DelayError, Emulator, RunningEmulator};
pub use figures::{Direction, Figures, JitterFigures, LaneFigures};
pub use lab::{Lab, LabConfig};
pub use parse::{ParseError, bands, bursts, duration, percentage, queue_limit, rate};
