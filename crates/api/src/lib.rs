//! The vocabulary of Qanat: what stack and services say to each other. It is below the stack, so that each placement of the stack,
//! and whatever else speaks with services, means the same.
//!
//! ```text
//!  stack ── Event ──► service        Accepted, Data { chunk }, Acked, Closed { why }, Datagram, Timer …
//!        ◄─ Commands ─               listen, connect, send, consume, set(connection, Setting), close …
//! ```
//! Handles name objects, a [`Chunk`] is received bytes where the device put them, a [`Block`] is memory to fill and send, a
//! [`Source`] makes bytes when they are sent.
#![forbid(unsafe_code)]

mod block;
mod chunk;
mod commands;
pub mod double;
mod error;
mod event;
mod handle;
mod options;
mod setting;
mod source;

pub use block::{Block, Filled, FilledBlock};
pub use chunk::Chunk;
pub use commands::Commands;
pub use error::CommandError;
pub use event::{CloseReason, Event};
pub use handle::{ConnectionId, ListenerId, TimerId, UdpSocketId};
pub use options::{ConnectOptions, FastOpenRequest, ListenOptions};
pub use setting::{Keepalive, Setting, SettingWords};
pub use source::{Fill, Source};
