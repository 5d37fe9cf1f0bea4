//! The binary protocol (memcached's BinaryProtocolRevamped): a header of 24 bytes, extras, a key, a value.

mod answers;
mod execute;
pub mod header;

pub use execute::{complete, execute, refuse};
