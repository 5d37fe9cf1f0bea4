//! A zone compiled into answers: what a query asks for is found by one probe and lies there as it will be sent.
//!
//! ```text
//!   table ── hash of the name ──▶ node in the arena, one piece of memory:
//!     header │ name, small letters │ directory: a row for each type │ records of each type, signatures after them
//! ```
//! A set's records are ready for a message whose question is the node's name at byte 12: owners are pointers to there,
//! and names in the data are compressed against it. Where that changed the data, it is there a second time as it was, for
//! answers whose question is another (a wildcard's, the end of a CNAME).

mod arena;
mod catalog;
mod compile;
mod fqdn;
pub mod hash;
mod memory;
mod node;
mod nsec3;
mod table;
mod zone_image;

pub use catalog::Catalog;
pub use compile::CompileError;
pub use node::{Node, NodeReference, Ready, Set, flag};
pub use nsec3::{Nsec3Chain, nsec3_hash};
pub use zone_image::ZoneImage;
