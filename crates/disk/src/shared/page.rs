//! [`Page`]: the page of registers and doorbells that both sides have, and who sleeps.
//!
//! ```text
//!  0x000  registers, at their NVMe offsets: the core writes CAP, VS and CSTS, the driver the others
//!  0x800  doorbells, 32 bits each, as from 0x1000 on in a controller of stride 0: the driver writes them, the core looks
//!  0xc00  the core sleeps: it wants to be rung      0xc40  the driver sleeps: it wants to be rung
//!  0xc80  how often a command was held by a rate    0xc84  for how long the last time, in milliseconds
//! ```
//! *No wake-up is lost*: who goes to sleep says so, then looks again; who has news publishes them, then looks whether the other sleeps.
//! Each has a full fence between the two, so one of them sees the other.

use crate::controller::{GuestMemory, RegionMemory};
use crate::nvme::spec::DOORBELLS;
use qanat_nic::Region;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

/// Queue pairs there may be, the admin queue's included.
pub(crate) const QUEUE_PAIRS: u16 = 5;
/// Doorbells there are.
pub(crate) const DOORBELL_COUNT: u32 = 2 * QUEUE_PAIRS as u32;
/// Where doorbells begin.
const DOORBELLS_AT: u32 = 0x800;
/// Where each side says that it sleeps, on cache lines of their own.
const CORE_SLEEPS: u32 = 0xc00;
const DRIVER_SLEEPS: u32 = 0xc40;
/// Where the core says that it holds commands, and for how long.
const HOLDS: u64 = 0xc80;
const HELD_FOR: u64 = 0xc84;

/// One of the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Core,
    Driver,
}

impl Side {
    fn place(self) -> u64 {
        u64::from(match self {
            Side::Core => CORE_SLEEPS,
            Side::Driver => DRIVER_SLEEPS,
        })
    }
}

/// The page. Each word is an atomic: what the other side writes meanwhile gives other bytes, nothing else.
#[derive(Debug)]
pub(super) struct Page(RegionMemory);

impl Page {
    pub(super) fn new(region: Rc<Region>) -> Page {
        Page(RegionMemory::new(vec![(0, region)]))
    }

    /// The word of the register or doorbell at `offset`; `None`: there is none.
    fn place(offset: u32) -> Option<u64> {
        if offset < DOORBELLS {
            return (offset < DOORBELLS_AT).then_some(u64::from(offset));
        }
        let index = (offset - DOORBELLS) / 4;
        (index < DOORBELL_COUNT).then_some(u64::from(DOORBELLS_AT + 4 * index))
    }

    /// Loads the register or doorbell at `offset`; 0 if there is none.
    #[inline]
    pub(super) fn load(&self, offset: u32) -> u32 {
        Page::place(offset).and_then(|place| self.0.load_half(place)).unwrap_or(0)
    }

    /// Stores it, after all that was stored before.
    #[inline]
    pub(super) fn store(&self, offset: u32, value: u32) {
        if let Some(place) = Page::place(offset) {
            self.0.store_half(place, value);
        }
    }

    /// Says whether a side sleeps. What is looked at after it was said is newer than what was published before it could be seen.
    pub(super) fn say_asleep(&self, side: Side, sleeps: bool) {
        self.0.store_half(side.place(), u32::from(sleeps));
        fence(Ordering::SeqCst);
    }

    /// Says that commands are held: the number of times so far, and how long this time.
    pub(super) fn say_held(&self, holds: u32, milliseconds: u32) {
        self.0.store_half(HELD_FOR, milliseconds);
        // After what it is about: who sees the number has the time of it, or of a later one.
        self.0.store_half(HOLDS, holds);
    }

    /// What was said last.
    pub(super) fn held(&self) -> (u32, u32) {
        let holds = self.0.load_half(HOLDS).unwrap_or(0);
        (holds, self.0.load_half(HELD_FOR).unwrap_or(0))
    }

    /// Whether a side sleeps, looked at after what was stored before is seen.
    #[inline]
    pub(super) fn is_asleep(&self, side: Side) -> bool {
        fence(Ordering::SeqCst);
        self.0.load_half(side.place()).is_some_and(|sleeps| sleeps != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::spec::{doorbell_offset, register};

    #[test]
    fn registers_doorbells_and_sleep_lie_apart() {
        let page = Page::new(Region::new(1, 4_096).unwrap());
        let offsets: Vec<u32> = (0..QUEUE_PAIRS)
            .flat_map(|queue| [doorbell_offset(queue, false, 0), doorbell_offset(queue, true, 0)])
            .chain([register::CC, register::CSTS, register::ACQ + 4])
            .collect();
        page.say_asleep(Side::Core, true);
        for (offset, value) in offsets.iter().zip(100..) {
            page.store(*offset, value);
        }
        for (offset, value) in offsets.iter().zip(100..) {
            assert_eq!(page.load(*offset), value);
        }
        assert!(page.is_asleep(Side::Core) && !page.is_asleep(Side::Driver));
        for beyond in [doorbell_offset(QUEUE_PAIRS, false, 0), 0x800, 0xffc, u32::MAX] {
            page.store(beyond, 7);
            assert_eq!(page.load(beyond), 0, "{beyond:#x}");
        }
        assert!(!page.is_asleep(Side::Driver) && page.held() == (0, 0));
        page.say_held(3, 1_500);
        assert_eq!((page.held(), page.load(register::CSTS)), ((3, 1_500), 111));
    }
}
