//! A device that does as a test says: bring-up is a real controller's, I/O queues are the test's.

use crate::nvme::rig::SoftController;
use qanat_disk::Sim;
use qanat_disk::controller::{GuestMemory, Loopback, RegionMemory};
use qanat_disk::nvme::Transport;
use qanat_disk::nvme::spec::{Command, CompletionEntry, Status, opcode, register};
use std::cell::RefCell;
use std::rc::Rc;

/// What a test does to the device.
#[derive(Default)]
pub struct Hand {
    controller: Option<SoftController>,
    /// I/O doorbells are not passed on: the test fetches and posts.
    pub takes_over: bool,
    /// What CSTS reads as.
    pub status: Option<u32>,
    /// CSTS.RDY stays set.
    pub never_stops: bool,
    /// Whether its access to memory can be taken away.
    pub isolates: bool,
    pub isolated: u32,
    admin: u64,
    submission: (u64, u32),
    completion: (u64, u32),
    head: u32,
    tail: u32,
    posted: u32,
    rounds: u32,
}

impl Hand {
    /// One whose access can be taken away; `status`: what CSTS reads as.
    pub fn new(status: Option<u32>) -> Rc<RefCell<Hand>> {
        Rc::new(RefCell::new(Hand { status, isolates: true, ..Hand::default() }))
    }

    fn load(&self, address: u64) -> Command {
        let mut words = [0; 8];
        let controller = self.controller.as_ref().unwrap().borrow();
        assert!(controller.memory().load(address, &mut words));
        Command::from_words(words)
    }

    /// The identifiers of what was submitted since.
    pub fn fetch(&mut self) -> Vec<u16> {
        let mut identifiers = Vec::new();
        while self.head != self.tail {
            identifiers.push(self.load(self.submission.0 + 64 * u64::from(self.head)).identifier());
            self.head = (self.head + 1) % self.submission.1;
        }
        identifiers
    }

    /// The entry that says that a command is done.
    pub fn entry(&self, identifier: u16) -> CompletionEntry {
        CompletionEntry {
            result: 0,
            submission_head: self.head as u16,
            submission_queue: 1,
            identifier,
            phase: self.rounds.is_multiple_of(2),
            status: Status::SUCCESS,
        }
    }

    pub fn post(&mut self, entry: CompletionEntry) {
        let place = self.completion.0 + 16 * u64::from(self.posted);
        let (lower, upper) = entry.to_words();
        let controller = self.controller.as_ref().unwrap().borrow();
        assert!(controller.memory().store(place, lower) && controller.memory().store(place + 8, upper));
        self.posted = (self.posted + 1) % self.completion.1;
        self.rounds += u32::from(self.posted == 0);
    }

    fn hear_admin(&mut self, tail: u32) {
        let command = self.load(self.admin + 64 * u64::from(if tail == 0 { 15 } else { tail - 1 }));
        let place = (command.prp1(), command.queue_entries());
        match command.opcode() {
            opcode::CREATE_COMPLETION_QUEUE => self.completion = place,
            opcode::CREATE_SUBMISSION_QUEUE => self.submission = place,
            _ => {}
        }
    }
}

/// The way to it.
pub struct Device {
    inner: Loopback<Sim, RegionMemory>,
    hand: Rc<RefCell<Hand>>,
}

impl Device {
    pub fn new(inner: Loopback<Sim, RegionMemory>, controller: &SoftController, hand: &Rc<RefCell<Hand>>) -> Device {
        hand.borrow_mut().controller = Some(Rc::clone(controller));
        Device { inner, hand: Rc::clone(hand) }
    }
}

impl Transport for Device {
    fn read32(&mut self, offset: u32) -> u32 {
        let hand = self.hand.borrow();
        match (offset, hand.status) {
            (register::CSTS, Some(status)) => status,
            (register::CSTS, None) if hand.never_stops => self.inner.read32(offset) | 1,
            _ => self.inner.read32(offset),
        }
    }

    fn read64(&mut self, offset: u32) -> u64 {
        self.inner.read64(offset)
    }

    fn write32(&mut self, offset: u32, value: u32) {
        if offset == register::CC && value & 1 == 0 {
            let mut hand = self.hand.borrow_mut();
            (hand.head, hand.tail, hand.posted, hand.rounds) = (0, 0, 0, 0);
        }
        self.inner.write32(offset, value);
    }

    fn write64(&mut self, offset: u32, value: u64) {
        if offset == register::ASQ {
            self.hand.borrow_mut().admin = value;
        }
        self.inner.write64(offset, value);
    }

    fn ring(&mut self, offset: u32, value: u32) {
        let mut hand = self.hand.borrow_mut();
        if offset == 0x1000 {
            hand.hear_admin(value);
        } else if offset == 0x1008 {
            hand.tail = value;
        }
        let is_kept = hand.takes_over && offset >= 0x1008;
        drop(hand);
        if !is_kept {
            self.inner.ring(offset, value);
        }
    }

    fn relax(&mut self) {
        self.inner.relax();
    }

    fn isolate(&mut self) -> bool {
        let mut hand = self.hand.borrow_mut();
        hand.isolated += 1;
        hand.isolates
    }
}
