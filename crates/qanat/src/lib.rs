//! The native API: a [`Service`] gets events and issues commands through its [`Context`]; a [`Runtime`] places it.
//!
//! ```text
//!  device ──receive──▶ stack ──Event──▶ Service::handle ──command──▶ stack ──transmit──▶ device
//! ```
//! A service compiled once runs in any placement (DESIGN §2). This crate has the *linked* placement: stack, driver and
//! service in one thread, run to completion, asleep when idle.
#![forbid(unsafe_code)]

mod service;

pub use bytes::Bytes;
pub use qanat_nic::{self as nic, Frame, Pool, Time};
pub use qanat_stack::{
    self as stack, Chunk, CloseReason, CommandError, Config, ConnectOptions, ConnectionId, Event, Fill, ListenOptions,
    ListenerId, Source, TimerId, UdpSocketId,
};
pub use qanat_wire as wire;
pub use service::{Context, Service};
