//! [`Function`]: a PCI function that this process drives.

use super::address::PciAddress;
use super::call::{self, CONFIG_REGION, DEVICE_GET_REGION_INFO, DEVICE_RESET, REGION_MAPPABLE, RegionInfo};
use super::config::{BUS_MASTER, COMMAND, Config, MEMORY};
use super::container::{self, Container};
use super::error::VfioError;
use super::registers::Registers;
use super::sysfs::{Identity, Sysfs};
use super::{group, interrupts};
use crate::base::event_fd::event_fd;
use crate::memory::Region;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// What a function is driven by: its descriptor, and those of its group and its container. Their holder has full authority over the
/// function, and says which of its own memory the function reaches. They can be handed to another process, of which one drives the function.
#[derive(Debug)]
pub struct FunctionDescriptors {
    /// Where it is.
    pub address: PciAddress,
    /// What it is.
    pub identity: Identity,
    /// The function.
    pub device: OwnedFd,
    /// Its group.
    pub group: OwnedFd,
    /// What it reaches.
    pub container: OwnedFd,
}

impl FunctionDescriptors {
    /// Opens the function at an address, which vfio-pci must have. It reaches no memory.
    ///
    /// # Errors
    /// [`VfioError`].
    pub fn open(address: PciAddress) -> Result<FunctionDescriptors, VfioError> {
        let sysfs = Sysfs::default();
        let identity = sysfs.identity(address)?;
        // Before the container is asked for: what is wrong with the function says more than that there is no VFIO.
        sysfs.group(address)?;
        let container = container::open()?;
        let group = group::open(address, &sysfs, container.as_fd())?;
        let device = group::device(&group, address)?;
        Ok(FunctionDescriptors { address, identity, device, group: group.into(), container })
    }
}

/// A PCI function that this process drives, over the one group and container of its own.
///
/// It is stopped, and its memory taken away, when this is dropped or the process ends, however that ends. Not `Send`.
pub struct Function {
    address: PciAddress,
    identity: Identity,
    config: Config,
    // In the order in which they must be closed.
    device: OwnedFd,
    _group: OwnedFd,
    container: Container,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Function({})", self.address)
    }
}

impl Function {
    /// Opens the function at an address, which vfio-pci must have. Its interrupts are off, and it reaches no memory.
    ///
    /// # Errors
    /// [`VfioError`].
    pub fn open(address: PciAddress) -> Result<Function, VfioError> {
        Function::over(FunctionDescriptors::open(address)?)
    }

    /// The same of descriptors that were opened before, perhaps by another process.
    ///
    /// # Errors
    /// [`VfioError::System`].
    pub fn over(descriptors: FunctionDescriptors) -> Result<Function, VfioError> {
        let FunctionDescriptors { address, identity, device, group, container } = descriptors;
        let container = Container::over(container)?;
        let region = region_of(&device, CONFIG_REGION)
            .map_err(|source| VfioError::system(format!("find the configuration of {address}"), source))?;
        let function =
            Function { address, identity, config: Config { offset: region.offset }, device, _group: group, container };
        // Whoever had it before may have left it running.
        function.set_bus_master(false)?;
        Ok(function)
    }

    /// Where it is.
    pub fn address(&self) -> PciAddress {
        self.address
    }

    /// What it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Maps the first `bytes` of a BAR, or as many as it has, in whole pages.
    ///
    /// # Errors
    /// [`VfioError::NoRegisters`], [`VfioError::System`].
    pub fn registers(&self, bar: u32, bytes: usize) -> Result<Registers, VfioError> {
        let address = self.address;
        let system = |source| VfioError::system(format!("map BAR {bar} of {address}"), source);
        if bar >= CONFIG_REGION {
            return Err(VfioError::NoRegisters { address, bar });
        }
        let region = region_of(&self.device, bar).map_err(system)?;
        let length = (bytes as u64).next_multiple_of(4_096).min(region.bytes & !4_095) as usize;
        if region.flags & REGION_MAPPABLE == 0 || length == 0 {
            return Err(VfioError::NoRegisters { address, bar });
        }
        Registers::map(self.device.as_fd(), region.offset, length).map_err(system)
    }

    /// Has the function reach `region`, which is kept as long as the function; its address for the function. Once for each region.
    /// The region's memory is pinned.
    ///
    /// # Errors
    /// [`VfioError::NoRoom`], [`VfioError::LockedMemory`], [`VfioError::System`].
    pub fn map(&mut self, region: &Rc<Region>) -> Result<u64, VfioError> {
        self.container.map(region)
    }

    /// Has the function reach `region` no more. If that fails, the region is kept for good.
    ///
    /// # Errors
    /// [`VfioError::System`].
    pub fn unmap(&mut self, region: &Rc<Region>) -> Result<(), VfioError> {
        self.container.unmap(region)
    }

    /// MSI-X vectors that it has.
    pub fn vectors(&self) -> u32 {
        interrupts::count(self.device.as_fd())
    }

    /// Turns MSI-X on with `vectors` vectors, of which those from `first` on ring the eventfd that is returned.
    ///
    /// # Errors
    /// [`VfioError::NoInterrupts`], [`VfioError::System`].
    pub fn interrupts(&self, first: u32, vectors: u32) -> Result<OwnedFd, VfioError> {
        let event = event_fd().map_err(|source| VfioError::system("make an eventfd", source))?;
        let events: Vec<Option<BorrowedFd<'_>>> =
            (0..vectors).map(|vector| (vector >= first).then(|| event.as_fd())).collect();
        interrupts::route(self.device.as_fd(), self.address, &events)?;
        Ok(event)
    }

    /// Lets the function reach memory, or not (PCI Command, Bus Master Enable). When this returns, it is so.
    ///
    /// # Errors
    /// [`VfioError::System`]; it may still reach memory.
    pub fn set_bus_master(&self, on: bool) -> Result<(), VfioError> {
        let device = self.device.as_fd();
        let set = || {
            let command = self.config.read(device, COMMAND)?;
            let wanted = if on { command | BUS_MASTER | MEMORY } else { command & !BUS_MASTER };
            self.config.write(device, COMMAND, wanted)?;
            let now = self.config.read(device, COMMAND)?;
            if (now & BUS_MASTER != 0) == on { Ok(()) } else { Err(std::io::Error::other("the function keeps it")) }
        };
        let what = if on { "let" } else { "keep" };
        set().map_err(|source| {
            VfioError::system(format!("{what} {} reach memory (bus mastering)", self.address), source)
        })
    }

    /// Resets it (Function Level Reset), as if its power had been off. Registers must be set anew; what is mapped stays so.
    ///
    /// # Errors
    /// [`VfioError::System`]: it can't be reset alone.
    pub fn reset(&self) -> Result<(), VfioError> {
        call::with_number(self.device.as_fd(), DEVICE_RESET, 0)
            .map(drop)
            .map_err(|source| VfioError::system(format!("reset {}", self.address), source))
    }

    /// Keeps what is mapped for good: a device that can't be stopped may still write there.
    pub fn give_up(&mut self) {
        self.container.give_up();
    }
}

/// A region of a device.
fn region_of(device: &OwnedFd, index: u32) -> std::io::Result<RegionInfo> {
    let mut info = RegionInfo { size: size_of::<RegionInfo>() as u32, index, ..RegionInfo::default() };
    call::with_argument(device.as_fd(), DEVICE_GET_REGION_INFO, &mut info)?;
    Ok(info)
}
