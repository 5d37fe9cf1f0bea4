//! [`StorageError`]: why a read, a write or a flush failed.

use rustix::io::Errno;
use std::io;

/// Why a request failed. The names are those of NVMe's status codes where there is one.
///
/// ```
/// use qanat_api::StorageError;
///
/// let error = StorageError::from_errno(5); // EIO
/// assert_eq!((error, error.errno()), (StorageError::Medium, 5));
/// assert_eq!(error.to_string(), "the device could not read or write the blocks");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum StorageError {
    /// It reaches beyond the end of the device or area (NVMe: LBA Out of Range).
    #[error("beyond the end of the area")]
    OutOfRange,
    /// Its buffer is empty, or not of whole blocks.
    #[error("the length is not that of whole blocks")]
    Length,
    /// It does not begin with a block.
    #[error("the offset is not that of a block")]
    Offset,
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
        match Errno::from_raw_os_error(errno) {
            Errno::IO | Errno::REMOTEIO | Errno::ILSEQ | Errno::NODATA => StorageError::Medium,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => StorageError::NoRoom,
            Errno::NODEV | Errno::NXIO | Errno::BADF | Errno::NOLINK => StorageError::Gone,
            Errno::ROFS | Errno::ACCESS | Errno::PERM => StorageError::ReadOnly,
            Errno::TIMEDOUT | Errno::TIME => StorageError::TimedOut,
            Errno::CANCELED => StorageError::Aborted,
            _ => StorageError::Errno(errno),
        }
    }

    /// What a system call would say.
    pub fn errno(self) -> i32 {
        let errno = match self {
            StorageError::OutOfRange
            | StorageError::Length
            | StorageError::Offset
            | StorageError::Unaligned
            | StorageError::Foreign
            | StorageError::TooLong => Errno::INVAL,
            StorageError::Medium => Errno::IO,
            StorageError::NoRoom => Errno::NOSPC,
            StorageError::ReadOnly => Errno::ROFS,
            StorageError::Gone => Errno::NODEV,
            StorageError::Aborted => Errno::CANCELED,
            StorageError::TimedOut => Errno::TIMEDOUT,
            StorageError::Errno(errno) => return errno,
        };
        errno.raw_os_error()
    }
}
