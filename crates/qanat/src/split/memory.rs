//! The memory made for one service. It outlives the service if others have its connections: what it sent is still sent from here.

use crate::split::handshake::{LARGE_BLOCK_BYTES, SMALL_BLOCK_BYTES};
use bytes::Bytes;
use qanat_abi::{Access, Rings, SharedMemory};
use rustix::fs::{FallocateFlags, fallocate, fstat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much memory is shared with a service.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Messages of either ring.
    pub ring_messages: u32,
    /// Blocks of transmit memory.
    pub small_blocks: u32,
    pub large_blocks: u32,
    /// Frames to receive into.
    pub receive_frames: u32,
}

impl Extent {
    /// 8 MiB of small blocks and 16 MiB of large ones.
    pub(crate) const fn usual(receive_frames: u32) -> Extent {
        Extent { ring_messages: 4_096, small_blocks: 4_096, large_blocks: 256, receive_frames }
    }

    /// Bytes of small blocks, and of large ones.
    pub(crate) const fn block_bytes(&self) -> [usize; 2] {
        [
            self.small_blocks as usize * SMALL_BLOCK_BYTES as usize,
            self.large_blocks as usize * LARGE_BLOCK_BYTES as usize,
        ]
    }

    /// Of all that is made for the service, its card's frames not included.
    pub(crate) const fn bytes(&self) -> u64 {
        let [small, large] = self.block_bytes();
        small as u64 + large as u64 + Rings::bytes(self.ring_messages)
    }
}

/// Memory files on their way to the service.
pub(crate) struct ServiceFiles {
    pub control: OwnedFd,
    pub small: OwnedFd,
    pub large: OwnedFd,
}

/// The files, and the lease by which the daemon knows that somebody is charged for them.
pub(crate) struct Files {
    /// Rings, small blocks, large ones.
    all: [OwnedFd; 3],
    lease: Option<OwnedFd>,
    /// Another net core has them now, or still.
    is_anothers: AtomicBool,
}

impl Files {
    /// All descriptors, the lease last if there is one.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().chain(&self.lease).map(AsFd::as_fd)
    }

    /// Whether another net core has them: nothing is freed here then.
    pub(crate) fn set_anothers(&self, is_anothers: bool) {
        self.is_anothers.store(is_anothers, Ordering::Relaxed);
    }
}

/// Their pages are freed, though the service may keep descriptors: what it touches after this is its own process's, and what
/// its user is charged for ends where it does.
impl Drop for Files {
    fn drop(&mut self) {
        if self.is_anothers.load(Ordering::Relaxed) {
            return;
        }
        for file in &self.all {
            let length = fstat(file).map_or(0, |status| u64::try_from(status.st_size).unwrap_or(0));
            if length > 0 {
                let _ = fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, length);
            }
        }
    }
}

/// Blocks, and what keeps them.
struct Blocks {
    memory: SharedMemory,
    _files: Arc<Files>,
}

impl AsRef<[u8]> for Blocks {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_ref()
    }
}

/// Makes a service's transmit memory, small blocks and large ones, beside its rings in `control`. It is given back with the last
/// piece of it.
pub(crate) fn make(control: OwnedFd, extent: Extent, lease: Option<OwnedFd>) -> io::Result<(Memory, ServiceFiles)> {
    let lengths = extent.block_bytes();
    let [small, large] = [SharedMemory::create(lengths[0])?, SharedMemory::create(lengths[1])?];
    let all = [control.try_clone()?, small.try_clone()?, large.try_clone()?];
    Ok((open(all, lengths, lease)?, ServiceFiles { control, small, large }))
}

/// What a net core has of it.
pub(crate) struct Memory {
    /// Small ones and large ones.
    pub blocks: [Bytes; 2],
    pub files: Arc<Files>,
}

/// The same over files made before: rings, small blocks and large ones, of so many bytes.
pub(crate) fn open(all: [OwnedFd; 3], lengths: [usize; 2], lease: Option<OwnedFd>) -> io::Result<Memory> {
    let [_, small, large] = &all;
    let map = |file: &OwnedFd, length| SharedMemory::map(file.as_fd(), length, Access::Read);
    let (small, large) = (map(small, lengths[0])?, map(large, lengths[1])?);
    let files = Arc::new(Files { all, lease, is_anothers: AtomicBool::new(false) });
    let kept = |memory| Bytes::from_owner(Blocks { memory, _files: Arc::clone(&files) });
    let blocks = [kept(small), kept(large)];
    Ok(Memory { blocks, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a file has in memory.
    fn allocated(file: &OwnedFd) -> u64 {
        fstat(file).unwrap().st_blocks as u64 * 512
    }

    #[test]
    fn memory_is_freed_with_its_last_piece_whoever_keeps_descriptors() {
        let (_rings, control) = Rings::create(256).unwrap();
        let extent = Extent { ring_messages: 256, small_blocks: 8, large_blocks: 2, receive_frames: 0 };
        let (lease, end) = std::os::unix::net::UnixStream::pair().unwrap();
        let (Memory { blocks, files }, handed) = make(control, extent, Some(lease.into())).unwrap();
        drop(files);
        let is_leased = || {
            let outcome = rustix::net::recv(&end, &mut [0; 1], rustix::net::RecvFlags::DONTWAIT);
            outcome == Err(rustix::io::Errno::AGAIN)
        };
        let [small, large] = blocks;
        // Of a connection that another service has now.
        let sent = large.slice(70_000..70_010);
        drop((small, large));
        let all = [&handed.control, &handed.small, &handed.large];
        assert!(all.iter().all(|file| allocated(file) > 0) && is_leased(), "what was sent is still needed");
        drop(sent);
        assert_eq!(all.map(allocated), [0; 3]);
        assert!(!is_leased());
    }

    #[test]
    fn memory_that_another_net_core_has_is_not_freed() {
        let (_rings, control) = Rings::create(256).unwrap();
        let extent = Extent { ring_messages: 256, small_blocks: 8, large_blocks: 2, receive_frames: 0 };
        let (memory, handed) = make(control, extent, None).unwrap();
        let files = memory.files.descriptors().map(|file| file.try_clone_to_owned().unwrap());
        let there = open(Vec::from_iter(files).try_into().unwrap(), extent.block_bytes(), None).unwrap();
        memory.files.set_anothers(true);
        drop(memory);
        assert!(allocated(&handed.small) > 0, "it is the other's");
        assert_eq!(there.blocks[1].len(), 2 * 65_536);
        drop(there);
        assert_eq!(allocated(&handed.small), 0);
    }
}
