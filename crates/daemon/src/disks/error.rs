//! [`DiskError`]: why a disk can't be opened.

use qanat_disk::OpenError;
use qanat_disk::area::AreaError;
use qanat_disk::fence::FenceError;
use qanat_disk::nvme::vfio::NvmeOpenError;
use qanat_nic::vfio::VfioError;
use std::io;
use std::path::PathBuf;

/// Why a disk can't be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    /// Its file or device.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A function.
    #[error("{}{}", .0, taking(.0))]
    Function(#[from] NvmeOpenError),
    /// The core of a function.
    #[error("{}: {why}", path.display())]
    Core {
        /// Which.
        path: PathBuf,
        /// What.
        why: String,
    },
    /// Partitions of it, or its files.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// Somebody uses a partition of it that no area has.
    #[error(
        "/dev/{name}: a partition of the disk that no area has is in use: end who uses it (lsof, fuser), and add the disk again"
    )]
    Partition {
        /// Which.
        name: String,
    },
    /// What is on it.
    #[error("{}: {error}", path.display())]
    Areas {
        /// Which.
        path: PathBuf,
        /// What.
        error: AreaError,
    },
    /// It has never been prepared, and it is not now that it is added.
    #[error("{}: the disk has not been prepared, though it was when it was added; is it another one?", path.display())]
    Unprepared {
        /// Which.
        path: PathBuf,
    },
    /// It can't be written down.
    #[error("{}: {error}; the daemon must be able to write there (disk_records in the policy)", directory.display())]
    Record {
        /// Where.
        directory: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Nothing to know it by.
    #[error("random bytes: {0}")]
    Random(io::Error),
}

impl DiskError {
    /// Whether the disk may be had later: somebody has it, or it is not there.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            DiskError::Open(OpenError::Busy { .. } | OpenError::Open { .. })
                | DiskError::Fence(FenceError::File { .. })
        )
    }
}

/// What does by itself what an error's remedy says.
fn taking(error: &NvmeOpenError) -> &'static str {
    match error {
        NvmeOpenError::Function(VfioError::NotBound { .. }) => "; `qanat disk add` does so if you add --take",
        _ => "",
    }
}
