//! What the machine's kernel has: functions and their drivers, its block devices, its messages.

use qanat_nic::vfio::PciAddress;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long whatever must happen may take. An emulated machine on a busy one is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is there.
///
/// # Panics
/// It never is.
pub fn eventually<T>(what: &str, ready: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, ready)
}

/// The same of something that may take so long.
///
/// # Panics
/// It takes longer.
pub fn within<T>(patience: Duration, what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < patience, "{what}: not within {patience:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the kernel tells of a function.
pub fn device(address: PciAddress) -> PathBuf {
    PathBuf::from(format!("/sys/bus/pci/devices/{address}"))
}

/// Writes a file of sysfs.
pub fn write(path: PathBuf, text: &str) {
    fs::write(&path, text).unwrap_or_else(|error| panic!("{text} to {}: {error}", path.display()));
}

/// The driver that has a function.
pub fn driver(address: PciAddress) -> Option<String> {
    let target = fs::read_link(device(address).join("driver")).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// Gives a function to a driver, and waits until that has it.
pub fn bind(address: PciAddress, wanted: &str) {
    if driver(address).as_deref() == Some(wanted) {
        return;
    }
    write(device(address).join("driver_override"), wanted);
    if driver(address).is_some() {
        write(device(address).join("driver/unbind"), &address.to_string());
    }
    write(PathBuf::from("/sys/bus/pci/drivers_probe"), &address.to_string());
    eventually(wanted, || (driver(address).as_deref() == Some(wanted)).then_some(()));
}

/// The function of a virtual function's number.
pub fn virtual_function(address: PciAddress, number: u32) -> PciAddress {
    let link = device(address).join(format!("virtfn{number}"));
    let target = eventually("a virtual function", || fs::read_link(&link).ok());
    let name = target.file_name().expect("a name").to_string_lossy().into_owned();
    name.parse().expect("an address")
}

/// The NVMe controller with a serial number: its name in `/dev`, and its function. The kernel's driver must have it.
pub fn nvme_of(serial: &str) -> (String, PciAddress) {
    eventually(serial, || {
        for entry in fs::read_dir("/sys/class/nvme").ok()?.flatten() {
            let text = fs::read_to_string(entry.path().join("serial")).unwrap_or_default();
            let is_live = fs::read_to_string(entry.path().join("state")).is_ok_and(|state| state.trim() == "live");
            if text.trim() == serial && is_live {
                let device = fs::read_link(entry.path().join("device")).ok()?;
                let address = device.file_name()?.to_string_lossy().parse().ok()?;
                return Some((entry.file_name().to_string_lossy().into_owned(), address));
            }
        }
        None
    })
}

/// The block device of a function's only namespace of this identifier, once the kernel has it.
pub fn block_device(address: PciAddress, namespace: u32) -> PathBuf {
    eventually("a block device", || {
        for entry in fs::read_dir("/sys/class/block").ok()?.flatten() {
            let path = fs::canonicalize(entry.path()).ok()?;
            let is_of = path.to_string_lossy().contains(&address.to_string());
            let number = fs::read_to_string(path.join("nsid")).unwrap_or_default();
            if is_of && number.trim() == namespace.to_string() {
                let device = PathBuf::from("/dev").join(entry.file_name());
                return device.exists().then_some(device);
            }
        }
        None
    })
}

/// The kernel's messages so far that contain `part`.
pub fn messages(part: &str) -> usize {
    let text = crate::program::run("/bin/busybox dmesg");
    text.lines().filter(|line| line.contains(part)).count()
}
