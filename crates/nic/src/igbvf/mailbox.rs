//! [`Mailbox`]: short messages between a virtual function and the driver of the physical one.

use super::bus::Bus;
use super::registers::{
    MAILBOX_ACKNOWLEDGE, MAILBOX_MESSAGE, MAILBOX_OURS, MAILBOX_READ, MAILBOX_READ_CLEARS, MAILBOX_REQUEST,
    MAILBOX_RESET_DONE, MAILBOX_RESET_GOING_ON, V2PMAILBOX, VMBMEM,
};

/// Words of a message of ours, and of the host's as far as it is read.
pub(super) const PUT_WORDS: usize = 16;
pub(super) const WORDS: usize = 3;

/// What the register said that is gone once it was read.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    kept: u32,
}

impl Mailbox {
    /// What the register says now, and what it said since that was taken.
    fn look(&mut self, bus: &impl Bus) -> u32 {
        let now = bus.read(V2PMAILBOX);
        if now == u32::MAX {
            // The device is no more.
            return 0;
        }
        self.kept |= now & MAILBOX_READ_CLEARS;
        now | self.kept
    }

    fn take(&mut self, bus: &impl Bus, bits: u32) -> bool {
        let is_set = self.look(bus) & bits != 0;
        self.kept &= !bits;
        is_set
    }

    /// Forgets what was said.
    pub(super) fn forget(&mut self, bus: &impl Bus) {
        self.look(bus);
        self.kept = 0;
    }

    /// Whether the host is being reset now.
    pub(super) fn is_host_resetting(&mut self, bus: &impl Bus) -> bool {
        self.look(bus) & MAILBOX_RESET_GOING_ON != 0
    }

    /// Whether the host is being reset, or has been.
    pub(super) fn takes_reset(&mut self, bus: &impl Bus) -> bool {
        self.take(bus, MAILBOX_RESET_GOING_ON | MAILBOX_RESET_DONE)
    }

    /// Whether the host has read the message.
    pub(super) fn takes_read(&mut self, bus: &impl Bus) -> bool {
        self.take(bus, MAILBOX_READ)
    }

    /// Takes the memory; `false`: the host has it now.
    fn own(&mut self, bus: &impl Bus) -> bool {
        bus.write(V2PMAILBOX, MAILBOX_OURS);
        self.look(bus) & MAILBOX_OURS != 0
    }

    /// Puts a message; `false`: not now.
    pub(super) fn put(&mut self, bus: &impl Bus, words: [u32; PUT_WORDS]) -> bool {
        if !self.own(bus) {
            return false;
        }
        self.kept &= !(MAILBOX_MESSAGE | MAILBOX_READ);
        for (index, word) in words.into_iter().enumerate() {
            bus.write(VMBMEM + 4 * index as u32, word);
        }
        // This gives the memory up, too.
        bus.write(V2PMAILBOX, MAILBOX_REQUEST);
        true
    }

    /// Takes the host's message, if there is one.
    pub(super) fn take_message(&mut self, bus: &impl Bus) -> Option<[u32; WORDS]> {
        if self.look(bus) & MAILBOX_MESSAGE == 0 || !self.own(bus) {
            return None;
        }
        self.kept &= !MAILBOX_MESSAGE;
        let words = std::array::from_fn(|index| bus.read(VMBMEM + 4 * index as u32));
        bus.write(V2PMAILBOX, MAILBOX_ACKNOWLEDGE);
        Some(words)
    }
}
