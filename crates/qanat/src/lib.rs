//! The native API: a [`Service`] gets events and issues commands through its [`Context`]; a [`Runtime`] places it.
//!
//! ```text
//!  device ──receive──▶ stack ──Event──▶ Service::handle ──command──▶ stack ──transmit──▶ device
//! ```
//! A service compiled once runs in any placement (DESIGN §2). This crate has the *linked* placement: stack, driver and
//! service in one thread, run to completion, asleep when idle.
#![forbid(unsafe_code)]

mod attachment;
pub mod confine;
mod entropy;
mod linked_commands;
mod runtime;
mod service;
pub mod split;
mod wait_set;

pub use attachment::{
    AttachError, AttachOptions, Attachment, CardSource, DaemonCard, InterfaceCard, OwnCard, OwnDevice, OwnKind,
    PROTOCOL_TCP, PROTOCOL_UDP, RouterAdvertisements, WantedCard, check_addresses,
};
pub use bytes::Bytes;
pub use entropy::entropy;
pub use qanat_api::{
    Block, Chunk, CloseReason, CommandError, Commands, ConnectOptions, ConnectionId, Event, Fill, FilledBlock,
    Keepalive, ListenOptions, ListenerId, Setting, Source, TimerId, UdpSocketId, double,
};
pub use qanat_control as control;
pub use qanat_nic::{self as nic, Frame, Pool, Time};
pub use qanat_stack::{self as stack, AddressState, Config, DuplicateAddressDetection};
pub use qanat_wire as wire;
pub use runtime::{LinkedPlacement, Placement, Runtime, RuntimeError, RuntimeOptions, SpinPolicy, StopHandle};
pub use service::{Context, Service};
pub use wait_set::{Doorbell, WaitSet};
