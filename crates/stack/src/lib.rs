//! A sans-I/O TCP/IP stack: time, entropy and the device are arguments.
//!
//! [`Stack::receive`] takes frames from a [`Vnic`](qanat_nic::Vnic) to completion and produces [`Event`]s; the owner
//! answers with commands (methods of [`Stack`]); [`Stack::transmit`] sends what became due, and
//! [`Stack::next_deadline`] says when to call again at the latest. Nothing else connects it to the outside.
#![forbid(unsafe_code)]

mod config;
mod event;
mod payload;
mod stack;

pub use config::{Config, ConnectOptions, ListenOptions};
pub use event::{Chunk, CloseReason, ConnectionId, Event, ListenerId, TimerId, UdpSocketId};
pub use payload::{Fill, Source};
pub use stack::{CommandError, Stack};
