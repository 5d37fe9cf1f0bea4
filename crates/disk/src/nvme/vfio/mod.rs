//! A controller that is a PCI function of the machine, over VFIO.
//!
//! ```text
//!  Nvme<FunctionTransport> ── BAR 0: registers, doorbells ──▶ controller ── IOMMU ── queues, buffers: what `open` mapped
//!                          ◀── MSI-X: an eventfd ────────────┘
//! ```

mod error;
mod open;
mod take;
mod transport;

pub use error::NvmeOpenError;
pub use open::{open, open_function};
pub use take::take;
pub use transport::FunctionTransport;
