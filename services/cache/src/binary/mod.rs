//! The binary protocol (memcached's BinaryProtocolRevamped): a header of 24 bytes, extras, a key, a value.

mod answers;
mod execute;
mod header;

pub use execute::{complete, execute, refuse};
pub use header::{HEADER_BYTES, REQUEST_MAGIC, Request};
