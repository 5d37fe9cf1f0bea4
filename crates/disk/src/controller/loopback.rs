//! [`Loopback`]: a software controller's registers, as a driver in the same thread reaches them.

use super::core::Controller;
use super::memory::GuestMemory;
use crate::nvme::Transport;
use crate::vsic::Vsic;
use qanat_nic::ManualClock;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Commands a controller may fetch in one turn here.
const COMMANDS_A_TURN: usize = 64;

/// The way to a controller in the same thread. It has a turn while the driver waits, and when a doorbell is rung, if wished.
#[derive(Debug)]
pub struct Loopback<B: Vsic, M: GuestMemory> {
    controller: Rc<RefCell<Controller<B, M>>>,
    turns_by_doorbells: bool,
    clock: Option<ManualClock>,
}

impl<B: Vsic, M: GuestMemory> Loopback<B, M> {
    /// To this controller, which has a turn at each doorbell.
    pub fn new(controller: Rc<RefCell<Controller<B, M>>>) -> Loopback<B, M> {
        Loopback { controller, turns_by_doorbells: true, clock: None }
    }

    /// The same, but doorbells give no turns: whoever has the controller does.
    pub fn without_turns(mut self) -> Loopback<B, M> {
        self.turns_by_doorbells = false;
        self
    }

    /// The same with a virtual clock, moved on by a millisecond each time the driver waits.
    pub fn with_clock(mut self, clock: ManualClock) -> Loopback<B, M> {
        self.clock = Some(clock);
        self
    }
}

impl<B: Vsic, M: GuestMemory> Transport for Loopback<B, M> {
    fn read32(&mut self, offset: u32) -> u32 {
        self.controller.borrow().read32(offset)
    }

    fn read64(&mut self, offset: u32) -> u64 {
        self.controller.borrow().read64(offset)
    }

    fn write32(&mut self, offset: u32, value: u32) {
        self.controller.borrow_mut().write32(offset, value);
    }

    fn write64(&mut self, offset: u32, value: u64) {
        self.controller.borrow_mut().write64(offset, value);
    }

    fn ring(&mut self, offset: u32, value: u32) {
        let mut controller = self.controller.borrow_mut();
        controller.write32(offset, value);
        if self.turns_by_doorbells {
            controller.turn(COMMANDS_A_TURN);
        }
    }

    fn relax(&mut self) {
        self.controller.borrow_mut().turn(COMMANDS_A_TURN);
        if let Some(clock) = &self.clock {
            clock.advance(Duration::from_millis(1));
        }
    }

    fn isolate(&mut self) -> bool {
        self.controller.borrow_mut().cut()
    }
}
