//! NVMe: the driver of a controller's queue pair, whatever it is reached by.
//!
//! ```text
//!  Nvme (Vsic)  ── QueuePair ── submission, completion queue ─┐
//!    │ BringUp      Commands     PRP lists, shadow doorbells ─┴─ memory that the controller reaches by Mappings
//!    └── Transport ── registers: a function's by VFIO, or those of a software controller (crate::controller)
//! ```

mod bring_up;
mod commands;
mod device;
mod doorbells;
mod driver;
mod error;
mod memory;
mod notices;
mod prp;
mod queue;
pub mod spec;
mod transport;
pub mod vfio;

pub use bring_up::Identity;
pub use device::NvmeOptions;
pub use driver::Nvme;
pub use error::NvmeError;
pub use memory::Mapping;
pub use queue::Violation;
pub use transport::{Held, Transport};
