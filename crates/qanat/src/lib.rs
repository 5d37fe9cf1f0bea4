//! The native API: a [`Service`] gets events and issues commands through its [`Context`]; a [`Runtime`] runs it.
//!
//! ```text
//!  device ──receive──▶ stack ──Event──▶ Service::handle ──command──▶ stack ──transmit──▶ device
//! ```
//! A service is written once and runs in each placement. In the *linked* placement, stack, driver and service are in one thread,
//! which sleeps when it has nothing to do. In the *split* placement ([`split`]), the stack is in another process, a net core.
//! In the *kernel* placement ([`kernel`]), the stack is the kernel's own.
//!
//! # A whole service
//!
//! This one sends back whatever comes on TCP port 7. A second service connects to it, and the two talk over a pair of devices in
//! memory. On a real card only the device is another: see [`Attachment`].
//!
//! ```
//! use qanat::nic::{MemoryPlan, PairConfig, pair};
//! use qanat::{Bytes, Commands, Config, ConnectOptions, Context, Event, ListenOptions, Runtime, Service, StartError};
//! use std::net::{IpAddr, Ipv4Addr, SocketAddr};
//!
//! const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
//! const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 3));
//!
//! struct Echo;
//!
//! impl Service for Echo {
//!     fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
//!         let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7));
//!         context.listen(local, ListenOptions::default())?;
//!         Ok(())
//!     }
//!
//!     fn handle(&mut self, event: Event, context: &mut Context<'_>) {
//!         // A refused command means that the peer is gone. Then there is nobody to answer.
//!         match event {
//!             Event::Data { connection, chunk } => {
//!                 let copy = Bytes::copy_from_slice(chunk.bytes());
//!                 // What was received is given back, so that the peer may send more.
//!                 context.consume(connection, chunk);
//!                 let _ = context.send(connection, copy);
//!             }
//!             Event::PeerClosed { connection } => _ = context.close(connection),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! #[derive(Default)]
//! struct Caller {
//!     heard: Vec<u8>,
//! }
//!
//! impl Service for Caller {
//!     fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
//!         let server = SocketAddr::from((SERVER, 7));
//!         context.connect(server, ConnectOptions::default())?;
//!         Ok(())
//!     }
//!
//!     fn handle(&mut self, event: Event, context: &mut Context<'_>) {
//!         match event {
//!             Event::Connected { connection } => {
//!                 context.send(connection, Bytes::from_static(b"hello")).expect("room for five bytes");
//!             }
//!             Event::Data { connection, chunk } => {
//!                 self.heard.extend_from_slice(chunk.bytes());
//!                 context.consume(connection, chunk);
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (left, right) = pair(PairConfig::default())?;
//! let plan = MemoryPlan { frame_size: 2_048, receive_frames: 64, transmit_frames: 64, prepared_frames: 0 };
//! // The seed must be unpredictable on a real network: see `qanat::entropy`.
//! let mut server = Runtime::new(Box::new(left.open(plan)?), Config::new(SERVER, 24), [1; 32]);
//! let mut client = Runtime::new(Box::new(right.open(plan)?), Config::new(CLIENT, 24), [2; 32]);
//! let (mut echo, mut caller) = (Echo, Caller::default());
//! server.start(&mut echo)?;
//! client.start(&mut caller)?;
//! // A program calls `Runtime::run`, which takes turns until it is asked to stop.
//! while caller.heard.len() < 5 {
//!     server.turn(&mut echo);
//!     client.turn(&mut caller);
//! }
//! assert_eq!(caller.heard, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! # What is where
//!
//! | for | there are |
//! |---|---|
//! | writing a service | [`Service`], [`Context`], [`Commands`], [`Event`], [`Setting`], handles, [`Chunk`], [`Block`], [`StartError`] |
//! | testing one without a stack | [`double`]: it notes commands, and the test makes the events |
//! | running one | [`Runtime`], [`RuntimeOptions`], [`StopHandle`], [`Doorbell`], [`WaitSet`]; in a loop of one's own [`Pace`] |
//! | getting a card | [`AttachOptions`], [`Attachment`]; from the daemon by [`control`] |
//! | getting an area of a disk | [`StorageArea`] over a disk of one's own ([`disk`]), [`DaemonArea`] for one of the daemon's |
//! | a stack in another process | [`split`] |
//! | giving up rights | [`confine`] |
//! | cards, a stack's figures, checksums | [`nic`], [`stack`], [`wire`] |
#![forbid(unsafe_code)]

mod area_of_daemon;
mod attachment;
pub mod confine;
pub mod control;
mod crossed_commands;
mod crossing;
pub mod disk;
pub mod disk_core;
mod entropy;
pub mod kernel;
mod linked_commands;
pub mod nic;
mod no_device;
mod renewal;
mod runtime;
mod service;
pub mod split;
pub mod stack;
mod start_error;
mod storage;
mod timers;
mod wait_set;
pub mod wire;

pub use area_of_daemon::{AreaBuffers, AreaListener, AreaNews, DaemonArea, DaemonAreaError};
pub use attachment::{
    AttachError, AttachOptions, Attachment, CardSource, DaemonCard, FunctionCard, InterfaceCard, OwnCard, OwnDevice,
    OwnKind, PROTOCOL_TCP, PROTOCOL_UDP, RouterAdvertisements, WantedCard, check_addresses,
};
pub use bytes::Bytes;
pub use crossing::Crossing;
pub use entropy::entropy;
pub use qanat_api::{
    AreaId, Block, Chunk, CloseReason, CommandError, Commands, CongestionAlgorithm, ConnectOptions, ConnectionId,
    Durability, Event, FastOpenRequest, Fill, FilledBlock, Geometry, Keepalive, ListenOptions, ListenerId, Setting,
    Source, StackCapabilities, StorageCommands, StorageError, TimerId, UdpSocketId, double,
};
pub use qanat_nic::{Frame, Pool, Time};
pub use qanat_stack::{AddressState, Config, DuplicateAddressDetection};
pub use renewal::{QueuePair, Renewal};
pub use runtime::{LinkedPlacement, Pace, Placement, Runtime, RuntimeError, RuntimeOptions, SpinPolicy, StopHandle};
pub use service::{Context, Service};
pub use start_error::StartError;
pub use storage::{Storage, StorageArea};
pub use wait_set::{Doorbell, WaitSet};
