//! [`FenceError`]: why the kernel does not fence an area.

use std::io;
use std::path::PathBuf;

/// Why the kernel does not fence an area.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// A partition is made on a whole disk only.
    #[error(
        "{}: only a whole block device has partitions: leave --fenced out, add a whole device, or a directory (`qanat disk add --directory`)", path.display()
    )]
    NotWhole {
        /// The disk.
        path: PathBuf,
    },
    /// The kernel does not make, change or remove a partition.
    #[error(
        "{}, partition {number}: the kernel refuses it ({error}); the daemon needs CAP_SYS_ADMIN, and a device that may have partitions", path.display()
    )]
    Partition {
        /// The disk.
        path: PathBuf,
        /// Which.
        number: u32,
        /// What the kernel says.
        error: io::Error,
    },
    /// All numbers of partitions are in use.
    #[error("{}: it has {most} partitions, and the kernel no more numbers: delete areas", path.display())]
    Full {
        /// The disk.
        path: PathBuf,
        /// As many as there may be.
        most: u32,
    },
    /// What sysfs says of the disk can't be read.
    #[error("{}: {error}", path.display())]
    Sysfs {
        /// Where.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// A partition can't be opened by a node.
    #[error(
        "{}: {error}; the daemon must see the nodes of partitions, or may make one (CAP_MKNOD): for the packaged unit, PrivateDevices=no in a drop-in", path.display()
    )]
    Node {
        /// The node.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// The directory of files is not the daemon's alone.
    #[error("{}: {what}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What is wrong, and the remedy.
        what: &'static str,
    },
    /// A file can't be made, opened or removed.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
}
