//! What goes wrong: with a request ([`StorageError`], which services know as well), and at opening ([`OpenError`]).

pub use qanat_api::StorageError;
use std::io;
use std::path::PathBuf;

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
    /// It is neither a regular file nor a block device nor an NVMe generic device.
    #[error("{}: neither a regular file nor a block device nor an NVMe generic device (/dev/ng0n1)", path.display())]
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
    /// An NVMe namespace whose blocks have metadata.
    #[error("{}: each block has {bytes} bytes of metadata, which passing commands through does not carry; use its block device, or a namespace of another format", path.display())]
    Metadata {
        /// Which.
        path: PathBuf,
        /// Of each block.
        bytes: u16,
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
