//! The file, partition or disk behind [`Uring`](super::Uring): opening it, and what it is like.

use super::generic::{self, Namespace};
use super::holder::{self, Holder};
use super::queue::Queue;
use crate::error::OpenError;
use qanat_api::Geometry;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Bytes one request may have at most, if the kernel doesn't say less.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// How a disk is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Nobody writes it.
    pub read_only: bool,
    /// Requests that may be under way at once: 1 to 4,096.
    pub depth: u32,
    /// Nobody else has it meanwhile: a file is locked, a block device opened exclusively.
    pub exclusive: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions { read_only: false, depth: 128, exclusive: true }
    }
}

/// An open file, partition or disk, for direct I/O, or an NVMe generic device. Clones are the same open file: nobody else has it until the last of them is dropped.
#[derive(Clone, Debug)]
pub struct DiskFile {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) geometry: Geometry,
    /// Its blocks can be polled for (`io_poll` of its queue).
    pub(super) polled: bool,
    /// It is an NVMe generic device of this namespace.
    pub(super) namespace: Option<Namespace>,
    /// The block device of the same namespace, which nobody else has meanwhile.
    _guard: Option<Arc<OwnedFd>>,
}

impl DiskFile {
    /// Opens a regular file, block device or NVMe generic device.
    ///
    /// # Errors
    /// [`OpenError`], which names the file and what to do.
    pub fn open(path: &Path, options: DiskOptions) -> Result<DiskFile, OpenError> {
        let failed = |error: Errno| OpenError::Open { path: path.to_owned(), error: error.into() };
        let access = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        // Not opened before it is known to be harmless: a FIFO would block, and opening some devices does things.
        let found = rustix::fs::stat(path).map_err(failed)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        let mut guard = None;
        let exclusive = match kind {
            FileType::CharacterDevice => match generic::block_device(found.st_rdev) {
                Some(device) if options.exclusive => {
                    guard = open_guard(&device, options)?;
                    OFlags::empty()
                }
                Some(_) => OFlags::empty(),
                None => return Err(OpenError::Kind { path: path.to_owned() }),
            },
            FileType::BlockDevice if options.exclusive => OFlags::EXCL,
            FileType::BlockDevice | FileType::RegularFile => OFlags::empty(),
            _ => return Err(OpenError::Kind { path: path.to_owned() }),
        };
        // A generic device knows no cache that could be passed.
        let direct = if kind == FileType::CharacterDevice { OFlags::empty() } else { OFlags::DIRECT };
        let flags = access | exclusive | direct | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let busy = |by: Holder| OpenError::Busy { path: path.to_owned(), by: by.clause };
        let opened = once_free(
            Errno::BUSY,
            || holder::of_device(found.st_rdev),
            || rustix::fs::open(path, flags, Mode::empty()),
        );
        let fd = opened.map_err(|error| match error {
            Errno::BUSY => busy(holder::of_device(found.st_rdev)),
            Errno::INVAL => OpenError::NotDirect { path: path.to_owned() },
            error => failed(error),
        })?;
        if kind != FileType::BlockDevice && options.exclusive {
            let lock = if options.read_only {
                FlockOperation::NonBlockingLockShared
            } else {
                FlockOperation::NonBlockingLockExclusive
            };
            let holder = || holder::of_file(found.st_dev, found.st_ino);
            once_free(Errno::WOULDBLOCK, holder, || rustix::fs::flock(&fd, lock)).map_err(|error| match error {
                Errno::WOULDBLOCK => busy(holder()),
                error => failed(error),
            })?;
        }
        let file = DiskFile::over(fd, path, options.depth)?;
        Ok(DiskFile { _guard: guard, ..file })
    }

    /// Over an open descriptor (with `O_DIRECT`, unless it is of a generic device), whatever gave it; `path` is for messages.
    ///
    /// # Errors
    /// As [`open`](DiskFile::open).
    pub fn over(fd: OwnedFd, path: &Path, depth: u32) -> Result<DiskFile, OpenError> {
        let failed = |error: io::Error| OpenError::Open { path: path.to_owned(), error };
        let status = rustix::fs::fstat(&fd).map_err(|error| failed(error.into()))?;
        if FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice {
            let (namespace, geometry, polled) = generic::identify(fd.as_fd(), path, depth)?;
            if geometry.blocks == 0 {
                return Err(OpenError::TooSmall { path: path.to_owned(), bytes: 0 });
            }
            return Ok(DiskFile { fd: Arc::new(fd), geometry, polled, namespace: Some(namespace), _guard: None });
        }
        if !rustix::fs::fcntl_getfl(&fd).map_err(|error| failed(error.into()))?.contains(OFlags::DIRECT) {
            return Err(OpenError::NotDirect { path: path.to_owned() });
        }
        let is_device = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
        let (block_bytes, bytes, device) = if is_device {
            let (block_bytes, bytes) = device_size(fd.as_fd()).map_err(failed)?;
            (block_bytes, bytes, status.st_rdev)
        } else {
            let alignment = direct_alignment(fd.as_fd()).map_err(failed)?;
            let block_bytes = alignment.ok_or_else(|| OpenError::NotDirect { path: path.to_owned() })?;
            (block_bytes, status.st_size as u64, status.st_dev)
        };
        let queue = Queue::of(device);
        let geometry = Geometry {
            block_bytes,
            blocks: bytes / u64::from(block_bytes),
            atomic_bytes: block_bytes,
            volatile_cache: queue.has_volatile_cache(),
            forced_unit_access: queue.number("fua") == Some(1),
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            depth: depth.clamp(1, 4_096),
        };
        if geometry.blocks == 0 {
            return Err(OpenError::TooSmall { path: path.to_owned(), bytes });
        }
        Ok(DiskFile { fd: Arc::new(fd), geometry, polled: queue.offers_polling(), namespace: None, _guard: None })
    }

    /// The same, of which only the first `bytes` are used.
    #[must_use]
    pub fn limited(mut self, bytes: u64) -> DiskFile {
        self.geometry.blocks = self.geometry.blocks.min(bytes / u64::from(self.geometry.block_bytes));
        self
    }

    /// What it is like.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Whether the device makes a single write durable by itself. If it does not, a flush has to follow.
    ///
    /// For a file or block device the kernel would flush by itself after a write with `RWF_DSYNC`. It does so in a worker that is bound to
    /// the processor which took the device's interrupt, and which is woken three times for one write. Beside a program that is busy
    /// there, such a write took 4 ms (the scheduler's tick) where one with a flush of its own after it took 0.18 ms.
    pub(super) fn writes_through(&self) -> bool {
        self.geometry.forced_unit_access || self.namespace.is_none() && !self.geometry.volatile_cache
    }

    /// Lets others have it, unless there is a clone.
    pub(super) fn unlock(&self) {
        if Arc::strong_count(&self.fd) > 1 {
            return;
        }
        // Nothing to unlock is no error.
        let _ = rustix::fs::flock(&*self.fd, FlockOperation::NonBlockingUnlock);
    }
}

impl AsFd for DiskFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens the block device of a generic device's namespace, if it has one, so that nobody else has it.
fn open_guard(device: &Path, options: DiskOptions) -> Result<Option<Arc<OwnedFd>>, OpenError> {
    match DiskFile::open(device, DiskOptions { read_only: true, ..options }) {
        Ok(file) => Ok(Some(file.fd)),
        // The kernel makes none of a namespace whose format it doesn't know. Nobody else can have it then.
        Err(OpenError::Open { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// How often a file is tried again that a process has which has ended, and how long after the last time.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Tries again as long as it fails because of a holder that may have ended, a second at most.
fn once_free<T>(busy: Errno, holder: impl Fn() -> Holder, open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..TRIES {
        match open() {
            Err(error) if error == busy && holder().may_have_ended => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
    open()
}

/// A block device's logical block and length, bytes.
fn device_size(fd: BorrowedFd<'_>) -> io::Result<(u32, u64)> {
    let block_bytes = rustix::fs::ioctl_blksszget(fd)?;
    let mut bytes = 0_u64;
    // SAFETY: BLKGETSIZE64 writes 64 bits, for which there is room.
    if unsafe { libc::ioctl(fd.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((block_bytes, bytes))
}

/// `_IOR(0x12, 114, size_t)`, which the C library's header leaves out.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;

/// What offsets and lengths of direct I/O on a regular file must be multiples of; `None`: it has none.
fn direct_alignment(fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let found = rustix::fs::statx(fd, "", rustix::fs::AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) {
        let offset = found.stx_dio_offset_align;
        // A buffer's alignment beyond a page's is nothing that we could give.
        return Ok((offset > 0 && found.stx_dio_mem_align <= 4_096).then(|| offset.max(512)));
    }
    // A file system that doesn't say took O_DIRECT at opening; pages suit all that is known.
    Ok(Some(4_096))
}
