//! Functions change hands: from a driver of the kernel's to vfio-pci, and back.

use super::address::PciAddress;
use super::error::VfioError;
use super::sysfs::{DRIVER, Sysfs};
use std::fs;
use std::path::PathBuf;

/// What clears the name of the driver that alone may have a function.
const ANY: &str = "\n";

impl Sysfs {
    pub(super) fn write(&self, path: PathBuf, text: &str) -> Result<(), VfioError> {
        fs::write(&path, text)
            .map_err(|source| VfioError::system(format!("write {:?} to {}", text.trim(), path.display()), source))
    }

    /// Lets `driver` have a function, or whichever is for it, and has the kernel look for it.
    fn offer(&self, address: PciAddress, driver: &str) -> Result<(), VfioError> {
        let device = self.device(address);
        self.write(device.join("driver_override"), driver)?;
        if self.driver(address).is_some() {
            self.write(device.join("driver/unbind"), &address.to_string())?;
        }
        self.write(self.probe(), &address.to_string())
    }

    /// Gives a function to vfio-pci, whoever has it: the caller has seen to it that nothing uses it. The driver that had it, if another
    /// had. If vfio-pci does not take it, that driver has it again.
    ///
    /// # Errors
    /// [`VfioError::NoSuchFunction`], [`VfioError::NotTaken`], [`VfioError::System`] if the process may not write there.
    pub fn give_to_vfio(&self, address: PciAddress) -> Result<Option<String>, VfioError> {
        self.identity(address)?;
        let before = self.driver(address);
        if before.as_deref() == Some(DRIVER) {
            return Ok(None);
        }
        let offered = self.offer(address, DRIVER);
        if offered.is_ok() && self.driver(address).as_deref() == Some(DRIVER) {
            return Ok(before);
        }
        // As it was, as far as that goes: what is wrong is said.
        let _ = self.give_back(address);
        offered.and(Err(VfioError::NotTaken { address }))
    }

    /// Gives a function that vfio-pci has, or nobody, to the kernel's driver for it. Another driver keeps it.
    ///
    /// # Errors
    /// [`VfioError::System`].
    pub fn give_back(&self, address: PciAddress) -> Result<(), VfioError> {
        match self.driver(address) {
            Some(driver) if driver != DRIVER => Ok(()),
            _ => self.offer(address, ANY),
        }
    }
}
