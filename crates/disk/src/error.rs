//! What goes wrong: with a request ([`StorageError`]), and at opening ([`OpenError`]).

use std::io;
use std::path::PathBuf;

/// Why a request failed. The names are those of NVMe's status codes where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum StorageError {
    /// It reaches beyond the end of the device or area (NVMe: LBA Out of Range).
    #[error("beyond the end of the area")]
    OutOfRange,
    /// Its buffer is empty, or not of whole blocks.
    #[error("the length is not that of whole blocks")]
    Length,
    /// Its buffer does not begin where the device can reach it.
    #[error("the buffer is not aligned to 512 bytes")]
    Unaligned,
    /// Its buffer is not of the memory registered with the disk.
    #[error("the buffer is not of the memory registered with the disk")]
    Foreign,
    /// It is longer than one request may be (NVMe: Invalid Field in Command, beyond MDTS).
    #[error("longer than the device's largest transfer")]
    TooLong,
    /// The device could not read or write the blocks (NVMe: Unrecovered Read Error, Write Fault).
    #[error("the device could not read or write the blocks")]
    Medium,
    /// The file system below has no room (a file with holes).
    #[error("the file system below the disk is full")]
    NoRoom,
    /// The device may only be read.
    #[error("the device may only be read")]
    ReadOnly,
    /// The device is gone, has failed, or was taken away; nothing more will succeed.
    #[error("the device is gone")]
    Gone,
    /// The request was under way when the queue was reset (NVMe: Command Aborted due to SQ Deletion). Whether it was done is
    /// unknown.
    #[error("aborted by a reset")]
    Aborted,
    /// No answer in time. Whether it was done is unknown.
    #[error("no answer in time")]
    TimedOut,
    /// What else the kernel said, by its number.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Errno(i32),
}

impl StorageError {
    /// From what a system call said.
    pub fn from_errno(errno: i32) -> StorageError {
        match errno {
            libc::EIO | libc::EREMOTEIO | libc::EILSEQ | libc::ENODATA => StorageError::Medium,
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => StorageError::NoRoom,
            libc::ENODEV | libc::ENXIO | libc::EBADF | libc::ENOLINK => StorageError::Gone,
            libc::EROFS | libc::EACCES | libc::EPERM => StorageError::ReadOnly,
            libc::ETIMEDOUT | libc::ETIME => StorageError::TimedOut,
            libc::ECANCELED => StorageError::Aborted,
            errno => StorageError::Errno(errno),
        }
    }

    /// What a system call would say.
    pub fn errno(self) -> i32 {
        match self {
            StorageError::OutOfRange
            | StorageError::Length
            | StorageError::Unaligned
            | StorageError::Foreign
            | StorageError::TooLong => libc::EINVAL,
            StorageError::Medium => libc::EIO,
            StorageError::NoRoom => libc::ENOSPC,
            StorageError::ReadOnly => libc::EROFS,
            StorageError::Gone => libc::ENODEV,
            StorageError::Aborted => libc::ECANCELED,
            StorageError::TimedOut => libc::ETIMEDOUT,
            StorageError::Errno(errno) => errno,
        }
    }
}

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It can't be opened at all.
    #[error("{}: {error}", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// A file that was to be made is there.
    #[error("{} is there already: leave --size out to use it as it is", path.display())]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// It is neither a regular file nor a block device.
    #[error("{}: neither a regular file nor a block device", path.display())]
    Kind {
        /// Which.
        path: PathBuf,
    },
    /// The file system has no direct I/O.
    #[error("{}: its file system can't read and write without the page cache (O_DIRECT); use a file on ext4 or XFS, or a whole device", path.display())]
    NotDirect {
        /// Which.
        path: PathBuf,
    },
    /// Somebody else has it: mounted, part of another device, or another program's.
    #[error("{}: in use: {by}", path.display())]
    Busy {
        /// Which.
        path: PathBuf,
        /// Who has it, as a clause.
        by: String,
    },
    /// It holds less than one block.
    #[error("{}: {bytes} bytes are too small for a disk", path.display())]
    TooSmall {
        /// Which.
        path: PathBuf,
        /// What it has.
        bytes: u64,
    },
    /// The kernel has no io_uring for us.
    #[error("io_uring: {error}; a disk needs Linux 6.1 or newer, with kernel.io_uring_disabled=0")]
    Ring {
        /// What the kernel said.
        error: io::Error,
    },
    /// The memory of buffers could not be registered.
    #[error(
        "registering {bytes} bytes of buffers: {error}; raise the limit of locked memory (ulimit -l) if it is ENOMEM"
    )]
    Memory {
        /// Of the region that was refused.
        bytes: usize,
        /// What the kernel said.
        error: io::Error,
    },
}
