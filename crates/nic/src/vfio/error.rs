//! [`VfioError`]: why a PCI function can't be driven, and what to do about it.

use super::address::PciAddress;
use std::io;

/// Why a PCI function can't be driven by this process. The text names the place and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfioError {
    /// There is no such function.
    #[error("there is no PCI function {address}: `lspci -D` lists what there is")]
    NoSuchFunction {
        /// Its address.
        address: PciAddress,
    },
    /// It is not of the kind that the driver is for.
    #[error("{address} is no {wanted}: it is {found} (`lspci -nns {address}` says more)")]
    WrongKind {
        /// Its address.
        address: PciAddress,
        /// What the driver is for.
        wanted: &'static str,
        /// What it is, by its numbers.
        found: String,
    },
    /// A driver of the kernel's has it, or none.
    #[error("{}", not_bound(*address, driver.as_deref()))]
    NotBound {
        /// Its address.
        address: PciAddress,
        /// The kernel's driver that it has.
        driver: Option<String>,
    },
    /// A network card has not so many virtual functions.
    #[error(
        "{interface} can't have {wanted} virtual functions: see /sys/class/net/{interface}/device/sriov_totalvfs (SR-IOV must be on in the firmware)"
    )]
    NoFunctions {
        /// Its interface.
        interface: String,
        /// How many are wanted.
        wanted: u32,
    },
    /// vfio-pci does not take it.
    #[error("vfio-pci does not take {address}: `modprobe vfio-pci`, and `dmesg` says more")]
    NotTaken {
        /// Its address.
        address: PciAddress,
    },
    /// The machine has no IOMMU, or does not use it.
    #[error(
        "{address} has no IOMMU group, so its memory accesses can't be bounded: turn the IOMMU on in the firmware, and boot with \
         `intel_iommu=on` (Intel)"
    )]
    NoIommu {
        /// The function's address.
        address: PciAddress,
    },
    /// There is no VFIO.
    #[error("this kernel has no {path}: `modprobe vfio-pci`")]
    NoVfio {
        /// What is missing.
        path: String,
    },
    /// The process may not open a group.
    #[error("{path}: not permitted. Run as root, or let your user have it: `chown USER {path}`")]
    NotPermitted {
        /// What it may not open.
        path: String,
    },
    /// Another process has the group.
    #[error("another process drives functions of {path}: stop it (`fuser -v {path}` names it)")]
    Busy {
        /// The group.
        path: String,
    },
    /// Other functions of the group belong to drivers of the kernel's.
    #[error(
        "{address} shares IOMMU group {group} with {others}: they reach each other's memory, so all must belong to vfio-pci (or none \
         to a driver), or the card must move to another slot"
    )]
    NotViable {
        /// The function's address.
        address: PciAddress,
        /// Its group's number.
        group: u32,
        /// The others, with their drivers.
        others: String,
    },
    /// The kernel's VFIO lacks something.
    #[error("the kernel's VFIO lacks {missing}: Linux 6.6 or newer is needed, with CONFIG_VFIO_IOMMU_TYPE1")]
    Unsupported {
        /// What.
        missing: &'static str,
    },
    /// The device has no such registers, or they can't be mapped.
    #[error("{address} has no registers in BAR {bar} that can be mapped: is it the device that the driver is for?")]
    NoRegisters {
        /// The function's address.
        address: PciAddress,
        /// Which BAR.
        bar: u32,
    },
    /// The device has too few interrupt vectors.
    #[error("{address} has {available} MSI-X vectors, and {wanted} are needed")]
    NoInterrupts {
        /// The function's address.
        address: PciAddress,
        /// Needed.
        wanted: u32,
        /// There.
        available: u32,
    },
    /// The memory limit of the process.
    #[error(
        "{bytes} bytes of memory for a device exceed the locked-memory limit: `ulimit -l unlimited` (LimitMEMLOCK=infinity in a unit)"
    )]
    LockedMemory {
        /// Bytes to pin.
        bytes: usize,
    },
    /// The IOMMU has no addresses left for the memory.
    #[error("the IOMMU has no room for {bytes} bytes more: use less memory for this device")]
    NoRoom {
        /// Bytes to map.
        bytes: usize,
    },
    /// Anything else the system said.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl VfioError {
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> VfioError {
        VfioError::System { what: what.into(), source }
    }
}

/// The text of [`VfioError::NotBound`].
fn not_bound(address: PciAddress, driver: Option<&str>) -> String {
    let device = format!("/sys/bus/pci/devices/{address}");
    let (whose, unbind) = match driver {
        Some(driver) => {
            (format!("belongs to the kernel's driver {driver}"), format!("echo {address} > {device}/driver/unbind; "))
        }
        None => ("belongs to no driver".to_owned(), String::new()),
    };
    format!(
        "{address} {whose}. If nothing uses it, give it to vfio-pci: `modprobe vfio-pci; echo vfio-pci > {device}/driver_override; \
         {unbind}echo {address} > /sys/bus/pci/drivers_probe` (as root)"
    )
}
