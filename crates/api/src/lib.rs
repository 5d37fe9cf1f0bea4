//! The vocabulary of Qanat: what stack and services say to each other. This crate is below the stack. So each placement of the stack,
//! and whatever else speaks with services, uses the same words.
//!
//! ```text
//!  stack ── Event ──► service        Accepted, Data { chunk }, Acked, Closed { why }, Datagram, Timer …
//!        ◄─ Commands ─               listen, connect, send, consume, set(connection, Setting), close …
//!  disk  ── Event ──► service        Read, Written, Flushed, Zeroed
//!        ◄─ StorageCommands ─        read, write, flush, write_zeroes
//! ```
//! Handles name objects. A [`Chunk`] is received bytes where the device put them. A [`Block`] is memory to fill and send. A
//! [`Source`] makes bytes when they are sent.
//!
//! A service gets events and answers them with commands. It can be tested without a stack: [`double::Double`] implements the
//! commands and keeps what it was told.
//!
//! ```
//! use qanat_api::double::{Double, Told};
//! use qanat_api::{Commands, ConnectionId, Event};
//! use qanat_nic::{Region, Time};
//! use bytes::Bytes;
//!
//! /// Greets whoever connects, and closes when the peer does.
//! fn handle(event: Event, commands: &mut impl Commands) {
//!     match event {
//!         Event::Accepted { connection, .. } => {
//!             // If the connection is gone already, its `Closed` event follows.
//!             let _ = commands.send(connection, Bytes::from_static(b"hello\n"));
//!         }
//!         Event::Data { connection, chunk } => commands.consume(connection, chunk),
//!         Event::PeerClosed { connection } => {
//!             let _ = commands.close(connection);
//!         }
//!         _ => {}
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let pool = Region::new(1, 2_048)?.pool(1).expect("a pool of one frame");
//! let mut double = Double::new(Time::ZERO, pool);
//! let connection = ConnectionId::new(7, 0);
//! double.connections.insert(connection, Told::default());
//! handle(Event::PeerClosed { connection }, &mut double);
//! assert!(double.connections[&connection].is_closed);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod block;
mod capabilities;
mod chunk;
mod commands;
mod congestion;
pub mod double;
mod error;
mod event;
mod geometry;
mod handle;
mod options;
mod passed_on;
mod send_queue;
mod setting;
mod source;
mod storage_commands;
mod storage_error;

pub use block::{Block, Filled, FilledBlock};
pub use capabilities::StackCapabilities;
pub use chunk::Chunk;
pub use commands::Commands;
pub use congestion::CongestionAlgorithm;
pub use error::CommandError;
pub use event::{CloseReason, Event};
pub use geometry::Geometry;
pub use handle::{AreaId, ConnectionId, ListenerId, TimerId, UdpSocketId};
pub use options::{ConnectOptions, FastOpenRequest, ListenOptions};
#[doc(hidden)] // for commands_passed_on
pub use qanat_nic as nic;
pub use send_queue::{Piece, SendQueue};
pub use setting::{Keepalive, Setting, SettingWords};
pub use source::{Fill, Source};
pub use storage_commands::{Durability, StorageCommands};
pub use storage_error::StorageError;
