//! The disk core: one process that has a disk, and serves queue pairs in shared memory to applications it does not believe.
//!
//! ```text
//!  application ─ queues in shared memory ─▶ CoreEnd ─▶ Controller ─▶ AreaDisk ─▶ Channel ─┐
//!                                           (reads once, judges)   (its extents)  (rates)  ├─ fair turns ─▶ Backend, the disk
//!  application ─ queues in shared memory ─▶ CoreEnd ─▶ Controller ─▶ AreaDisk ─▶ Channel ─┘
//! ```
//! What a tenant may do is bounded everywhere: commands under way by its controller, which fetches one only if there is room for its end;
//! commands a turn, requests and bytes at the disk, memory to copy through, each its own. So a tenant that floods, sleeps or stops
//! taking its ends holds up nobody but itself. One that does what no driver does is cut off.

mod backend;
mod channel;
mod core;
mod meter;
mod rate;
mod tenant;
mod window;

pub use self::core::{Closed, CoreTurn, DiskCore, PIECES_MAX, TENANTS_MAX};
pub use backend::Backend;
pub use tenant::{Closing, TenantConfig, TenantDescriptors, TenantError, TenantStatistics};
