//! [`SharedLayout`]: how the memory is divided that an application and the disk core have in common.
//!
//! ```text
//!  0                registers and doorbells: one page, which is never data
//!  4,096            the driver's queues, PRP lists and shadow doorbells: `queue_bytes`
//!  + queue_bytes    frames for data: `frames` of `frame_bytes`
//! ```
//! A place in the file is the device's address of it.

use crate::nvme::NvmeOptions;
use qanat_nic::Region;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Bytes of the page of registers.
const LINK_BYTES: u64 = 4_096;
/// Bytes of a frame, or of queues, at least and at most.
const PIECE_BYTES: std::ops::RangeInclusive<u32> = 4_096..=1 << 20;
/// Bytes in all, at most.
const LENGTH_MAX: u64 = 1 << 36;

/// How shared memory is divided. What comes from others is to be [checked](SharedLayout::check) first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct SharedLayout {
    /// Bytes for queues: a power of two, 4,096…1,048,576.
    pub queue_bytes: u32,
    /// Bytes of a frame: a power of two, 4,096…1,048,576.
    pub frame_bytes: u32,
    /// Frames: at least 1.
    pub frames: u32,
}

/// Memory can't be divided so, or can't be shared.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A number is out of range.
    #[error(
        "shared memory of {} bytes for queues and {} frames of {} bytes: both sizes must be powers of two from 4096 to 1048576, and \
         all of it at most 64 GiB",
        .0.queue_bytes, .0.frames, .0.frame_bytes
    )]
    Range(SharedLayout),
    /// The descriptor is no memory file of this length which is sealed in its size.
    #[error(
        "shared memory is no memory file of {0} bytes whose size is sealed: the daemon makes it, with SharedLayout::allocate"
    )]
    File(u64),
    /// What the kernel says.
    #[error("shared memory of {bytes} bytes: {error}")]
    System {
        /// All of it.
        bytes: u64,
        /// What the kernel says.
        error: io::Error,
    },
}

impl SharedLayout {
    /// Memory for a driver with these options, and frames.
    pub fn new(options: &NvmeOptions, frames: u32, frame_bytes: u32) -> SharedLayout {
        let queue_bytes = u32::try_from(options.memory_bytes().next_power_of_two()).unwrap_or(u32::MAX);
        SharedLayout { queue_bytes, frame_bytes, frames }
    }

    /// Judges its numbers.
    ///
    /// # Errors
    /// [`LayoutError::Range`].
    pub fn check(&self) -> Result<(), LayoutError> {
        let is_good = |bytes: u32| bytes.is_power_of_two() && PIECE_BYTES.contains(&bytes);
        let is_sound = is_good(self.queue_bytes) && is_good(self.frame_bytes) && self.frames > 0;
        if is_sound && self.length() <= LENGTH_MAX { Ok(()) } else { Err(LayoutError::Range(*self)) }
    }

    /// Where the queues begin.
    pub fn queues_at(&self) -> u64 {
        LINK_BYTES
    }

    /// Where the frames begin.
    pub fn frames_at(&self) -> u64 {
        LINK_BYTES + u64::from(self.queue_bytes)
    }

    /// Bytes of all of it.
    pub fn length(&self) -> u64 {
        self.frames_at() + u64::from(self.frames) * u64::from(self.frame_bytes)
    }

    /// Makes a memory file of this length: allocated, and with its size sealed, so that no holder of a descriptor can take the memory away
    /// from the other side.
    ///
    /// # Errors
    /// [`LayoutError::Range`], [`LayoutError::System`].
    pub fn allocate(&self) -> Result<OwnedFd, LayoutError> {
        self.check()?;
        let bytes = self.length();
        let make = || {
            let file = rustix::fs::memfd_create("qanat-disk", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            rustix::fs::fcntl_add_seals(&file, seals())?;
            Ok(file)
        };
        make().map_err(|error: rustix::io::Errno| LayoutError::System { bytes, error: error.into() })
    }

    /// Maps a file's registers, queues and frames. The file is not believed.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub(super) fn map(&self, file: BorrowedFd<'_>) -> Result<Regions, LayoutError> {
        self.check()?;
        let bytes = self.length();
        let not_so = || LayoutError::File(bytes);
        let has_seals = rustix::fs::fcntl_get_seals(file).is_ok_and(|found| found.contains(seals()));
        let status = rustix::fs::fstat(file).map_err(|error| LayoutError::System { bytes, error: error.into() })?;
        // A hole would be filled, or not, when it is first touched: by the disk core, which must not wait for memory.
        let is_there = u64::try_from(status.st_blocks).is_ok_and(|blocks| blocks.saturating_mul(512) >= bytes);
        if !has_seals || u64::try_from(status.st_size) != Ok(bytes) || !is_there {
            return Err(not_so());
        }
        let region = |offset: u64, count: u32, size: u32| {
            Region::of_shared_file(file, offset, count, size).map_err(|error| LayoutError::System { bytes, error })
        };
        Ok(Regions {
            link: region(0, 1, LINK_BYTES as u32)?,
            queues: region(self.queues_at(), 1, self.queue_bytes)?,
            frames: region(self.frames_at(), self.frames, self.frame_bytes)?,
        })
    }
}

/// Nobody can change the file's size, nor what is sealed.
fn seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

/// Shared memory, mapped.
#[derive(Debug)]
pub(super) struct Regions {
    pub(super) link: Rc<Region>,
    pub(super) queues: Rc<Region>,
    pub(super) frames: Rc<Region>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const LAYOUT: SharedLayout = SharedLayout { queue_bytes: 8_192, frame_bytes: 4_096, frames: 4 };

    #[test]
    fn both_sides_have_the_same_memory() {
        let file = LAYOUT.allocate().unwrap();
        let (ours, theirs) = (LAYOUT.map(file.as_fd()).unwrap(), LAYOUT.map(file.as_fd()).unwrap());
        let fill = |regions: &Regions, byte| {
            let mut frame = regions.frames.pool(4).unwrap().allocate(0).unwrap();
            frame.append(4_096).unwrap().fill(byte);
            frame.index()
        };
        let index = fill(&ours, 7);
        let pool = theirs.frames.pool(4).unwrap();
        let mut frames: Vec<_> = std::iter::from_fn(|| pool.allocate(0)).collect();
        let frame = frames.iter_mut().find(|frame| frame.index() == index).unwrap();
        assert!(frame.append(4_096).unwrap().iter().all(|byte| *byte == 7));
        assert_eq!(LAYOUT.length(), 4_096 + 8_192 + 4 * 4_096);
    }

    #[test]
    fn sizes_out_of_range_and_files_of_others_are_refused() {
        for layout in [
            SharedLayout { queue_bytes: 2_048, ..LAYOUT },
            SharedLayout { queue_bytes: 12_288, ..LAYOUT },
            SharedLayout { frame_bytes: 2 << 20, ..LAYOUT },
            SharedLayout { frame_bytes: 0, ..LAYOUT },
            SharedLayout { frames: 0, ..LAYOUT },
            SharedLayout { frames: u32::MAX, frame_bytes: 1 << 20, ..LAYOUT },
        ] {
            assert!(matches!(layout.allocate(), Err(LayoutError::Range(_))), "{layout:?}");
        }
        let file = LAYOUT.allocate().unwrap();
        assert!(rustix::fs::ftruncate(&file, 0).is_err() && rustix::fs::ftruncate(&file, 1 << 20).is_err());
        let longer = SharedLayout { frames: 5, ..LAYOUT };
        assert!(matches!(longer.map(file.as_fd()), Err(LayoutError::File(_))));
        let unsealed = rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::fallocate(&unsealed, FallocateFlags::empty(), 0, LAYOUT.length()).unwrap();
        assert!(matches!(LAYOUT.map(unsealed.as_fd()), Err(LayoutError::File(_))), "its size is not sealed");
        let holes = rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&holes, LAYOUT.length()).unwrap();
        rustix::fs::fcntl_add_seals(&holes, seals()).unwrap();
        assert!(matches!(LAYOUT.map(holes.as_fd()), Err(LayoutError::File(_))), "it is not allocated");
        for other in [std::fs::File::open("/dev/null").unwrap(), tempfile::tempfile().unwrap()] {
            assert!(LAYOUT.map(other.as_fd()).is_err());
        }
    }
}
