//! Disks and areas, in requests and listings.

use qanat_disk::shared::SharedLayout;
use qanat_nic::vfio::PciAddress;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A disk that the daemon is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskWish {
    /// What it is to be called: 1 to 63 letters, digits, `-`, `_` and `.`, the first a letter or digit.
    pub name: String,
    /// The file or block device, from the root on.
    pub path: PathBuf,
    /// Bytes of a file that is to be made; `None`: it is there.
    pub size: Option<u64>,
    /// It is a PCI function, whose [`path`](FunctionWish::path) the path is. `None`: a file or block device.
    #[serde(default)]
    pub function: Option<FunctionWish>,
    /// It is a directory, in which each area is a file; `size`: bytes of all areas together, if it is new.
    #[serde(default)]
    pub directory: bool,
}

/// An NVMe function of the machine that is to be a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionWish {
    /// Where it is.
    pub address: PciAddress,
    /// Which of its namespaces; `None`: the first.
    pub namespace: Option<u32>,
    /// It is taken from the kernel's driver, if nothing uses it there, and given back when the disk is removed.
    #[serde(default)]
    pub take: bool,
}

impl FunctionWish {
    /// What the kernel calls it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/sys/bus/pci/devices/{}", self.address))
    }
}

/// An area, by its name and its disk's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaPath {
    /// The disk.
    pub disk: String,
    /// The area on it.
    pub area: String,
}

impl std::fmt::Display for AreaPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.area, self.disk)
    }
}

/// An area that is to be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaWish {
    /// Which.
    pub path: AreaPath,
    /// Writes are refused.
    #[serde(default)]
    pub read_only: bool,
    /// How the memory is divided that the disk core is to share.
    pub layout: SharedLayout,
}

/// What keeps an area's holder from the rest of its disk, and so by which way it uses the area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AreaFence {
    /// The disk's core, which does what is asked of it.
    #[default]
    Core,
    /// The kernel: the holder has the descriptor of a partition, and no core is on its way.
    Partition,
    /// The kernel: the holder has the descriptor of a file, and no core is on its way.
    File,
}

impl std::fmt::Display for AreaFence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AreaFence::Core => "through the disk core",
            AreaFence::Partition => "a partition of its own, without a disk core",
            AreaFence::File => "a file of its own, without a disk core",
        })
    }
}

/// How much the holders of an area may ask of it together; 0: as much as they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskRate {
    /// Requests a second.
    pub requests_per_s: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
}

impl DiskRate {
    /// No limit.
    pub const UNLIMITED: DiskRate = DiskRate { requests_per_s: 0, bytes_per_s: 0 };
}

impl std::fmt::Display for DiskRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.requests_per_s, self.bytes_per_s) {
            (0, 0) => f.write_str("no limit"),
            (requests, 0) => write!(f, "{requests} requests/s"),
            (0, bytes) => write!(f, "{bytes} bytes/s"),
            (requests, bytes) => write!(f, "{requests} requests/s and {bytes} bytes/s"),
        }
    }
}

/// Where a part of a list of disks begins. A client gives back what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPlace {
    /// The disk's number.
    pub disk: u32,
    /// The area's number.
    pub area: u64,
}

/// Whether a disk can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// It is being opened.
    #[default]
    Opening,
    /// It can.
    Ready,
    /// It can't, and why.
    Failed(String),
}

/// A disk of the daemon's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Its number, as long as the daemon runs.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The file or device; of a PCI function, the kernel's directory of it.
    pub path: PathBuf,
    /// Whether it can be used.
    pub state: DiskState,
    /// Bytes on it.
    pub bytes: u64,
    /// Bytes that no area has.
    pub free_bytes: u64,
    /// Bytes in a block; 0: it is not known yet.
    pub block_bytes: u32,
    /// What is written may be lost until a flush.
    pub volatile_cache: bool,
    /// How completions are noticed, as a clause; `None`: it is a function, or not open.
    #[serde(default)]
    pub completions: Option<String>,
    /// Areas there are, of all users.
    pub area_count: u32,
    /// By what the kernel fences areas there, if it can.
    #[serde(default)]
    pub fenced: Option<AreaFence>,
    /// Those that the asker may see.
    pub areas: Vec<AreaStatus>,
}

/// An area.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaStatus {
    /// Its number: never used again on its disk.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: u32,
    /// Bytes that can be used: they are zeroed.
    pub bytes: u64,
    /// Bytes it will have once all of it is zeroed.
    pub reserved_bytes: u64,
    /// Pieces it lies in.
    pub pieces: u32,
    /// What its holders may ask of it.
    pub rate: DiskRate,
    /// How it is used.
    #[serde(default)]
    pub fence: AreaFence,
    /// Handles there are.
    pub handles: u32,
    /// It was deleted: its space is free once nobody holds it.
    pub is_deleted: bool,
    /// Why zeroing it has stopped.
    pub fault: Option<String>,
}
