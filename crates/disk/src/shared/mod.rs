//! Queue pairs in shared memory: how an application reaches the software controller of another process, the disk core.
//!
//! ```text
//!  application  Nvme over SharedTransport ── page of registers and doorbells ── CoreEnd ─▶ Controller   disk core
//!                    queues, PRP lists, frames ───────── TenantMemory ────────────────────────┘
//!                    doorbell ◀────────── a byte, if the other side sleeps ──────────▶ doorbell
//! ```

mod bell;
mod core_end;
mod layout;
mod memory;
mod page;
mod transport;

pub(crate) use core_end::CoreEnd;
pub use layout::{LayoutError, SharedLayout};
pub(crate) use memory::TenantMemory;
pub(crate) use page::QUEUE_PAIRS;
pub use transport::{SharedArea, SharedError, SharedTransport};
