//! VFIO's calls: numbers and structures of `linux/vfio.h`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The version of the interface.
pub(super) const API_VERSION: libc::c_int = 0;
/// An IOMMU driver of which unmapping is exact.
pub(super) const TYPE1V2_IOMMU: libc::c_ulong = 3;

/// `VFIO_TYPE` and the first number: calls take and give by pointers whose sizes are in the structures.
const BASE: libc::c_ulong = (b';' as libc::c_ulong) << 8 | 100;
pub(super) const GET_API_VERSION: libc::c_ulong = BASE;
pub(super) const CHECK_EXTENSION: libc::c_ulong = BASE + 1;
pub(super) const SET_IOMMU: libc::c_ulong = BASE + 2;
pub(super) const GROUP_GET_STATUS: libc::c_ulong = BASE + 3;
pub(super) const GROUP_SET_CONTAINER: libc::c_ulong = BASE + 4;
const GROUP_GET_DEVICE_FD: libc::c_ulong = BASE + 6;
pub(super) const DEVICE_GET_REGION_INFO: libc::c_ulong = BASE + 8;
pub(super) const DEVICE_GET_IRQ_INFO: libc::c_ulong = BASE + 9;
pub(super) const DEVICE_SET_IRQS: libc::c_ulong = BASE + 10;
pub(super) const DEVICE_RESET: libc::c_ulong = BASE + 11;
pub(super) const IOMMU_GET_INFO: libc::c_ulong = BASE + 12;
pub(super) const IOMMU_MAP_DMA: libc::c_ulong = BASE + 13;
pub(super) const IOMMU_UNMAP_DMA: libc::c_ulong = BASE + 14;

/// The calls by which a process that has a function maps and unmaps memory for it: what it needs when all is open.
pub const MEMORY_CALLS: [u64; 2] = [IOMMU_MAP_DMA, IOMMU_UNMAP_DMA];

/// The PCI configuration space among a device's regions; BARs are 0 to 5.
pub(super) const CONFIG_REGION: u32 = 7;
/// MSI-X among a device's kinds of interrupts.
pub(super) const MSIX: u32 = 2;

/// A structure that a call reads and writes: it begins with its own size.
///
/// # Safety
/// The implementer is plain numbers without padding, and is the structure that the calls it is used with take.
pub(super) unsafe trait Argument {}

/// `vfio_group_status`.
#[repr(C)]
#[derive(Default)]
pub(super) struct GroupStatus {
    pub(super) size: u32,
    pub(super) flags: u32,
}

/// In [`GroupStatus::flags`]: no driver of the kernel's has a function of the group.
pub(super) const GROUP_VIABLE: u32 = 1;

/// `vfio_region_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct RegionInfo {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) capabilities: u32,
    pub(super) bytes: u64,
    pub(super) offset: u64,
}

/// In [`RegionInfo::flags`]: it can be mapped.
pub(super) const REGION_MAPPABLE: u32 = 4;

/// `vfio_irq_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct InterruptInfo {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) count: u32,
}

/// Vectors that are set at once, at most.
pub(super) const VECTORS_MAX: usize = 8;

/// `vfio_irq_set`, with room for some descriptors.
#[repr(C)]
#[derive(Default)]
pub(super) struct InterruptSet {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) start: u32,
    pub(super) count: u32,
    pub(super) descriptors: [i32; VECTORS_MAX],
}

/// In [`InterruptSet::flags`]: the data are eventfds, to be written when a vector fires.
pub(super) const TRIGGER_EVENTFD: u32 = 1 << 2 | 1 << 5;

/// `vfio_iommu_type1_dma_map`.
#[repr(C)]
#[derive(Default)]
pub(super) struct DmaMap {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) address: u64,
    pub(super) device_address: u64,
    pub(super) bytes: u64,
}

/// `vfio_iommu_type1_dma_unmap`, without data.
#[repr(C)]
#[derive(Default)]
pub(super) struct DmaUnmap {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) device_address: u64,
    pub(super) bytes: u64,
}

/// In [`DmaMap::flags`]: the device may read and write it.
pub(super) const DMA_READ_WRITE: u32 = 3;

/// Words for the IOMMU's ranges and other capabilities.
pub(super) const IOMMU_WORDS: usize = 512;

/// `vfio_iommu_type1_info`, with room for its capabilities.
#[repr(C)]
pub(super) struct IommuInfo {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) page_sizes: u64,
    pub(super) capabilities: u32,
    pub(super) padding: u32,
    pub(super) rest: [u32; IOMMU_WORDS],
}

/// In [`IommuInfo::flags`]: there are capabilities.
pub(super) const IOMMU_CAPABILITIES: u32 = 2;

// SAFETY: plain numbers, laid out as `linux/vfio.h` has `vfio_group_status`.
unsafe impl Argument for GroupStatus {}
// SAFETY: plain numbers, laid out as `linux/vfio.h` has `vfio_region_info`.
unsafe impl Argument for RegionInfo {}
// SAFETY: plain numbers, laid out as `linux/vfio.h` has `vfio_irq_info`.
unsafe impl Argument for InterruptInfo {}
// SAFETY: plain numbers, laid out as `linux/vfio.h` has `vfio_irq_set`; its count says how many descriptors are read.
unsafe impl Argument for InterruptSet {}
// SAFETY: plain numbers, laid out as `linux/vfio.h` has `vfio_iommu_type1_dma_map`.
unsafe impl Argument for DmaMap {}
// SAFETY: plain numbers, laid out as `linux/vfio.h` has `vfio_iommu_type1_dma_unmap`.
unsafe impl Argument for DmaUnmap {}
// SAFETY: plain numbers, laid out as `linux/vfio.h` has `vfio_iommu_type1_info`, and words behind it, which its size counts.
unsafe impl Argument for IommuInfo {}

fn outcome(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A call that takes a number, or nothing.
pub(super) fn with_number(fd: BorrowedFd<'_>, call: libc::c_ulong, number: libc::c_ulong) -> io::Result<libc::c_int> {
    // SAFETY: the calls used with this take numbers and no pointers.
    outcome(unsafe { libc::ioctl(fd.as_raw_fd(), call as _, number) })
}

/// A call that reads and writes a structure.
pub(super) fn with_argument<A: Argument>(fd: BorrowedFd<'_>, call: libc::c_ulong, argument: &mut A) -> io::Result<()> {
    // SAFETY: a live structure, borrowed mutably, of the kind that the call takes (`Argument`); the kernel writes no more than the
    // size that stands at its beginning. Memory that `DmaMap` names is only pinned here: `Function::map` says whose it is.
    outcome(unsafe { libc::ioctl(fd.as_raw_fd(), call as _, std::ptr::from_mut(argument)) }).map(drop)
}

/// A call that takes another descriptor.
pub(super) fn with_descriptor(fd: BorrowedFd<'_>, call: libc::c_ulong, other: BorrowedFd<'_>) -> io::Result<()> {
    let other: libc::c_int = other.as_raw_fd();
    // SAFETY: a live number.
    outcome(unsafe { libc::ioctl(fd.as_raw_fd(), call as _, &raw const other) }).map(drop)
}

/// The descriptor of a function of a group.
pub(super) fn device_of(group: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: a NUL-terminated name.
    let fd = outcome(unsafe { libc::ioctl(group.as_raw_fd(), GROUP_GET_DEVICE_FD as _, name.as_ptr()) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_the_kernels() {
        assert_eq!((size_of::<GroupStatus>(), size_of::<RegionInfo>(), size_of::<InterruptInfo>()), (8, 32, 16));
        assert_eq!((size_of::<DmaMap>(), size_of::<DmaUnmap>()), (32, 24));
        assert_eq!(size_of::<IommuInfo>(), 24 + 4 * IOMMU_WORDS);
        assert_eq!(size_of::<InterruptSet>(), 20 + 4 * VECTORS_MAX);
        assert_eq!((GET_API_VERSION, MEMORY_CALLS), (0x3b64, [0x3b71, 0x3b72]));
    }
}
