//! Controller registers.

use std::time::Duration;

/// Bytes in a memory page, the only page size used (CC.MPS = 0).
pub const PAGE_BYTES: u64 = 4_096;

/// Offsets of registers in bytes.
pub mod register {
    /// Controller Capabilities, 64 bits.
    pub const CAP: u32 = 0x00;
    /// Version, 32 bits.
    pub const VS: u32 = 0x08;
    /// Interrupt Mask Set, 32 bits.
    pub const INTMS: u32 = 0x0c;
    /// Interrupt Mask Clear, 32 bits.
    pub const INTMC: u32 = 0x10;
    /// Controller Configuration, 32 bits.
    pub const CC: u32 = 0x14;
    /// Controller Status, 32 bits.
    pub const CSTS: u32 = 0x1c;
    /// Admin Queue Attributes, 32 bits.
    pub const AQA: u32 = 0x24;
    /// Admin Submission Queue Base Address, 64 bits.
    pub const ASQ: u32 = 0x28;
    /// Admin Completion Queue Base Address, 64 bits.
    pub const ACQ: u32 = 0x30;
}

/// Where doorbells begin, in bytes.
pub const DOORBELLS: u32 = 0x1000;
/// Bytes of registers before the doorbells.
pub const REGISTERS_BYTES: u32 = DOORBELLS;

/// A doorbell's offset in bytes: of a queue's tail, or its completion queue's head; `stride`: CAP.DSTRD, 0…15.
#[inline]
pub fn doorbell_offset(queue: u16, is_completion: bool, stride: u8) -> u32 {
    DOORBELLS + ((2 * u32::from(queue) + u32::from(is_completion)) << (2 + (stride & 15)))
}

/// The queue whose doorbell is at `offset` with a stride of 0, and whether it is that of a completion queue.
#[inline]
pub fn doorbell_of(offset: u32) -> Option<(u16, bool)> {
    let index = offset.checked_sub(DOORBELLS)? / 4;
    offset.is_multiple_of(4).then_some(())?;
    Some((u16::try_from(index / 2).ok()?, index % 2 == 1))
}

/// Controller Capabilities (CAP).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The largest queue, in entries (MQES, which counts from 0, and one).
    pub queue_entries_max: u32,
    /// How long the controller may take to become ready or stop being so (TO), in units of 500 ms.
    pub timeout_half_seconds: u8,
    /// Distance of doorbells (DSTRD): 4 bytes times two to the power of it.
    pub doorbell_stride: u8,
    /// Whether it has the NVM command set (CSS bit 0).
    pub nvm_commands: bool,
    /// The smallest page (MPSMIN): 4,096 bytes times two to the power of it.
    pub page_min: u8,
}

impl Capabilities {
    /// From the register.
    pub fn from_bits(bits: u64) -> Capabilities {
        Capabilities {
            queue_entries_max: (bits & 0xffff) as u32 + 1,
            timeout_half_seconds: (bits >> 24) as u8,
            doorbell_stride: (bits >> 32) as u8 & 15,
            nvm_commands: bits >> 37 & 1 != 0,
            page_min: (bits >> 48) as u8 & 15,
        }
    }

    /// As the register; queues must be contiguous (CQR).
    pub fn bits(self) -> u64 {
        u64::from(self.queue_entries_max.wrapping_sub(1) & 0xffff)
            | 1 << 16
            | u64::from(self.timeout_half_seconds) << 24
            | u64::from(self.doorbell_stride & 15) << 32
            | u64::from(self.nvm_commands) << 37
            | u64::from(self.page_min & 15) << 48
    }

    /// How long the controller may take to become ready or stop being so; at least 500 ms.
    pub fn timeout(self) -> Duration {
        Duration::from_millis(500) * u32::from(self.timeout_half_seconds.max(1))
    }
}

/// What a driver says of an end (CC.SHN), or a controller of where it is (CSTS.SHST).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// None.
    None,
    /// Normal shutdown is asked for; it is going on.
    Normal,
    /// Abrupt shutdown is asked for; it is complete.
    Complete,
}

/// Controller Configuration (CC), with the sizes of entries that are the only ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration(u32);

impl Configuration {
    /// Enabled, with 4 KiB pages, the NVM command set, and entries of 64 and 16 bytes.
    pub const ENABLED: Configuration = Configuration(1 | 6 << 16 | 4 << 20);
    /// Not enabled.
    pub const DISABLED: Configuration = Configuration(6 << 16 | 4 << 20);

    /// From the register.
    pub fn from_bits(bits: u32) -> Configuration {
        Configuration(bits)
    }

    /// As the register.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The same, with normal shutdown asked for.
    pub fn with_shutdown(self) -> Configuration {
        Configuration(self.0 & !(3 << 14) | 1 << 14)
    }

    /// Whether the controller is to run (EN).
    pub fn is_enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether a shutdown is asked for (SHN).
    pub fn is_shutdown(self) -> bool {
        self.0 >> 14 & 3 != 0
    }

    /// Whether command set (CSS), page size (MPS), arbitration (AMS) and entry sizes are those of [`Configuration::ENABLED`].
    pub fn is_usual(self) -> bool {
        self.0 & 0x00ff_3ff0 == Configuration::ENABLED.0 & 0x00ff_3ff0
    }
}

/// Controller Status (CSTS).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerStatus(u32);

impl ControllerStatus {
    /// What a controller that is no more reads as.
    pub const ABSENT: ControllerStatus = ControllerStatus(u32::MAX);

    /// From the register.
    pub fn from_bits(bits: u32) -> ControllerStatus {
        ControllerStatus(bits)
    }

    /// As the register.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Of a controller that is ready or not, has failed or not, and is shut down so far.
    pub fn of(ready: bool, failed: bool, shutdown: Shutdown) -> ControllerStatus {
        let shutdown = match shutdown {
            Shutdown::None => 0,
            Shutdown::Normal => 1,
            Shutdown::Complete => 2,
        };
        ControllerStatus(u32::from(ready) | u32::from(failed) << 1 | shutdown << 2)
    }

    /// Whether the controller answers (RDY).
    pub fn is_ready(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the controller has failed (CFS), or is no more.
    pub fn is_failed(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether the controller is no more: all bits are set.
    pub fn is_absent(self) -> bool {
        self == ControllerStatus::ABSENT
    }

    /// Whether it has shut down (SHST).
    pub fn is_shut_down(self) -> bool {
        self.0 >> 2 & 3 == 2
    }
}

/// Admin Queue Attributes (AQA).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSizes {
    /// Entries of the admin submission queue (ASQS, which counts from 0, and one).
    pub submission: u32,
    /// Entries of the admin completion queue (ACQS, which counts from 0, and one).
    pub completion: u32,
}

impl QueueSizes {
    /// From the register.
    pub fn from_bits(bits: u32) -> QueueSizes {
        QueueSizes { submission: (bits & 0xfff) + 1, completion: (bits >> 16 & 0xfff) + 1 }
    }

    /// As the register.
    pub fn bits(self) -> u32 {
        self.submission.wrapping_sub(1) & 0xfff | (self.completion.wrapping_sub(1) & 0xfff) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_are_where_the_specification_says() {
        assert_eq!(doorbell_offset(0, false, 0), 0x1000);
        assert_eq!(doorbell_offset(3, true, 0), 0x101c);
        assert_eq!(doorbell_offset(1, true, 2), 0x1030);
        assert_eq!(doorbell_of(0x101c), Some((3, true)));
        assert_eq!((doorbell_of(0xffc), doorbell_of(0x1001)), (None, None));
        assert_eq!(doorbell_of(u32::MAX), None);
    }

    #[test]
    fn registers_are_as_the_specification_says() {
        // As QEMU's controller has it: 2,048 entries, contiguous, 7.5 s, NVM and others, pages up to 64 KiB.
        let capabilities = Capabilities::from_bits(0x0040_2020_0f01_07ff);
        assert_eq!(capabilities.queue_entries_max, 2_048);
        assert_eq!(capabilities.timeout(), Duration::from_millis(7_500));
        assert_eq!((capabilities.doorbell_stride, capabilities.page_min, capabilities.nvm_commands), (0, 0, true));
        assert_eq!(Capabilities::from_bits(capabilities.bits()), capabilities);
        assert_eq!(Configuration::ENABLED.bits(), 0x0046_0001);
        assert_eq!(Configuration::ENABLED.with_shutdown().bits(), 0x0046_4001);
        assert!(!Configuration::from_bits(0x0046_0081).is_usual());
        assert_eq!(ControllerStatus::of(true, false, Shutdown::Complete).bits(), 9);
        assert!(ControllerStatus::ABSENT.is_absent() && ControllerStatus::ABSENT.is_failed());
        assert_eq!(QueueSizes { submission: 64, completion: 32 }.bits(), 0x001f_003f);
        assert_eq!(QueueSizes::from_bits(0xffff_ffff), QueueSizes { submission: 4_096, completion: 4_096 });
    }
}
