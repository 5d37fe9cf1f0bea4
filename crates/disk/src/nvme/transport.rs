//! [`Transport`]: how the registers of a controller are reached.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// What a controller says of commands that it holds back, because they are more than was allowed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Held {
    /// How often it has held any so far: another number, another time.
    pub count: u32,
    /// How long at most, from when it was said the last time.
    pub time: Duration,
}

/// How the registers of a controller are reached. Offsets are in bytes, from the first register on, as the specification has them.
pub trait Transport {
    /// Reads a register of 32 bits. All bits are set if the controller is no more.
    fn read32(&mut self, offset: u32) -> u32;

    /// Reads a register of 64 bits. All bits are set if the controller is no more.
    fn read64(&mut self, offset: u32) -> u64;

    /// Writes a register of 32 bits.
    fn write32(&mut self, offset: u32, value: u32);

    /// Writes a register of 64 bits.
    fn write64(&mut self, offset: u32, value: u64);

    /// Rings a doorbell. What was stored in queues before is seen by who hears it.
    #[inline]
    fn ring(&mut self, offset: u32, value: u32) {
        fence(Ordering::Release);
        self.write32(offset, value);
    }

    /// Whether shadow doorbells are worth their while: a doorbell costs more than a look at memory.
    fn wants_shadow_doorbells(&self) -> bool {
        true
    }

    /// A descriptor that polls readable when there may be completions; `None`: the queue must be polled. The caller is about to wait: what
    /// completes after this was called is announced, once; [`silence`](Transport::silence) ends it. `has_some` says whether there
    /// are completions already, and is asked once those that come later are announced: then the descriptor is readable at once.
    fn event(&self, _has_some: &dyn Fn() -> bool) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The driver does not wait any more, and looks for completions: empties that descriptor, if somebody slept on it. Whether there still
    /// is a controller, as far as this way to it can tell without asking. What completes from here on is announced only to those who
    /// ask for the descriptor again.
    fn silence(&mut self) -> bool {
        true
    }

    /// The interrupt vector of the I/O queue, if it is to interrupt.
    fn interrupt_vector(&self) -> Option<u16> {
        None
    }

    /// What the controller says of commands that it holds back. NVMe's own have no such thing.
    fn held(&mut self) -> Held {
        Held::default()
    }

    /// Is called again and again while the driver waits, which it does only at opening and at the end. A transport with a virtual
    /// clock moves it, or the wait has no end.
    fn relax(&mut self) {
        std::hint::spin_loop();
    }

    /// Takes the device's access to memory away, for good: bus mastering off, or memory unmapped. For a device that does not stop.
    /// Whether that is certain; if not, buffers under way are never used again.
    fn isolate(&mut self) -> bool {
        false
    }
}
