//! NVMe generic devices (`/dev/ng0n1`): a namespace whose commands are passed through by the kernel as they are, without its block layer.
//!
//! What is on the namespace is the block device's as well (`/dev/nvme0n1`). So that is opened exclusively beside it, which keeps mounts and
//! other programs away, and the generic device is locked, which goes with its descriptor to another process.

use super::queue::Queue;
use crate::error::OpenError;
use crate::nvme::spec::{COMMAND_BYTES, Command, IDENTIFY_BYTES, IdentifyNamespace, IdentifyPage, cns};
use io_uring::opcode::UringCmd80;
use io_uring::squeue::Entry128;
use qanat_api::Geometry;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// `NVME_IOCTL_ID`, `NVME_IOCTL_ADMIN_CMD`, `NVME_URING_CMD_IO` of `linux/nvme_ioctl.h`.
const IOCTL_ID: libc::c_ulong = 0x4e40;
const IOCTL_ADMIN: libc::c_ulong = 0xc048_4e41;
const COMMAND_IO: u32 = 0xc048_4e80;
/// Bytes of `struct nvme_uring_cmd` and `struct nvme_passthru_cmd`.
const PASSTHROUGH_BYTES: usize = 72;
/// Bytes one command transfers at most, if the kernel doesn't say.
const TRANSFER_BYTES: u64 = 64 << 10;

/// What is known of a namespace behind a generic device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Namespace {
    pub(super) identifier: u32,
    /// A block's size, as a power of two.
    pub(super) block_power: u32,
}

/// A command as the kernel takes it: NVMe's own, but for the place of its data. `at`: address and length.
///
/// The first ten double words of a command are where the kernel has them, too, except that flags, the identifier and the PRPs are the
/// kernel's. Its double words 10 to 15 are next to the lengths.
fn passthrough(command: Command, at: (u64, u32)) -> [u8; PASSTHROUGH_BYTES] {
    let mut bytes = [0; PASSTHROUGH_BYTES];
    let entry: [u8; COMMAND_BYTES] = command.to_bytes();
    let parts: [(usize, &[u8]); 5] = [
        (0, &entry[..1]),
        (4, &entry[4..8]),
        (24, &at.0.to_ne_bytes()),
        (36, &at.1.to_ne_bytes()),
        (40, &entry[40..64]),
    ];
    for (place, part) in parts {
        bytes[place..place + part.len()].copy_from_slice(part);
    }
    bytes
}

/// The entry of a ring. `at`: address and length of the command's data, and the registered memory it is in.
pub(super) fn entry(command: Command, at: Option<(u64, u32, u16)>) -> Entry128 {
    let (address, length, buffer) =
        at.map_or((0, 0, None), |(address, length, buffer)| (address, length, Some(buffer)));
    let mut bytes = [0; 80];
    bytes[..PASSTHROUGH_BYTES].copy_from_slice(&passthrough(command, (address, length)));
    UringCmd80::new(super::ring::FILE, COMMAND_IO).cmd(bytes).buf_index(buffer).build()
}

/// The block device of the same namespace, by the generic device's name; `None`: the path is none of a generic device.
pub(super) fn block_device(device: u64) -> Option<PathBuf> {
    let place = format!("/sys/dev/char/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let place = std::fs::canonicalize(place).ok()?;
    let subsystem = std::fs::read_link(place.join("subsystem")).ok()?;
    let number = place.file_name()?.to_str()?.strip_prefix("ng")?;
    subsystem.ends_with("nvme-generic").then(|| PathBuf::from(format!("/dev/nvme{number}")))
}

/// Asks an open generic device what it is.
///
/// # Errors
/// [`OpenError::Open`] with what the kernel says, [`OpenError::Metadata`].
pub(super) fn identify(fd: BorrowedFd<'_>, path: &Path, depth: u32) -> Result<(Namespace, Geometry, bool), OpenError> {
    let failed = |error: io::Error| OpenError::Open { path: path.to_owned(), error };
    // SAFETY: no memory is named.
    let identifier = unsafe { libc::ioctl(fd.as_raw_fd(), IOCTL_ID) };
    let identifier = u32::try_from(identifier).map_err(|_| failed(io::Error::last_os_error()))?;
    let mut page: IdentifyPage = [0; IDENTIFY_BYTES];
    let at = (page.as_mut_ptr().expose_provenance() as u64, IDENTIFY_BYTES as u32);
    let mut command = passthrough(Command::identify(cns::NAMESPACE, identifier, 0), at);
    // SAFETY: the command names a page that outlives the call, and is itself as long as the kernel reads and writes.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), IOCTL_ADMIN, command.as_mut_ptr()) };
    match status {
        0 => {}
        ..0 => return Err(failed(io::Error::last_os_error())),
        status => return Err(failed(io::Error::other(format!("Identify ends with NVMe status {status:#x}")))),
    }
    let namespace = IdentifyNamespace::from_page(&page);
    if namespace.metadata_bytes > 0 {
        return Err(OpenError::Metadata { path: path.to_owned(), bytes: namespace.metadata_bytes });
    }
    let block_bytes = 1_u32.checked_shl(u32::from(namespace.block_power)).filter(|bytes| *bytes >= 512);
    let block_bytes = block_bytes.ok_or_else(|| OpenError::TooSmall { path: path.to_owned(), bytes: 0 })?;
    let status = rustix::fs::fstat(fd).map_err(|error| failed(error.into()))?;
    let block_device = block_device(status.st_rdev);
    let queue = block_device.and_then(|device| rustix::fs::stat(device).ok()).map(|found| Queue::of(found.st_rdev));
    let number = |name: &str| queue.as_ref().and_then(|queue| queue.number(name));
    // A command is not cut by anybody: its data must fit what the controller takes at once, wherever its pages lie.
    let by_length = number("max_hw_sectors_kb").map_or(TRANSFER_BYTES, |kilobytes| kilobytes << 10);
    let by_pieces = number("max_segments").map_or(TRANSFER_BYTES, |pieces| pieces.saturating_sub(1) << 12);
    let transfer = by_length.min(by_pieces).min(1 << 20) as u32 / block_bytes * block_bytes;
    let geometry = Geometry {
        block_bytes,
        blocks: namespace.blocks,
        atomic_bytes: block_bytes,
        volatile_cache: queue.as_ref().is_none_or(Queue::has_volatile_cache),
        forced_unit_access: number("fua") == Some(1),
        transfer_bytes_max: transfer.max(block_bytes),
        depth: depth.clamp(1, 4_096),
    };
    let namespace = Namespace { identifier, block_power: u32::from(namespace.block_power) };
    Ok((namespace, geometry, number("io_poll") == Some(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::spec::opcode;

    #[test]
    fn a_command_is_where_the_kernel_looks_for_it() {
        let command = Command::write(7, 0x1_2345_6789, 8, true);
        let bytes = passthrough(command, (0xabcd_ef00, 4_096));
        let word = |place: usize| u32::from_ne_bytes(bytes[place..place + 4].try_into().unwrap());
        assert_eq!((bytes[0], bytes[1], word(4)), (opcode::WRITE, 0, 7), "opcode, flags, namespace");
        assert_eq!((word(24), word(28), word(32), word(36)), (0xabcd_ef00, 0, 0, 4_096), "data, and no metadata");
        assert_eq!((word(40), word(44), word(48)), (0x2345_6789, 1, 1 << 30 | 7), "the first block, their number, FUA");
    }
}
