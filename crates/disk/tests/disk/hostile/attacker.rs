//! [`Attacker`]: writes registers, queues and doorbells by hand.

use crate::disk_core::rig::House;
use qanat_disk::controller::{GuestMemory, RegionMemory};
use qanat_disk::nvme::spec::{Command, CompletionEntry, QueueSizes, Status, register};
use qanat_disk::shared::SharedArea;
use qanat_nic::Region;
use std::os::fd::{AsFd, OwnedFd};

/// Where its queues lie in the file: each a page, of 32 entries.
pub const ADMIN_SUBMISSIONS: u64 = 0x1000;
pub const ADMIN_COMPLETIONS: u64 = 0x2000;
pub const SUBMISSIONS: u64 = 0x3000;
pub const COMPLETIONS: u64 = 0x4000;
/// A page for PRP lists, or whatever it likes.
pub const LISTS: u64 = 0x5000;
pub const ENTRIES: u32 = 32;
/// Enable, with the sizes of entries that are the only ones.
pub const ENABLE: u32 = 0x0046_0001;
/// Where doorbells begin in the page of registers.
const DOORBELLS_AT: u64 = 0x800;

/// A queue as the attacker has it.
#[derive(Clone, Copy, Default)]
struct Place {
    tail: u32,
    head: u32,
    /// Times round the completion queue.
    rounds: u32,
}

/// An application by hand.
pub struct Attacker {
    pub house: House,
    memory: RegionMemory,
    pub doorbell: OwnedFd,
    pub file: OwnedFd,
    pub lease: OwnedFd,
    /// Where its frames begin in the file.
    pub frames_at: u64,
    /// Bytes of the file.
    pub length: u64,
    places: [Place; 2],
    identifier: u16,
}

impl Attacker {
    pub fn new(house: &House, (area, lease): (SharedArea, OwnedFd)) -> Attacker {
        let SharedArea { memory: file, doorbell, layout } = area;
        let pages = (layout.length() / 4_096) as u32;
        let region = Region::of_shared_file(file.as_fd(), 0, pages, 4_096).unwrap();
        Attacker {
            house: house.clone(),
            memory: RegionMemory::new(vec![(0, region)]),
            doorbell,
            file,
            lease,
            frames_at: layout.frames_at(),
            length: layout.length(),
            places: [Place::default(); 2],
            identifier: 0,
        }
    }

    /// What a driver does to have a queue pair.
    pub fn bring_up(&mut self) {
        self.enable(ENABLE, (ADMIN_SUBMISSIONS, ADMIN_COMPLETIONS), (ENTRIES, ENTRIES));
        assert_eq!(self.register(register::CSTS), 1, "it is ready");
        let done = self.admin(Command::create_completion_queue(1, ENTRIES, COMPLETIONS, None));
        assert!(done.is_success(), "{done:?}");
        let done = self.admin(Command::create_submission_queue(1, ENTRIES, SUBMISSIONS, 1));
        assert!(done.is_success(), "{done:?}");
    }

    /// Writes the registers of the admin queues, and CC.
    pub fn enable(&mut self, configuration: u32, (submission, completion): (u64, u64), sizes: (u32, u32)) {
        // What is left of queues before would be taken for completions.
        for page in [ADMIN_COMPLETIONS, COMPLETIONS] {
            self.set_bytes(page, &[0; 4_096]);
        }
        let sizes = QueueSizes { submission: sizes.0, completion: sizes.1 }.bits();
        self.set_register(register::AQA, sizes);
        for (offset, address) in [(register::ASQ, submission), (register::ACQ, completion)] {
            self.set_register(offset, address as u32);
            self.set_register(offset + 4, (address >> 32) as u32);
        }
        self.set_register(register::CC, configuration);
        self.places = [Place::default(); 2];
        self.house.turns(2);
    }

    pub fn register(&self, offset: u32) -> u32 {
        self.memory.load_half(u64::from(offset)).unwrap()
    }

    pub fn set_register(&self, offset: u32, value: u32) {
        assert!(self.memory.store_half(u64::from(offset), value));
    }

    /// Writes a doorbell: the tail of a queue, or the head of its completion queue.
    pub fn set_doorbell(&self, queue: u32, is_completion: bool, value: u32) {
        let place = DOORBELLS_AT + 4 * u64::from(2 * queue + u32::from(is_completion));
        assert!(self.memory.store_half(place, value));
    }

    /// Writes words anywhere in the file.
    pub fn store(&self, place: u64, words: &[u64]) {
        for (index, word) in (0..).zip(words) {
            assert!(self.memory.store(place + 8 * index, *word));
        }
    }

    pub fn bytes(&self, place: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        assert!(self.memory.read(place, &mut bytes));
        bytes
    }

    pub fn set_bytes(&self, place: u64, bytes: &[u8]) {
        assert!(self.memory.write(place, bytes));
    }

    /// Puts a command into an entry of the I/O queue; nothing is rung.
    pub fn put(&self, entry: u32, command: Command) {
        self.store(SUBMISSIONS + 64 * u64::from(entry), &command.to_words());
    }

    /// Puts a command into the next entry, under an identifier of its own, which it returns; nothing is rung.
    pub fn queue(&mut self, queue: usize, command: Command) -> u16 {
        self.identifier = (self.identifier + 1) % 0x7000;
        self.queue_as(queue, command, self.identifier);
        self.identifier
    }

    pub fn queue_as(&mut self, queue: usize, command: Command, identifier: u16) {
        let base = [ADMIN_SUBMISSIONS, SUBMISSIONS][queue];
        let tail = self.places[queue].tail;
        self.store(base + 64 * u64::from(tail), &command.with_identifier(identifier).to_words());
        self.places[queue].tail = (tail + 1) % ENTRIES;
    }

    pub fn ring(&self, queue: usize) {
        self.set_doorbell(queue as u32, false, self.places[queue].tail);
    }

    pub fn tail(&self, queue: usize) -> u32 {
        self.places[queue].tail
    }

    /// The next completion of a queue, which is taken; the head is told.
    pub fn next(&mut self, queue: usize) -> Option<CompletionEntry> {
        let entry = self.peek(queue)?;
        let place = &mut self.places[queue];
        place.head = (place.head + 1) % ENTRIES;
        place.rounds += u32::from(place.head == 0);
        let head = place.head;
        self.set_doorbell(queue as u32, true, head);
        Some(entry)
    }

    /// The same, but nothing is taken.
    pub fn peek(&self, queue: usize) -> Option<CompletionEntry> {
        let place = self.places[queue];
        let base = [ADMIN_COMPLETIONS, COMPLETIONS][queue];
        let mut words = [0; 2];
        assert!(self.memory.load(base + 16 * u64::from(place.head), &mut words));
        CompletionEntry::is_of_phase(words[1], place.rounds.is_multiple_of(2))
            .then(|| CompletionEntry::from_words(words[0], words[1]))
    }

    /// Completions that lie in the queue, untaken.
    pub fn posted(&self, queue: usize) -> usize {
        let mut copy = Attacker { places: self.places, ..self.twin() };
        let mut count = 0;
        while copy.peek(queue).is_some() && count < ENTRIES as usize {
            let place = &mut copy.places[queue];
            place.head = (place.head + 1) % ENTRIES;
            place.rounds += u32::from(place.head == 0);
            count += 1;
        }
        count
    }

    fn twin(&self) -> Attacker {
        let region = Region::of_shared_file(self.file.as_fd(), 0, (self.length / 4_096) as u32, 4_096).unwrap();
        Attacker {
            house: self.house.clone(),
            memory: RegionMemory::new(vec![(0, region)]),
            doorbell: self.doorbell.try_clone().unwrap(),
            file: self.file.try_clone().unwrap(),
            lease: self.lease.try_clone().unwrap(),
            ..*self
        }
    }

    /// Does an admin command.
    pub fn admin(&mut self, command: Command) -> Status {
        self.done(0, command).expect("an answer").status.plain()
    }

    /// Does an I/O command.
    pub fn io(&mut self, command: Command) -> Status {
        self.done(1, command).expect("an answer").status.plain()
    }

    /// The end of a command, if it comes within some turns.
    pub fn done(&mut self, queue: usize, command: Command) -> Option<CompletionEntry> {
        let identifier = self.queue(queue, command);
        self.ring(queue);
        for _ in 0..20 {
            self.house.turn();
            if let Some(entry) = self.next(queue) {
                assert_eq!(entry.identifier, identifier);
                return Some(entry);
            }
        }
        None
    }

    /// A read of one block into the first frame.
    pub fn read(&self) -> Command {
        Command::read(1, 0, 1).with_prps(self.frames_at, 0)
    }

    /// A write of one block of the first frame.
    pub fn write(&self) -> Command {
        Command::write(1, 0, 1, false).with_prps(self.frames_at, 0)
    }
}
