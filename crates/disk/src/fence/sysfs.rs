//! What sysfs says of a disk and of its partitions.

use super::error::FenceError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Sectors in sysfs and BLKPG have as many bytes, whatever the disk's blocks have.
const SECTOR_BYTES: u64 = 512;
/// Entries of a disk's directory that are looked at: its attributes, and all its partitions.
const ENTRIES_MAX: usize = 1_024;

/// A partition, as the kernel has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its number.
    pub number: u32,
    /// Where it begins, bytes from the disk's beginning.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
    /// What the kernel calls it.
    pub name: String,
    /// Its device number.
    pub(super) device: u64,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> FenceError + '_ {
    |error| FenceError::Sysfs { path: path.to_owned(), error }
}

fn number<T: FromStr>(path: &Path) -> Result<T, FenceError> {
    let text = fs::read_to_string(path).map_err(failed(path))?;
    text.trim().parse().map_err(|_| failed(path)(io::ErrorKind::InvalidData.into()))
}

/// `MAJOR:MINOR` as a device number.
fn device(path: &Path) -> Result<u64, FenceError> {
    let text = fs::read_to_string(path).map_err(failed(path))?;
    let parsed =
        text.trim().split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = parsed.ok_or_else(|| failed(path)(io::ErrorKind::InvalidData.into()))?;
    Ok(rustix::fs::makedev(major, minor))
}

/// A block device's own directory.
pub(super) fn directory(device: u64) -> Result<PathBuf, FenceError> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    link.canonicalize().map_err(failed(&link))
}

/// Whether it is a partition itself.
pub(super) fn is_partition(directory: &Path) -> bool {
    directory.join("partition").exists()
}

/// The partitions of a whole disk, by their numbers.
pub(super) fn partitions(directory: &Path) -> Result<Vec<Partition>, FenceError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))?.take(ENTRIES_MAX).flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str().filter(|_| is_partition(&path)) else { continue };
        found.push(Partition {
            number: number(&path.join("partition"))?,
            start: number::<u64>(&path.join("start"))?.saturating_mul(SECTOR_BYTES),
            bytes: number::<u64>(&path.join("size"))?.saturating_mul(SECTOR_BYTES),
            device: device(&path.join("dev"))?,
            name: name.to_owned(),
        });
    }
    found.sort_unstable_by_key(|partition| partition.number);
    Ok(found)
}
