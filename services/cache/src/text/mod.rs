//! The text protocol (doc/protocol.txt of memcached), with its meta commands. The wording of its errors is what clients know.

mod changing;
mod line;
mod listing;
mod meta;
mod meta_flags;
mod meta_set;
pub mod number;
mod operating;
mod retrieval;
pub mod storage;
pub mod words;

pub use line::{Next, line};
pub use listing::{Listing, list};
pub use retrieval::{Keys, get};
