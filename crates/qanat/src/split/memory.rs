//! The memory made for one service. It outlives the service if others have its connections: what it sent is still sent from here.

use super::handshake::{LARGE_BLOCK_BYTES, SMALL_BLOCK_BYTES};
use super::tenant::Extent;
use bytes::Bytes;
use qanat_abi::{Access, SharedMemory};
use rustix::fs::{FallocateFlags, fallocate, fstat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Memory files on their way to the service.
pub(super) struct Handed {
    pub control: OwnedFd,
    pub small: OwnedFd,
    pub large: OwnedFd,
}

/// The files, and the lease by which the daemon knows that somebody is charged for them.
struct Files {
    all: [OwnedFd; 3],
    _lease: Option<OwnedFd>,
}

/// Their pages are freed, though the service may keep descriptors: what it touches after this is its own process's, and what
/// its user is charged for ends where it does.
impl Drop for Files {
    fn drop(&mut self) {
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
pub(super) fn make(control: OwnedFd, extent: Extent, lease: Option<OwnedFd>) -> io::Result<([Bytes; 2], Handed)> {
    let block = |count: u32, size: u32| -> io::Result<(OwnedFd, SharedMemory)> {
        let length = count as usize * size as usize;
        let file = SharedMemory::create(length)?;
        let memory = SharedMemory::map(file.as_fd(), length, Access::Read)?;
        Ok((file, memory))
    };
    let (small, small_memory) = block(extent.small_blocks, SMALL_BLOCK_BYTES)?;
    let (large, large_memory) = block(extent.large_blocks, LARGE_BLOCK_BYTES)?;
    let all = [control.try_clone()?, small.try_clone()?, large.try_clone()?];
    let files = Arc::new(Files { all, _lease: lease });
    let kept = |memory| Bytes::from_owner(Blocks { memory, _files: Arc::clone(&files) });
    Ok(([kept(small_memory), kept(large_memory)], Handed { control, small, large }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_abi::Rings;

    /// Bytes that a file has in memory.
    fn allocated(file: &OwnedFd) -> u64 {
        fstat(file).unwrap().st_blocks as u64 * 512
    }

    #[test]
    fn memory_is_freed_with_its_last_piece_whoever_keeps_descriptors() {
        let (_rings, control) = Rings::create(256).unwrap();
        let extent = Extent { ring_messages: 256, small_blocks: 8, large_blocks: 2, receive_frames: 0 };
        let (lease, end) = std::os::unix::net::UnixStream::pair().unwrap();
        let (blocks, handed) = make(control, extent, Some(lease.into())).unwrap();
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
}
