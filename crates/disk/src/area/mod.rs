//! Areas: a disk is divided into virtual storage areas (VSAs), each of one owner, recorded on the disk itself.
//!
//! ```text
//!  0        superblock, copy A    ┐ identity, epoch, and the table of areas as of that epoch;
//!  512 KiB  superblock, copy B    ┘ each with a checksum
//!  1 MiB    journal A, journal B    what changed since: a record a change, each in both
//!  2 MiB    the areas' extents, in units of 4 KiB
//! ```
//! A change is one record: it is durable before it is acknowledged, and done when it is read back. When the journal is full, both
//! superblocks are written with the next epoch, one after the other, and the journal begins again. So a loss of power at any write
//! leaves either the old table or the new one, and the loss of any one copy loses nothing.
//!
//! Space is zeroed between its reservation and its first use: nobody reads what its last owner left.

mod codec;
mod error;
mod extent;
mod foreign;
mod journal;
mod layout;
mod store;
mod superblock;
mod table;
mod view;

pub use error::{AreaError, Copy};
pub use extent::{Extent, Piece, pieces};
pub use layout::UNIT_BYTES;
pub use store::{Areas, Repair};
pub use table::{Area, AreaLimits, AreaName, AreaState, Fence, Owner};
pub use view::AreaDisk;
