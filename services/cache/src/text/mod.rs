//! The text protocol (doc/protocol.txt of memcached), with its meta commands. The wording of its errors is what clients know.

mod changing;
mod completion;
mod line;
mod listing;
mod meta;
mod meta_flags;
mod meta_set;
mod operating;
pub mod replies;
mod retrieval;
mod storage;
pub mod words;

pub use completion::complete;
pub use line::line;
pub use listing::list;
pub use retrieval::get;
