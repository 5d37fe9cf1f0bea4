//! [`NvmeOpenError`]: why a PCI function can't be had as a disk.

use crate::error::OpenError;
use crate::nvme::error::NvmeError;
use qanat_nic::vfio::{PciAddress, VfioError};
use std::io;

/// Why a PCI function can't be had as a disk.
#[derive(Debug, thiserror::Error)]
pub enum NvmeOpenError {
    /// The function can't be driven.
    #[error(transparent)]
    Function(#[from] VfioError),
    /// The kernel's driver has it, and it is in use there.
    #[error("{address} can't be taken from the kernel: {error}")]
    InUse {
        /// The function's address.
        address: PciAddress,
        /// Which device of it, and who has that.
        error: OpenError,
    },
    /// Its controller can't be brought up.
    #[error("{address}: {error}")]
    Controller {
        /// The function's address.
        address: PciAddress,
        /// Why.
        error: NvmeError,
    },
    /// There is no memory for its queues.
    #[error("memory for the queues of {address}: {error}; use a smaller depth or shorter transfers")]
    Memory {
        /// The function's address.
        address: PciAddress,
        /// Why.
        error: io::Error,
    },
}
