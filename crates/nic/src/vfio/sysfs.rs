//! [`Sysfs`]: what the kernel tells of PCI functions, and who has them.

use super::address::PciAddress;
use super::error::VfioError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The driver of the kernel's that hands functions to processes.
pub(super) const DRIVER: &str = "vfio-pci";
/// Functions of a group that are listed at most.
const LISTED_MAX: usize = 8;

/// What a function is, by its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class code: base class, subclass, programming interface.
    pub class: u32,
}

/// Where the kernel tells of functions.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Sysfs {
        Sysfs { root: PathBuf::from("/sys") }
    }
}

/// The last part of where a link leads.
fn target(link: &Path) -> Option<String> {
    let target = fs::read_link(link).ok()?;
    target.file_name().map(|name| name.to_string_lossy().into_owned())
}

impl Sysfs {
    /// Below another directory than `/sys`: for tests.
    pub fn at(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs { root: root.into() }
    }

    pub(super) fn device(&self, address: PciAddress) -> PathBuf {
        self.root.join("bus/pci/devices").join(address.to_string())
    }

    pub(super) fn interface(&self, name: &str) -> PathBuf {
        self.root.join("class/net").join(name)
    }

    /// Where the kernel is asked to look for a function's driver.
    pub(super) fn probe(&self) -> PathBuf {
        self.root.join("bus/pci/drivers_probe")
    }

    /// What a function is.
    ///
    /// # Errors
    /// [`VfioError::NoSuchFunction`], [`VfioError::System`].
    pub fn identity(&self, address: PciAddress) -> Result<Identity, VfioError> {
        let device = self.device(address);
        if !device.exists() {
            return Err(VfioError::NoSuchFunction { address });
        }
        let number = |name: &str| {
            let path = device.join(name);
            let system = |source| VfioError::system(format!("read {}", path.display()), source);
            let text = fs::read_to_string(&path).map_err(system)?;
            let digits = text.trim().trim_start_matches("0x");
            u32::from_str_radix(digits, 16).map_err(|error| system(io::Error::new(io::ErrorKind::InvalidData, error)))
        };
        Ok(Identity { vendor: number("vendor")? as u16, device: number("device")? as u16, class: number("class")? })
    }

    /// The kernel's driver that has a function.
    pub fn driver(&self, address: PciAddress) -> Option<String> {
        target(&self.device(address).join("driver"))
    }

    /// Block devices that the kernel's driver has made of a function, by their names.
    pub fn block_devices(&self, address: PciAddress) -> Vec<String> {
        let device = self.device(address).canonicalize().unwrap_or_default();
        let entries = fs::read_dir(self.root.join("class/block")).into_iter().flatten().flatten();
        let is_its = |entry: &fs::DirEntry| fs::canonicalize(entry.path()).is_ok_and(|path| path.starts_with(&device));
        let mut names: Vec<String> =
            entries.filter(is_its).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Network interfaces that the kernel's driver has made of a function, by their names.
    pub fn interfaces(&self, address: PciAddress) -> Vec<String> {
        let entries = fs::read_dir(self.device(address).join("net")).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The number of a function's IOMMU group, if VFIO may have it.
    ///
    /// # Errors
    /// [`VfioError::NoSuchFunction`], [`VfioError::NotBound`], [`VfioError::NoIommu`].
    pub fn group(&self, address: PciAddress) -> Result<u32, VfioError> {
        let device = self.device(address);
        if !device.exists() {
            return Err(VfioError::NoSuchFunction { address });
        }
        let group = target(&device.join("iommu_group")).and_then(|name| name.parse().ok());
        let driver = self.driver(address);
        if driver.as_deref() != Some(DRIVER) {
            return Err(VfioError::NotBound { address, driver });
        }
        group.ok_or(VfioError::NoIommu { address })
    }

    /// Functions of a group that drivers of the kernel's have, as a text; some of them if there are many.
    pub(super) fn others(&self, group: u32, address: PciAddress) -> String {
        let directory = self.root.join("kernel/iommu_groups").join(group.to_string()).join("devices");
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut others: Vec<String> = entries
            .filter_map(|entry| entry.file_name().to_string_lossy().parse::<PciAddress>().ok())
            .filter(|other| *other != address)
            .filter_map(|other| Some((other, self.driver(other)?)))
            .filter(|(_, driver)| driver != DRIVER)
            .map(|(other, driver)| format!("{other} (driver {driver})"))
            .collect();
        others.sort();
        others.truncate(LISTED_MAX);
        if others.is_empty() { "functions of the kernel's drivers".to_owned() } else { others.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree like the kernel's, which is gone in the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("qanat-sysfs-{}-{name}", std::process::id()));
            fs::create_dir_all(root.join("bus/pci/devices")).unwrap();
            Tree(root)
        }

        fn function(&self, address: &str, driver: Option<&str>, group: Option<u32>) {
            let device = self.0.join("bus/pci/devices").join(address);
            fs::create_dir_all(&device).unwrap();
            for (name, text) in [("vendor", "0x1b36\n"), ("device", "0x0010\n"), ("class", "0x010802\n")] {
                fs::write(device.join(name), text).unwrap();
            }
            if let Some(driver) = driver {
                symlink(format!("../../drivers/{driver}"), device.join("driver")).unwrap();
            }
            if let Some(group) = group {
                let members = self.0.join(format!("kernel/iommu_groups/{group}/devices"));
                fs::create_dir_all(&members).unwrap();
                fs::write(members.join(address), "").unwrap();
                symlink(format!("../../../kernel/iommu_groups/{group}"), device.join("iommu_group")).unwrap();
            }
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_function_that_cannot_be_had_says_what_to_do() {
        let tree = Tree::new("errors");
        tree.function("0000:01:00.0", Some("nvme"), Some(3));
        tree.function("0000:02:00.0", None, Some(4));
        tree.function("0000:03:00.0", Some("vfio-pci"), None);
        tree.function("0000:04:00.0", Some("vfio-pci"), Some(5));
        tree.function("0000:04:00.1", Some("igb"), Some(5));
        tree.function("0000:04:00.2", None, Some(5));
        let sysfs = Sysfs::at(&tree.0);
        let said = |address: &str| sysfs.group(address.parse().unwrap()).map_err(|error| error.to_string());
        let told = said("0000:01:00.0").unwrap_err();
        assert!(told.contains("driver nvme") && told.contains("0000:01:00.0/driver/unbind"), "{told}");
        let told = said("0000:02:00.0").unwrap_err();
        assert!(told.contains("no driver") && !told.contains("unbind"), "{told}");
        let told = said("0000:03:00.0").unwrap_err();
        assert!(told.contains("intel_iommu=on"), "{told}");
        let told = said("0000:05:00.0").unwrap_err();
        assert!(told.contains("lspci"), "{told}");
        assert_eq!(said("0000:04:00.0"), Ok(5));
        assert_eq!(sysfs.others(5, "0000:04:00.0".parse().unwrap()), "0000:04:00.1 (driver igb)");
        let identity = Identity { vendor: 0x1b36, device: 0x10, class: 0x01_0802 };
        assert_eq!(sysfs.identity("0000:01:00.0".parse().unwrap()).unwrap(), identity);
    }
}
