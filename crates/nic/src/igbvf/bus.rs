//! [`Bus`]: how registers are reached, so that what is said by them can be tried without a device.

use crate::vfio::Registers;

/// Registers of 32 bits, by their offsets in bytes.
pub(super) trait Bus {
    fn read(&self, offset: u32) -> u32;
    fn write(&self, offset: u32, value: u32);
}

impl Bus for Registers {
    #[inline]
    fn read(&self, offset: u32) -> u32 {
        Registers::read(self, offset)
    }

    #[inline]
    fn write(&self, offset: u32, value: u32) {
        Registers::write(self, offset, value);
    }
}
