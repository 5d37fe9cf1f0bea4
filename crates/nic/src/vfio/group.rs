//! A function's group: the functions that the IOMMU can't tell apart, which one process has together.

use super::address::PciAddress;
use super::call::{self, GROUP_GET_STATUS, GROUP_SET_CONTAINER, GROUP_VIABLE, GroupStatus};
use super::container;
use super::error::VfioError;
use super::sysfs::Sysfs;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The file of a group.
pub(super) fn path(group: u32) -> String {
    format!("/dev/vfio/{group}")
}

/// Opens a function's group, and puts it into a container, whose IOMMU is turned on.
///
/// # Errors
/// [`VfioError`].
pub(super) fn open(address: PciAddress, sysfs: &Sysfs, container: BorrowedFd<'_>) -> Result<File, VfioError> {
    let group = sysfs.group(address)?;
    let path = path(group);
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT) => VfioError::NoVfio { path: path.clone() },
        Some(libc::EACCES | libc::EPERM) => VfioError::NotPermitted { path: path.clone() },
        Some(libc::EBUSY) => VfioError::Busy { path: path.clone() },
        _ => VfioError::system(format!("open {path}"), error),
    })?;
    let mut status = GroupStatus { size: size_of::<GroupStatus>() as u32, flags: 0 };
    call::with_argument(file.as_fd(), GROUP_GET_STATUS, &mut status)
        .map_err(|source| VfioError::system(format!("ask for the status of {path}"), source))?;
    if status.flags & GROUP_VIABLE == 0 {
        return Err(VfioError::NotViable { address, group, others: sysfs.others(group, address) });
    }
    call::with_descriptor(file.as_fd(), GROUP_SET_CONTAINER, container).map_err(|source| {
        match source.raw_os_error() {
            Some(libc::EBUSY) => VfioError::Busy { path: path.clone() },
            _ => VfioError::system(format!("put {path} into a container"), source),
        }
    })?;
    container::start(container)?;
    Ok(file)
}

/// A function of a group: its descriptor, which is full authority over it.
///
/// # Errors
/// [`VfioError::System`].
pub(super) fn device(group: &File, address: PciAddress) -> Result<OwnedFd, VfioError> {
    let system = |source| VfioError::system(format!("open PCI function {address}"), source);
    let name = CString::new(address.to_string()).map_err(|error| system(io::Error::from(error)))?;
    call::device_of(group.as_fd(), &name).map_err(system)
}
