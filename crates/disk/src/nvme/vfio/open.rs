//! Opening a controller by its PCI address.

use super::error::NvmeOpenError;
use super::transport::FunctionTransport;
use crate::nvme::device::NvmeOptions;
use crate::nvme::driver::Nvme;
use crate::nvme::memory::Mapping;
use qanat_nic::vfio::{Function, PciAddress, VfioError};
use qanat_nic::{MonotonicClock, Region};
use std::io;
use std::rc::Rc;

/// Mass storage, non-volatile memory, NVMe's registers.
const CLASS: u32 = 0x01_0802;

/// Opens the NVMe controller at a PCI address, which vfio-pci must have, for buffers of `memory`. It is reset and brought up.
///
/// # Errors
/// [`NvmeOpenError`].
pub fn open(
    address: PciAddress,
    options: NvmeOptions,
    memory: &[Rc<Region>],
) -> Result<Nvme<FunctionTransport>, NvmeOpenError> {
    open_function(Function::open(address)?, options, memory)
}

/// As [`open`], of a function that is open already. Memory that was mapped before stays mapped.
///
/// # Errors
/// [`NvmeOpenError`].
pub fn open_function(
    mut function: Function,
    options: NvmeOptions,
    memory: &[Rc<Region>],
) -> Result<Nvme<FunctionTransport>, NvmeOpenError> {
    let (address, identity) = (function.address(), function.identity());
    if identity.class != CLASS {
        let found = format!("class {:06x}, {:04x}:{:04x}", identity.class, identity.vendor, identity.device);
        return Err(VfioError::WrongKind { address, wanted: "NVMe controller", found }.into());
    }
    let no_memory = |error| NvmeOpenError::Memory { address, error };
    let bytes = u32::try_from(options.memory_bytes()).ok().and_then(u32::checked_next_power_of_two);
    let bytes = bytes.ok_or_else(|| no_memory(io::ErrorKind::OutOfMemory.into()))?;
    let region = Region::new(1, bytes.max(4_096)).map_err(no_memory)?;
    let frame = region.pool(1).and_then(|pool| pool.allocate(0));
    let frame = frame.ok_or_else(|| no_memory(io::ErrorKind::OutOfMemory.into()))?;
    let queues = Mapping { address: function.map(&region)?, region };
    let mut mappings = Vec::with_capacity(memory.len());
    for region in memory {
        mappings.push(Mapping { address: function.map(region)?, region: Rc::clone(region) });
    }
    let transport = FunctionTransport::new(function)?;
    Nvme::open(transport, MonotonicClock::new(), options, (queues, frame), mappings)
        .map_err(|error| NvmeOpenError::Controller { address, error })
}
