//! Scripts and functions: programs of clients, in Lua 5.1, that run commands.
//!
//! ```text
//!  EVAL, FCALL ─► run ─► a Lua state made by sandbox ─► redis.call ─► engine::execute
//!                          │ what it may use: time, memory
//!                          ▼
//!                        turn: whose script runs, and what is left to it
//! ```
//! A script changes keys by commands only. So what it changed is one record, and the script itself is never written down. The texts of
//! libraries of functions are; they lie in the keyspace.

pub mod answers;
pub mod bits;
pub mod bounds;
pub mod calls;
pub mod decimals;
pub mod json;
pub mod loader;
pub mod meter;
pub mod natives;
pub mod packing;
pub mod patterns;
pub mod raised;
pub mod registration;
pub mod replies;
pub mod run;
pub mod sandbox;
pub mod shebang;
pub mod store;
pub mod substitution;
pub mod turn;
