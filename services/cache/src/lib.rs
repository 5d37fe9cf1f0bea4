//! A cache that speaks memcached's protocols, as a service of the native API.
//!
//! ```text
//!  Data ─► session ─► text, binary ─► engine ─► items (found by key, ordered by use, bounded)
//!                                                 │
//!  send ◄─ output ◄─ a short value is copied, a long one is lent until it is acknowledged
//! ```
//! * `items`: what is kept. `engine`: what requests do to it. Both know neither network nor protocol.
//! * `text`, `binary`: the protocols. `session`: which of them, and what has come in part. `output`: answers.
//! * `service`: connections and datagrams, bounds and time.
//!
//! One thread has all of it. `docs/cache.md` is for users, `docs/design/cache.md` says how it works and why.
#![forbid(unsafe_code)]

mod binary;
mod clock;
mod config;
mod engine;
mod figures;
mod items;
mod number;
mod output;
mod pending;
mod service;
mod session;
mod statistics;
mod text;

pub use config::{CacheConfig, Datagrams, Kept};
pub use engine::settings::{MEMORY_BYTES_MIN, Settings};
pub use engine::state::Engine;
pub use engine::users::{User, UsersError, users_of};
pub use figures::Figures;
pub use output::Output;
pub use service::CacheService;
pub use session::Session;
