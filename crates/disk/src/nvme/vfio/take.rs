//! An NVMe function is taken from the kernel's driver, if nothing uses it there.

use super::error::NvmeOpenError;
use crate::uring::{DiskFile, DiskOptions};
use qanat_nic::vfio::{PciAddress, Sysfs};
use std::path::Path;

/// Gives the NVMe function at an address to vfio-pci. It is refused if a block device that the kernel's driver has made of it is in use:
/// mounted, part of another device, or opened for itself by a program. The driver that had it; `None`: vfio-pci has had it before.
///
/// # Errors
/// [`NvmeOpenError::InUse`], which says who has it; [`NvmeOpenError::Function`].
pub fn take(address: PciAddress) -> Result<Option<String>, NvmeOpenError> {
    let sysfs = Sysfs::default();
    // What is a partition is in use if the whole is.
    for name in sysfs.block_devices(address) {
        let path = Path::new("/dev").join(name);
        // Who opens it between this look and the driver's end loses it, as if the device had been pulled.
        match DiskFile::open(&path, DiskOptions::default()) {
            Ok(file) => drop(file),
            Err(error) => return Err(NvmeOpenError::InUse { address, error }),
        }
    }
    Ok(sysfs.give_to_vfio(address)?)
}
