//! PCI configuration space, by the function's descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Command, 16 bits.
pub(super) const COMMAND: u64 = 4;
/// In Command: the function may reach memory.
pub(super) const BUS_MASTER: u16 = 4;
/// In Command: its registers answer.
pub(super) const MEMORY: u16 = 2;

/// The configuration space of a function, which begins at `offset` of its descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) offset: u64,
}

impl Config {
    fn place(self, register: u64) -> libc::off_t {
        self.offset.wrapping_add(register) as libc::off_t
    }

    /// Reads 16 bits.
    pub(super) fn read(self, device: BorrowedFd<'_>, register: u64) -> io::Result<u16> {
        let mut bytes = [0_u8; 2];
        // SAFETY: a live buffer, borrowed mutably, of the length given.
        let count =
            unsafe { libc::pread(device.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), self.place(register)) };
        match count {
            2 => Ok(u16::from_le_bytes(bytes)),
            0.. => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Writes 16 bits.
    pub(super) fn write(self, device: BorrowedFd<'_>, register: u64, value: u16) -> io::Result<()> {
        let bytes = value.to_le_bytes();
        // SAFETY: a live buffer of the length given.
        let count =
            unsafe { libc::pwrite(device.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), self.place(register)) };
        match count {
            2 => Ok(()),
            0.. => Err(io::ErrorKind::WriteZero.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
