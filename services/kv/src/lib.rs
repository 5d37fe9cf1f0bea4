//! A durable store that speaks Redis' protocol, as a service of the native API.
//!
//! ```text
//!  Data ─► resp::request ─► engine::execute ─► commands ─► keyspace (memory)
//!                                                 │ changes: one record a command
//!                                                 ▼
//!  send ◄─ resp::reply, held until ◄─ Durable ◄─ journal (qanat_store::Log on an area of a disk)
//! ```
//! * [`resp`]: the protocol. [`keyspace`]: keys, values, and the changes that happen to them. [`engine`]: what executes commands.
//!   [`commands`]: the commands by their groups. [`scripts`]: clients' programs. All of these know neither network nor disk nor clock.
//! * [`rdb`]: dumps in the format of Redis. [`offline`]: the log of a stopped service, to read, check and fill.
//! * [`export`]: what conventional programs read of a store, as files.
//! * [`journal`]: the log, its checkpoints and recovery. [`service`]: connections, and which answer waits for what.
//!
//! One thread has all of it. `docs/kv.md` is for users, `docs/design/kv.md` says how it works and why.
#![forbid(unsafe_code)]

pub mod commands;
pub mod engine;
pub mod export;
mod figures;
pub mod glob;
pub mod journal;
pub mod keyspace;
mod limits;
pub mod offline;
pub mod rdb;
pub mod resp;
pub mod scripts;
pub mod service;
pub mod table;

pub use engine::access::lines::LinesError;
pub use engine::operating::{Operating, Policy};
pub use engine::settings::{Durability, Settings};
pub use engine::users::digest::Digest;
pub use engine::users::file::FILE_BYTES_MAX;
pub use engine::users::user::User;
pub use figures::Figures;
pub use service::users_file::read as read_users_file;
pub use service::{KvConfig, KvService};

/// The users of a file that is called `name`, as `ACL SAVE` writes it.
///
/// # Errors
/// All lines that are not understood.
pub fn users_of(name: &str, text: &[u8]) -> Result<Vec<User>, LinesError> {
    table::table();
    engine::access::lines::parse(name, text)
}
