//! [`Partitions`]: runs of a whole disk that the kernel fences, without a table on the disk (BLKPG).

use super::error::FenceError;
pub use super::sysfs::Partition;
use super::sysfs::{directory, is_partition, partitions};
use rustix::fs::{FileType, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Numbers of partitions: 1 to this.
const NUMBER_MAX: u32 = 255;

/// What the kernel calls disks whose drivers let the holder of a partition's descriptor do nothing to the rest of the disk: their requests
/// of their own are refused on partitions, or need a capability. A loop device is none of them: who may write to a partition of it may
/// move the whole device within its file (LOOP_SET_STATUS64).
const FENCING: [&str; 8] = ["nvme", "sd", "vd", "xvd", "mmcblk", "pmem", "nullb", "md"];

const BLKPG: libc::c_ulong = 0x1269;
const ADD: libc::c_int = 1;
const DELETE: libc::c_int = 2;
const RESIZE: libc::c_int = 3;

/// `struct blkpg_partition`.
#[repr(C)]
struct BlkpgPartition {
    start: libc::c_longlong,
    length: libc::c_longlong,
    number: libc::c_int,
    /// Names, which the kernel ignores.
    names: [u8; 128],
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct BlkpgArgument {
    operation: libc::c_int,
    flags: libc::c_int,
    length: libc::c_int,
    data: *mut BlkpgPartition,
}

/// The partitions of a whole disk, whoever has it: it is not opened.
///
/// # Errors
/// [`FenceError::NotWhole`], [`FenceError::Sysfs`].
pub fn partitions_of(path: &Path) -> Result<Vec<Partition>, FenceError> {
    let found = rustix::fs::stat(path);
    let found = found.map_err(|error| FenceError::Sysfs { path: path.to_owned(), error: error.into() })?;
    let sysfs = match FileType::from_raw_mode(found.st_mode) {
        FileType::BlockDevice => directory(found.st_rdev)?,
        _ => return Err(FenceError::NotWhole { path: path.to_owned() }),
    };
    match is_partition(&sysfs) {
        true => Err(FenceError::NotWhole { path: path.to_owned() }),
        false => partitions(&sysfs),
    }
}

/// The partitions of a disk that is ours. Those that nobody has open go with it.
#[derive(Debug)]
pub struct Partitions {
    disk: OwnedFd,
    path: PathBuf,
    sysfs: PathBuf,
    /// Where a node may be made if there is none.
    scratch: PathBuf,
}

impl Partitions {
    /// Of a disk that is open for us alone; `path`: its node, beside which those of its partitions are; `scratch`: a directory for a node
    /// that is made for a moment, if there is none.
    ///
    /// # Errors
    /// [`FenceError::NotWhole`], [`FenceError::Sysfs`].
    pub fn of(disk: BorrowedFd<'_>, path: &Path, scratch: &Path) -> Result<Partitions, FenceError> {
        let not_whole = || FenceError::NotWhole { path: path.to_owned() };
        let failed = |error: io::Error| FenceError::Sysfs { path: path.to_owned(), error };
        let status = rustix::fs::fstat(disk).map_err(|error| failed(error.into()))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::BlockDevice {
            return Err(not_whole());
        }
        let sysfs = directory(status.st_rdev)?;
        if is_partition(&sysfs) {
            return Err(not_whole());
        }
        let disk = disk.try_clone_to_owned().map_err(failed)?;
        Ok(Partitions { disk, path: path.to_owned(), sysfs, scratch: scratch.to_owned() })
    }

    /// Whether a partition's holder can do nothing to the rest of the disk. If not, only root may have one.
    pub fn fence(&self) -> bool {
        let name = self.sysfs.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // `sd` is not the beginning of anything else; a digit or letter follows.
        FENCING.iter().any(|driver| name.starts_with(driver))
    }

    /// All there are.
    ///
    /// # Errors
    /// [`FenceError::Sysfs`].
    pub fn all(&self) -> Result<Vec<Partition>, FenceError> {
        partitions(&self.sysfs)
    }

    /// The partition that begins at a byte.
    ///
    /// # Errors
    /// [`FenceError::Sysfs`].
    pub fn at(&self, start: u64) -> Result<Option<Partition>, FenceError> {
        Ok(self.all()?.into_iter().find(|partition| partition.start == start))
    }

    /// Has a partition there, of so many bytes: it is made, or changed, while it is open, too.
    ///
    /// # Errors
    /// [`FenceError`].
    pub fn lay(&self, start: u64, bytes: u64) -> Result<Partition, FenceError> {
        let all = self.all()?;
        let (operation, number) = match all.iter().find(|partition| partition.start == start) {
            Some(found) if found.bytes == bytes => return Ok(found.clone()),
            Some(found) => (RESIZE, found.number),
            None => {
                let is_free = |number: &u32| all.iter().all(|partition| partition.number != *number);
                let full = || FenceError::Full { path: self.path.clone(), most: NUMBER_MAX };
                (ADD, (1..=NUMBER_MAX).find(is_free).ok_or_else(full)?)
            }
        };
        self.tell(operation, number, start, bytes).map_err(|error| self.refused(number, error))?;
        let gone = || self.refused(number, io::ErrorKind::NotFound.into());
        self.at(start)?.ok_or_else(gone)
    }

    /// Removes a partition, unless somebody has it open: then `false`.
    ///
    /// # Errors
    /// [`FenceError::Partition`].
    pub fn remove(&self, number: u32) -> Result<bool, FenceError> {
        match self.tell(DELETE, number, 0, 0) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(false),
            // It is gone already.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(true),
            Err(error) => Err(self.refused(number, error)),
        }
    }

    /// A descriptor of a partition, for direct I/O.
    ///
    /// # Errors
    /// [`FenceError::Node`].
    pub fn open(&self, partition: &Partition, read_only: bool) -> Result<OwnedFd, FenceError> {
        let beside = self.path.parent().unwrap_or(Path::new("/dev")).join(&partition.name);
        let node = if beside.exists() { beside } else { Path::new("/dev").join(&partition.name) };
        match open_node(&node, partition.device, read_only) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = self.scratch.join(format!(".{}", partition.name));
                let opened = self.make_node(&made, partition.device, read_only);
                opened.map_err(|error| FenceError::Node { path: made, error })
            }
            opened => opened.map_err(|error| FenceError::Node { path: node, error }),
        }
    }

    /// Opens by a node that is there only as long as that takes.
    fn make_node(&self, path: &Path, device: u64, read_only: bool) -> io::Result<OwnedFd> {
        let _ = std::fs::remove_file(path);
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, device)?;
        let opened = open_node(path, device, read_only);
        std::fs::remove_file(path)?;
        opened
    }

    fn refused(&self, number: u32, error: io::Error) -> FenceError {
        FenceError::Partition { path: self.path.clone(), number, error }
    }

    fn tell(&self, operation: libc::c_int, number: u32, start: u64, bytes: u64) -> io::Result<()> {
        let mut partition = BlkpgPartition {
            start: start.cast_signed(),
            length: bytes.cast_signed(),
            number: number.cast_signed(),
            names: [0; 128],
        };
        let length = size_of::<BlkpgPartition>() as libc::c_int;
        let mut argument = BlkpgArgument { operation, flags: 0, length, data: &raw mut partition };
        // SAFETY: BLKPG reads the argument and the partition it points to, both of which live until it returns, and writes nothing.
        match unsafe { libc::ioctl(self.disk.as_fd().as_raw_fd(), BLKPG, &raw mut argument) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Opens a node if it is that of the device.
fn open_node(path: &Path, device: u64, read_only: bool) -> io::Result<OwnedFd> {
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let flags = access | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    // Another device of that name is not opened.
    let found = rustix::fs::stat(path)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice || found.st_rdev != device {
        return Err(io::ErrorKind::NotFound.into());
    }
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    match rustix::fs::fstat(&opened)?.st_rdev == device {
        true => Ok(opened),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Those that nobody has open are removed: nothing is left behind where nobody needs it.
impl Drop for Partitions {
    fn drop(&mut self) {
        for partition in self.all().into_iter().flatten() {
            let _ = self.remove(partition.number);
        }
    }
}
