//! VFIO: a PCI function of the machine, driven by this process. Its memory accesses are bounded by the IOMMU.
//!
//! ```text
//!  Function ─ registers ─▶ Registers    a BAR, mapped: loads and stores reach the device
//!     │     ─ map ───────▶ an address   where the device finds a Region; everything else is refused by the IOMMU
//!     │     ─ interrupts ▶ descriptors  MSI-X vectors as eventfds
//!     └── device ── group ── container  closing them stops the device and takes its memory away
//! ```
//! The holder of a function's descriptor has full authority over that function, its configuration and its reset included. The kernel's
//! part is what is outside of it: which memory it reaches. Groups and containers are used, not IOMMUFD, which Debian's kernels lack.

mod address;
mod binding;
mod call;
mod config;
mod container;
mod error;
mod function;
mod group;
mod interrupts;
mod registers;
mod sriov;
mod sysfs;

pub use address::{AddressError, PciAddress};
pub use call::MEMORY_CALLS;
pub use error::VfioError;
pub use function::{Function, FunctionDescriptors};
pub use registers::Registers;
pub use sysfs::{Identity, Sysfs};
