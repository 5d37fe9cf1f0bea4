//! [`Registers`]: a controller's registers.

use crate::nvme::spec::{Capabilities, Configuration, ControllerStatus, QueueSizes, Shutdown, register};

/// NVMe 1.4.
pub(super) const VERSION: u32 = 0x0001_0400;

/// A controller's registers.
pub(super) struct Registers {
    capabilities: Capabilities,
    pub(super) configuration: Configuration,
    interrupt_mask: u32,
    queue_sizes: u32,
    submission: u64,
    completion: u64,
    pub(super) is_ready: bool,
    pub(super) has_failed: bool,
    pub(super) shutdown: Shutdown,
    /// The controller was taken away: all bits are set.
    pub(super) is_absent: bool,
}

impl Registers {
    pub(super) fn new(queue_entries_max: u32) -> Registers {
        Registers {
            capabilities: Capabilities {
                queue_entries_max,
                // 10 s: the backends may take as long to end what is under way.
                timeout_half_seconds: 20,
                doorbell_stride: 0,
                nvm_commands: true,
                page_min: 0,
            },
            configuration: Configuration::from_bits(0),
            interrupt_mask: 0,
            queue_sizes: 0,
            submission: 0,
            completion: 0,
            is_ready: false,
            has_failed: false,
            shutdown: Shutdown::None,
            is_absent: false,
        }
    }

    /// The admin queues' sizes, and where they begin.
    pub(super) fn admin_queues(&self) -> (QueueSizes, u64, u64) {
        (QueueSizes::from_bits(self.queue_sizes), self.submission, self.completion)
    }

    /// The 32 bits at `offset`; 0 where there is no register.
    pub(super) fn read(&self, offset: u32) -> u32 {
        if self.is_absent {
            return u32::MAX;
        }
        let upper = |value: u64| (value >> 32) as u32;
        match offset {
            register::CAP => self.capabilities.bits() as u32,
            0x04 => upper(self.capabilities.bits()),
            register::VS => VERSION,
            register::INTMS | register::INTMC => self.interrupt_mask,
            register::CC => self.configuration.bits(),
            register::CSTS => ControllerStatus::of(self.is_ready, self.has_failed, self.shutdown).bits(),
            register::AQA => self.queue_sizes,
            register::ASQ => self.submission as u32,
            0x2c => upper(self.submission),
            register::ACQ => self.completion as u32,
            0x34 => upper(self.completion),
            _ => 0,
        }
    }

    /// Writes the 32 bits at `offset`, but for CC; whether there is such a register. One that can only be read keeps its value.
    pub(super) fn write(&mut self, offset: u32, value: u32) -> bool {
        let lower = |word: u64| word & !0xffff_ffff | u64::from(value);
        let upper = |word: u64| word & 0xffff_ffff | u64::from(value) << 32;
        match offset {
            register::INTMS => self.interrupt_mask |= value,
            register::INTMC => self.interrupt_mask &= !value,
            register::AQA => self.queue_sizes = value,
            register::ASQ => self.submission = lower(self.submission),
            0x2c => self.submission = upper(self.submission),
            register::ACQ => self.completion = lower(self.completion),
            0x34 => self.completion = upper(self.completion),
            register::CAP | 0x04 | register::VS | register::CSTS => {}
            _ => return false,
        }
        true
    }
}
