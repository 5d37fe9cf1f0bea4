//! Virtual functions (SR-IOV) as the kernel makes them.

use super::address::PciAddress;
use super::error::VfioError;
use super::sysfs::Sysfs;
use std::fs;
use std::path::PathBuf;

impl Sysfs {
    /// The function of a network interface; `None`: it is of no PCI function.
    pub fn of_interface(&self, interface: &str) -> Option<PciAddress> {
        let name = fs::read_link(self.interface(interface).join("device")).ok()?;
        name.file_name()?.to_str()?.parse().ok()
    }

    fn count(&self, parent: PciAddress, file: &str) -> Option<u32> {
        fs::read_to_string(self.device(parent).join(file)).ok()?.trim().parse().ok()
    }

    /// Virtual functions that a function may have; 0: it has no SR-IOV.
    pub fn functions_max(&self, parent: PciAddress) -> u32 {
        self.count(parent, "sriov_totalvfs").unwrap_or(0)
    }

    /// Virtual functions that a function has.
    pub fn functions(&self, parent: PciAddress) -> u32 {
        self.count(parent, "sriov_numvfs").unwrap_or(0)
    }

    /// Makes virtual functions, which no driver gets by itself; 0: removes them all. The kernel waits until nobody has those that go.
    ///
    /// # Errors
    /// [`VfioError::System`].
    pub fn make_functions(&self, parent: PciAddress, count: u32) -> Result<(), VfioError> {
        let device = self.device(parent);
        if count > 0 {
            self.write(device.join("sriov_drivers_autoprobe"), "0")?;
        }
        self.write(device.join("sriov_numvfs"), &count.to_string())
    }

    /// The virtual function of that number.
    pub fn virtual_function(&self, parent: PciAddress, number: u32) -> Option<PciAddress> {
        let link: PathBuf = self.device(parent).join(format!("virtfn{number}"));
        fs::read_link(link).ok()?.file_name()?.to_str()?.parse().ok()
    }
}
