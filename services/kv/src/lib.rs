//! A durable store that speaks Redis' protocol, as a service of the native API.
//!
//! ```text
//!  Data ─► resp::request ─► engine::execute ─► commands ─► keyspace (memory)
//!                                                 │ changes: one record a command
//!                                                 ▼
//!  send ◄─ resp::reply, held until ◄─ Durable ◄─ journal (qanat_store::Log on an area of a disk)
//! ```
//! * [`resp`]: the protocol. [`keyspace`]: keys, values, and the changes that happen to them. [`engine`]: what executes commands.
//!   [`commands`]: the commands by their groups. All of these know neither network nor disk nor clock.
//! * [`journal`]: the log, its checkpoints and recovery. [`service`]: connections, and which answer waits for what.
//!
//! One thread has all of it. `docs/kv.md` is for users, `docs/design/kv.md` says how it works and why.
#![forbid(unsafe_code)]

pub mod commands;
pub mod engine;
mod figures;
pub mod journal;
pub mod keyspace;
pub mod resp;
pub mod service;
pub mod table;

pub use engine::settings::{Durability, Settings};
pub use figures::Figures;
pub use service::{KvConfig, KvService};

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";
/// What writes are told when the log has failed: they are in memory at most, and nobody may rely on them.
pub const MISCONF: &str =
    "MISCONF Errors writing to the log: what was not acknowledged may be lost. Reads go on; start the service again";
/// Bytes of a record at most, and of a key with all that it has.
pub const RECORD_BYTES_MAX: usize = 192 << 20;
