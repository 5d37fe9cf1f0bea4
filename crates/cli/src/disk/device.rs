//! The device behind a disk's name: a file or device by io_uring, or an NVMe function by VFIO.

use qanat_disk::area::Areas;
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::nvme::vfio::{self, NvmeOpenError};
use qanat_disk::{DiskOptions, OpenError, Uring, Vsic};
use qanat_nic::Region;
use qanat_nic::vfio::PciAddress;
use std::path::Path;
use std::rc::Rc;

/// A disk, whatever drives it.
pub type Device = Box<dyn Vsic>;

/// An NVMe function, as it is named on the command line.
const PREFIX: &str = "pci:";
/// How completions of a function are noticed.
const OF_A_FUNCTION: &str =
    "completions are polled for in the function's own queue, and rung by its interrupt for who sleeps";

/// Why it can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A file or device.
    #[error(transparent)]
    File(#[from] OpenError),
    /// A function.
    #[error(transparent)]
    Function(#[from] NvmeOpenError),
    /// The name of a function is none.
    #[error("{0}")]
    Name(String),
}

/// The function and its namespace, if the name is that of one: `pci:01:00.0`, `pci:0000:01:00.0/2`.
///
/// # Errors
/// What is wrong with the name.
pub fn function_of(path: &Path) -> Result<Option<(PciAddress, Option<u32>)>, String> {
    let Some(text) = path.to_str().and_then(|text| text.strip_prefix(PREFIX)) else { return Ok(None) };
    let (address, namespace) = match text.split_once('/') {
        Some((address, namespace)) => (address, Some(namespace)),
        None => (text, None),
    };
    let address = address.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    let wrong = || format!("{}: a namespace is a number from 1 on, as in {PREFIX}{address}/2", path.display());
    let namespace = namespace.map(|text| number(text).ok_or_else(wrong)).transpose()?;
    Ok(Some((address, namespace)))
}

/// Opens it for this process alone, and says how completions are noticed. `memory`: what all buffers will be of.
///
/// # Errors
/// [`DeviceError`].
pub fn open(path: &Path, options: DiskOptions, memory: &[Rc<Region>]) -> Result<(Device, String), DeviceError> {
    let Some((address, namespace)) = function_of(path).map_err(DeviceError::Name)? else {
        let disk = Uring::open(path, options, memory)?;
        let completions = disk.polling().to_string();
        return Ok((Box::new(disk), completions));
    };
    let longest = memory.iter().map(|region| region.frame_size()).max().unwrap_or(0);
    let defaults = NvmeOptions::default();
    let transfer_bytes_max = defaults.transfer_bytes_max.max(longest);
    let wanted = NvmeOptions { depth: options.depth, namespace, transfer_bytes_max, ..defaults };
    Ok((Box::new(vfio::open(address, wanted, memory)?), OF_A_FUNCTION.to_owned()))
}

/// Memory by which a disk's table is read and written.
///
/// # Errors
/// There is none.
pub fn table_memory() -> Result<Rc<Region>, String> {
    Areas::<Device>::memory().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_by_its_address_and_namespace() {
        let of = |text: &str| function_of(Path::new(text));
        let address: PciAddress = "0000:01:00.0".parse().unwrap();
        assert_eq!(of("pci:01:00.0"), Ok(Some((address, None))));
        assert_eq!(of("pci:0000:01:00.0/2"), Ok(Some((address, Some(2)))));
        assert_eq!((of("./fast.img"), of("/dev/ng0n1")), (Ok(None), Ok(None)));
        for wrong in ["pci:", "pci:01:00", "pci:01:00.0/", "pci:01:00.0/0", "pci:01:00.0/x"] {
            assert!(of(wrong).is_err_and(|why| why.contains(wrong)), "{wrong}");
        }
    }
}
