//! A virtual function of a network card, driven by this process.

use super::options::{AttachOptions, FunctionCard};
use qanat_nic::igbvf::{IgbVf, IgbVfConfig, IgbVfError, MTU};
use qanat_nic::vfio::{Function, FunctionDescriptors, PciAddress, Sysfs};
use qanat_nic::{DeviceError, MemoryPlan};
use qanat_stack::Config;
use std::net::IpAddr;

/// The kernel's driver that hands functions to processes.
const DRIVER: &str = "vfio-pci";

/// A function that is there, and may be opened.
pub(super) struct FunctionDevice {
    address: PciAddress,
    /// What neighbours may ask for.
    addresses: Vec<IpAddr>,
}

impl FunctionDevice {
    /// Looks whether it can be had.
    ///
    /// # Errors
    /// [`IgbVfError`], with the remedy.
    pub(super) fn find(
        card: &FunctionCard,
        options: &AttachOptions,
        config: &Config,
    ) -> Result<FunctionDevice, IgbVfError> {
        let address = card.address;
        if options.queues > 1 {
            let reason =
                format!("the virtual function {address} has one queue, not {}: leave out --queues", options.queues);
            return Err(IgbVfError::Invalid { reason });
        }
        // It is opened by the thread that drives it. What is wrong with it is said now.
        Sysfs::default().group(address)?;
        Ok(FunctionDevice { address, addresses: config.addresses.iter().map(|(address, _)| *address).collect() })
    }

    /// As it is named on the command line.
    pub(super) fn name(&self) -> String {
        format!("vf:{}", self.address)
    }

    pub(super) fn driver(&self) -> &'static str {
        DRIVER
    }

    pub(super) fn mtu(&self) -> u32 {
        u32::from(MTU)
    }

    /// Opens its only queue on this thread.
    ///
    /// # Errors
    /// [`IgbVfError`], with the remedy.
    pub(super) fn open(&self, queue: u32, plan: MemoryPlan) -> Result<IgbVf, IgbVfError> {
        if queue > 0 {
            return Err(IgbVfError::Invalid { reason: format!("{} has no queue {queue}", self.address) });
        }
        let addresses = self.addresses.clone();
        IgbVf::open(&IgbVfConfig { plan, addresses, ..IgbVfConfig::new(self.address) })
    }

    /// Why other processes can't have a part in it.
    pub(super) fn is_not_shared(&self) -> DeviceError {
        not_shared(&self.name())
    }
}

/// Why a virtual function is one process's.
pub(super) fn not_shared(name: &str) -> DeviceError {
    let reason = format!(
        "{name}: a virtual function is driven by the process whose stack it is: use the linked placement (leave out --placement, \
         --net and the like; `qanat run` has no such card)"
    );
    DeviceError::Invalid { reason }
}

/// Opens, on this thread, a function that a daemon handed over.
///
/// # Errors
/// [`IgbVfError`], with the remedy.
pub(super) fn open_handed(
    descriptors: FunctionDescriptors,
    addresses: Vec<IpAddr>,
    plan: MemoryPlan,
) -> Result<IgbVf, IgbVfError> {
    let config = IgbVfConfig { plan, addresses, ..IgbVfConfig::new(descriptors.address) };
    IgbVf::over(Function::over(descriptors)?, &config)
}
