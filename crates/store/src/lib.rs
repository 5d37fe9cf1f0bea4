//! Persistent structures on a storage area: what was acknowledged is there after a crash at any point, and nothing else is.
//!
//! ```text
//!  service ── append, commit ──►  Log, Queue, Objects  ── read, write, flush (StorageCommands) ──►  area
//!          ◄─ Record, Durable ──                       ◄─ Read, Written, Flushed (Event) ─────────
//! ```
//! * [`Log`]: records in order; several appends of a turn are one write; checkpoints between appends.
//! * [`Queue`]: first in, first out; an element comes again until it is acknowledged.
//! * [`Objects`]: immutable objects, each in one run, read in pieces of 16 KiB straight to the wire.
//! * [`ReadCache`]: pieces of files or objects that were read, in the application's memory and by its own policy.
//!
//! Sans-I/O, as the network stack is: a structure gives its [`StorageCommands`](qanat_api::StorageCommands) to what it is handed, and is
//! told by events how they ended. It has no thread, no clock and no randomness of its own. An area is one structure's alone, and
//! everything is used by one thread.
//!
//! What lies on the disk is described in `docs/design/store.md`. It is judged when it is read: no contents of a disk make this crate
//! panic, and every walk over them is bounded.
//!
//! A counter whose answers are durable. In a service, `handle` and `turn_ended` are those of `qanat::Service`, and its context is both
//! `net` and `disk`:
//!
//! ```
//! use qanat_api::double::{Double, StorageDouble};
//! use qanat_api::{AreaId, Chunk, Commands, Event, StorageCommands, UdpSocketId};
//! use qanat_store::{Log, LogEvent, Options, Position};
//! # use qanat_nic::{Region, Time};
//! use std::collections::VecDeque;
//! use std::net::SocketAddr;
//!
//! /// Counts datagrams. Each is answered with its number, once no loss of power can take that back.
//! struct Counter {
//!     log: Log,
//!     count: u64,
//!     waiting: VecDeque<(Position, SocketAddr, u64)>,
//! }
//!
//! impl Counter {
//!     fn handle(&mut self, event: Event, net: &mut impl Commands, disk: &mut dyn StorageCommands) {
//!         // What is of the area is the log's. Until it is recovered, it takes no records.
//!         if let Some(Event::Datagram { peer, .. }) = self.log.handle(event, disk)
//!             && let Ok(position) = self.log.append(&(self.count + 1).to_le_bytes(), disk)
//!         {
//!             self.count += 1;
//!             self.waiting.push_back((position, peer, self.count));
//!         }
//!         while let Some(event) = self.log.next(disk) {
//!             match event {
//!                 LogEvent::Record { bytes, .. } => {
//!                     self.count = bytes.try_into().map_or(self.count, u64::from_le_bytes);
//!                 }
//!                 LogEvent::Durable { before } => {
//!                     while let Some((position, peer, count)) = self.waiting.front().copied()
//!                         && position < before
//!                     {
//!                         self.waiting.pop_front();
//!                         let _ = net.send_to(UdpSocketId::new(0, 0), peer, &count.to_le_bytes());
//!                     }
//!                 }
//!                 LogEvent::Failed(error) => eprintln!("nothing more is counted: {error}"),
//!                 _ => {}
//!             }
//!         }
//!     }
//!
//!     /// After the last event of a turn: all of its appends are one write.
//!     fn turn_ended(&mut self, disk: &mut dyn StorageCommands) {
//!         self.log.commit(disk);
//!         // A checkpoint is one number, so it is made at once. After it, the log begins there.
//!         let (used, all) = self.log.bytes();
//!         if used > all / 2 && self.log.checkpoint_begin(disk).is_ok() {
//!             let _ = self.log.checkpoint_append(&[&self.count.to_le_bytes()], disk);
//!             let _ = self.log.checkpoint_end(disk);
//!             self.log.commit(disk);
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let area = AreaId::new(0, 0);
//! let mut disk = StorageDouble::new(area, 256 << 10)?;
//! # let pool = Region::new(1, 2_048)?.pool(1).expect("a pool of one frame");
//! # let mut net = Double::new(Time::ZERO, pool);
//! # net.sockets.insert(UdpSocketId::new(0, 0), SocketAddr::from(([10, 77, 0, 2], 7)));
//! for life in 0..3_u64 {
//!     // The identity is 16 random bytes in a service.
//!     let log = Log::open(area, Options::default().make_if_empty([7; 16]), &mut disk)?;
//!     let mut counter = Counter { log, count: 0, waiting: VecDeque::new() };
//!     while let Some(event) = disk.next_event() {
//!         counter.handle(event, &mut net, &mut disk);
//!     }
//!     assert_eq!(counter.count, life * 100);
//!     for _ in 0..100 {
//!         let peer = SocketAddr::from(([10, 77, 0, 1], 4_000));
//!         let chunk = net.prepared.allocate(0).map(Chunk::new).ok_or("no frame")?;
//!         counter.handle(Event::Datagram { socket: UdpSocketId::new(0, 0), peer, chunk }, &mut net, &mut disk);
//!         let answered = net.datagrams.len();
//!         counter.turn_ended(&mut disk);
//!         assert_eq!(net.datagrams.len(), answered, "no answer before the disk's");
//!         while let Some(event) = disk.next_event() {
//!             counter.handle(event, &mut net, &mut disk);
//!         }
//!     }
//!     // Power fails: what was answered is there in the next life.
//!     assert_eq!(net.datagrams.len() as u64, (life + 1) * 100);
//!     assert_eq!(net.datagrams.last().map(|(.., number)| number.as_slice()), Some(&counter.count.to_le_bytes()[..]));
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod chain;
mod codec;
mod error;
mod flat;
mod head;
mod io;
mod kind;
mod layout;
mod log;
mod look;
mod objects;
mod options;
mod position;
mod queue;
mod read_cache;
mod running;
mod superblock;
mod told;

pub use chain::frame::RecordKind;
pub use chain::writer::LogStatistics;
pub use error::StoreError;
pub use flat::Objects;
pub use kind::Kind;
pub use layout::UNIT_BYTES;
pub use log::Log;
pub use objects::event::{ObjectEvent, ObjectId, ObjectInfo};
pub use objects::sums::PIECE_BYTES;
pub use options::Options;
pub use position::Position;
pub use queue::{Queue, QueueEvent};
pub use read_cache::{Lru, Policy, PolicyKind, ReadCache, ReadCacheFigures, S3Fifo};
pub use told::{LogEvent, Recovered};
