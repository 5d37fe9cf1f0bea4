//! Everything laid out in memory that two processes share: rings, messages, regions, versions.
//!
//! ```text
//!   control memory   | Header | event ring: net core ─▶ service | command ring: service ─▶ net core |   both write
//!   receive memory   | frames the device fills |              the net core writes, the service maps read-only
//!   transmit memory  | small blocks | large blocks |          the service writes, the net core maps read-only
//! ```
//! The net core makes all of it and believes none of it. What it reads in control memory is copied once, then checked, then used. It
//! keeps its own positions to itself. Headers of packets are in memory that no service can map.

mod layout;
mod memory;
pub mod message;
pub mod ring;
mod sync;

pub use layout::{ControlMemory, LAYOUT_HASH, MAGIC, Mismatch, Rings, VERSION};
pub use memory::{Access, SharedMemory};
pub use message::{BadMessage, Command, Event, Id, Message};
pub use ring::{Consumer, Producer, Violation};
