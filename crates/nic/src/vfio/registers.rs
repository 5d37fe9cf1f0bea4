//! [`Registers`]: a device's registers, mapped. Each load and store reaches the device.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// The beginning of a BAR, mapped. Offsets are in bytes. Not `Send`: a device is driven by one thread.
///
/// Beyond the end, loads give what a device that is no more gives, all bits set, and stores do nothing.
#[derive(Debug)]
pub struct Registers {
    base: NonNull<u8>,
    length: usize,
}

impl Registers {
    /// Maps `length` bytes of a device's region, which begins at `offset` of its descriptor.
    pub(super) fn map(device: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Registers> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (null, fd) = (std::ptr::null_mut(), device.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(null, length, protection, libc::MAP_SHARED, fd, offset as libc::off_t) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Registers { base, length })
    }

    /// Bytes that are mapped.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Where a register of 32 bits is; `None`: not within, or not aligned.
    #[inline]
    fn place(&self, offset: u32) -> Option<NonNull<u32>> {
        let offset = offset as usize;
        if offset + 4 > self.length || !offset.is_multiple_of(4) {
            return None;
        }
        // SAFETY: within the mapping, whose base is a page's: the check above.
        Some(unsafe { self.base.add(offset) }.cast::<u32>())
    }

    /// Reads a register of 32 bits.
    #[inline]
    pub fn read(&self, offset: u32) -> u32 {
        // SAFETY: `place` gives an aligned place within the mapping, which lives as long as `self`. It is the device's and nobody
        // else's in this process, and is reached by volatile accesses only.
        self.place(offset).map_or(u32::MAX, |place| u32::from_le(unsafe { place.read_volatile() }))
    }

    /// Writes a register of 32 bits. Stores to memory that were made before are seen by the device before this one (x86 orders them;
    /// a caller puts a release fence before a doorbell, which keeps the compiler from reordering).
    #[inline]
    pub fn write(&self, offset: u32, value: u32) {
        if let Some(place) = self.place(offset) {
            // SAFETY: as in `read`.
            unsafe { place.write_volatile(value.to_le()) };
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;
    use std::os::fd::AsFd;

    #[test]
    fn registers_end_where_they_end() {
        let (_region, file) = Region::in_memory_file(1, 4_096).unwrap();
        let registers = Registers::map(file.as_fd(), 0, 4_096).unwrap();
        registers.write(4_092, 0x1234_5678);
        registers.write(4_096, 7);
        assert_eq!((registers.read(4_092), registers.read(0), registers.length()), (0x1234_5678, 0, 4_096));
        assert_eq!(
            (registers.read(4_096), registers.read(4_093), registers.read(u32::MAX)),
            (u32::MAX, u32::MAX, u32::MAX)
        );
    }
}
