//! Areas that the kernel fences: whoever has one has the descriptor of a partition, or of a file, and no disk core is on its path.
//!
//! ```text
//!  whole disk ── BLKPG ──▶ partition over the area's zeroed bytes ── descriptor ──▶ application's own io_uring
//!  directory ── fallocate, zeroes ──▶ a file of the area's own ───── descriptor ──▶
//! ```
//! The kernel also says whether anybody still has such a descriptor, wherever it was passed on to: a partition that is open can't be
//! deleted, and a file that is open elsewhere gets no lease. What each of them does not fence is in docs/security.md.

mod error;
mod files;
mod partitions;
mod sysfs;

pub use error::FenceError;
pub use files::{AreaFiles, TABLE};
pub use partitions::{Partition, Partitions, partitions_of};
