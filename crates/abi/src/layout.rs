//! The control memory: where the rings are, and what both sides must agree on before they use them.

use crate::memory::{Access, Shared, SharedMemory};
use crate::ring::{CAPACITY_MAX, Place, RingHeader, Slot};
use std::io;
use std::mem::{align_of, offset_of, size_of};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// "qanatspl", as bytes in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"qanatspl");
/// Counts changes of meaning; [`LAYOUT_HASH`] those of layout.
pub const VERSION: u32 = 5;

/// The start of the control memory.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    layout: AtomicU64,
    version: AtomicU32,
    /// Messages of either ring.
    capacity: AtomicU32,
}

const PAGE: usize = 4_096;
const EVENTS_AT: usize = PAGE;
const RING_HEADER_ROOM: usize = 512;

const _: () = {
    assert!(size_of::<Header>() == 24 && offset_of!(Header, capacity) == 20);
    assert!(size_of::<Slot>() == 32 && align_of::<Slot>() == 32);
    assert!(size_of::<RingHeader>() == 256 && size_of::<RingHeader>() <= RING_HEADER_ROOM);
    assert!(align_of::<RingHeader>() == 128 && EVENTS_AT.is_multiple_of(128));
};

/// FNV-1a over every size and offset two processes must agree on, and the messages' kinds.
pub const LAYOUT_HASH: u64 = {
    let facts = [
        size_of::<Header>() as u64,
        offset_of!(Header, layout) as u64,
        offset_of!(Header, version) as u64,
        offset_of!(Header, capacity) as u64,
        size_of::<RingHeader>() as u64,
        size_of::<Slot>() as u64,
        EVENTS_AT as u64,
        RING_HEADER_ROOM as u64,
        crate::message::RELEASES_MAX as u64,
        crate::ring::LAP,
        // Kinds of events and of commands.
        10,
        21,
    ];
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut index = 0;
    while index < facts.len() {
        hash = (hash ^ facts[index]).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    hash
};

/// What does not fit.
#[derive(Debug, thiserror::Error)]
pub enum Mismatch {
    /// What the system said.
    #[error("shared memory: {0}")]
    System(io::Error),
    /// It is not of this version: the version that was found.
    #[error("the net core speaks version {0}, this program {VERSION}: use one release of both")]
    Version(u32),
    /// It is of this version, and laid out otherwise.
    #[error("the net core was built otherwise than this program: use one build of both")]
    Layout,
}

impl From<io::Error> for Mismatch {
    fn from(error: io::Error) -> Mismatch {
        Mismatch::System(error)
    }
}

/// One ring of a control memory.
#[derive(Clone)]
pub struct ControlMemory {
    memory: Shared,
    at: usize,
    capacity: u32,
}

impl Place for ControlMemory {
    #[inline]
    fn header(&self) -> &RingHeader {
        // SAFETY: `rings` has checked that a header and its slots fit at `at`, which is aligned; all in it are atomics, of
        // which any bytes are values.
        unsafe { self.memory.base().add(self.at).cast().as_ref() }
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        // SAFETY: as in `header`.
        unsafe {
            let first = self.memory.base().add(self.at + RING_HEADER_ROOM).cast::<Slot>();
            std::slice::from_raw_parts(first.as_ptr(), self.capacity as usize)
        }
    }
}

/// Both rings.
pub struct Rings {
    /// Net core to service.
    pub events: ControlMemory,
    /// Service to net core.
    pub commands: ControlMemory,
}

const fn ring_length(capacity: u32) -> usize {
    (RING_HEADER_ROOM + capacity as usize * size_of::<Slot>()).next_multiple_of(PAGE)
}

const fn length(capacity: u32) -> usize {
    EVENTS_AT + 2 * ring_length(capacity)
}

fn rings(memory: SharedMemory, capacity: u32) -> Rings {
    let memory = Arc::new(memory);
    let at = |at| ControlMemory { memory: Arc::clone(&memory), at, capacity };
    Rings { events: at(EVENTS_AT), commands: at(EVENTS_AT + ring_length(capacity)) }
}

impl Rings {
    /// Bytes of a control memory whose rings have so many messages.
    pub const fn bytes(capacity: u32) -> u64 {
        length(capacity) as u64
    }

    /// A new control memory with rings of `capacity` messages (a power of two).
    ///
    /// # Errors
    /// `InvalidInput` for another capacity; else what the kernel says.
    pub fn create(capacity: u32) -> io::Result<(Rings, OwnedFd)> {
        if !capacity.is_power_of_two() || capacity > CAPACITY_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a ring of {capacity} messages")));
        }
        let file = SharedMemory::create(length(capacity))?;
        let memory = SharedMemory::map(std::os::fd::AsFd::as_fd(&file), length(capacity), Access::ReadWrite)?;
        // SAFETY: the mapping is longer than a header, aligned to a page, and zero bytes are values of atomics.
        let header: &Header = unsafe { memory.base().cast().as_ref() };
        header.magic.store(MAGIC, Ordering::Relaxed);
        header.layout.store(LAYOUT_HASH, Ordering::Relaxed);
        header.version.store(VERSION, Ordering::Relaxed);
        header.capacity.store(capacity, Ordering::Release);
        Ok((rings(memory, capacity), file))
    }

    /// The service's view of what it was given.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn open(file: BorrowedFd<'_>) -> Result<Rings, Mismatch> {
        let first = SharedMemory::map(file, PAGE, Access::Read)?;
        // SAFETY: the mapping has a page, which is longer than a header and aligned to it; any bytes are values of atomics, which are only
        // read here.
        let header: &Header = unsafe { first.base().cast().as_ref() };
        let version = header.version.load(Ordering::Relaxed);
        if header.magic.load(Ordering::Relaxed) != MAGIC || version != VERSION {
            return Err(Mismatch::Version(version));
        }
        let capacity = header.capacity.load(Ordering::Acquire);
        let sound = capacity.is_power_of_two() && capacity <= CAPACITY_MAX;
        if header.layout.load(Ordering::Relaxed) != LAYOUT_HASH || !sound {
            return Err(Mismatch::Layout);
        }
        Ok(rings(SharedMemory::map(file, length(capacity), Access::ReadWrite)?, capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::LAP;
    use crate::{Consumer, Producer, Violation};
    use std::os::fd::AsFd;

    #[test]
    fn both_sides_see_one_ring() {
        let (ours, file) = Rings::create(4).unwrap();
        let theirs = Rings::open(file.as_fd()).unwrap();
        let (mut producer, mut consumer) = (Producer::new(ours.events), Consumer::new(theirs.events));
        assert!(consumer.falls_asleep());
        for round in 0..100u64 {
            for number in 0..4 {
                assert_eq!(producer.push([round, number, 0, 1]), Ok(true));
            }
            assert_eq!(producer.push([0; 4]), Ok(false), "full");
            assert_eq!(consumer.pop(), None, "not published");
            producer.publish();
            assert_eq!(producer.must_wake(), round == 0, "a sleeper is woken once");
            for number in 0..4 {
                assert_eq!(consumer.pop(), Some([round, number, 0, 1]));
            }
            assert_eq!(consumer.pop(), None);
            consumer.release();
        }
    }

    #[test]
    fn another_goes_on_with_either_side_of_a_ring() {
        let (ours, file) = Rings::create(4).unwrap();
        let open = || Rings::open(file.as_fd()).unwrap().events;
        let (mut producer, mut consumer) = (Producer::new(ours.events), Consumer::new(open()));
        for number in 0..50u64 {
            for half in [0, 1] {
                assert_eq!(producer.push([number << 16, half, 0, 0]), Ok(true));
            }
            producer.publish();
            producer = Producer::resumed(open(), producer.position(), producer.batches());
            assert_eq!(consumer.pop(), Some([number << 16, 0, 0, 0]));
            consumer = Consumer::resumed(open(), consumer.position());
            assert_eq!(consumer.pop(), Some([number << 16, 1, 0, 0]));
            consumer.release();
            assert!(consumer.falls_asleep());
            assert!(producer.must_wake(), "whether it sleeps was not looked at before");
            assert_eq!(producer.batches(), number + 1);
        }
    }

    /// Overwrites a position as a hostile peer would.
    fn forge(file: BorrowedFd<'_>, at: usize, value: u32) {
        let memory = SharedMemory::map(file, length(4), Access::ReadWrite).unwrap();
        // SAFETY: within the mapping, aligned.
        unsafe { memory.base().add(at).cast::<AtomicU32>().as_ref() }.store(value, Ordering::Relaxed);
    }

    #[test]
    fn lies_about_positions_are_found_or_harmless() {
        for told in [1, 4, 5, u32::MAX, u32::MAX - 3, 1 << 31] {
            let (ours, file) = Rings::create(4).unwrap();
            let mut producer = Producer::new(ours.events);
            // The consumer of events claims to have taken what was never sent.
            forge(file.as_fd(), EVENTS_AT, told);
            for _ in 0..4 {
                assert_eq!(producer.push([7; 4]), Ok(true), "its room was known");
            }
            let outcome = producer.push([7; 4]);
            assert_eq!(outcome.is_err(), told > 4, "{told}: {outcome:?}");
            assert_eq!(outcome.is_err(), outcome == Err(Violation { own: 4, told }));
        }
    }

    /// The same lie told to a producer that believes it: the control of the test above.
    #[test]
    fn a_producer_that_believes_its_consumer_overwrites_what_was_not_taken() {
        let (ours, file) = Rings::create(4).unwrap();
        let theirs = Rings::open(file.as_fd()).unwrap();
        let mut producer = Producer::<_, false>::of(ours.events);
        let mut consumer = Consumer::new(theirs.events);
        // Twice the ring ahead: room for everything.
        forge(file.as_fd(), EVENTS_AT, 8);
        for number in 1..=8 {
            assert_eq!(producer.push([number; 4]), Ok(true));
            producer.publish();
        }
        assert_ne!(consumer.pop(), Some([1; 4]), "the first message is lost, and nobody knows");
    }

    #[test]
    fn a_lap_out_of_turn_is_a_message_taken_once() {
        let (ours, file) = Rings::create(4).unwrap();
        let mut consumer = Consumer::new(ours.commands);
        let slot = |number: usize| EVENTS_AT + ring_length(4) + RING_HEADER_ROOM + number * size_of::<Slot>();
        // Nothing was said before the second; so it is not there.
        forge(file.as_fd(), slot(1), LAP as u32 | 1);
        assert_eq!(consumer.pop(), None);
        forge(file.as_fd(), slot(0), LAP as u32 | 7);
        assert_eq!((consumer.pop(), consumer.pop()), (Some([7, 0, 0, 0]), Some([1, 0, 0, 0])));
        // All slots say that they are there, once round; the next time they would have to say the opposite.
        (0..4).for_each(|number| forge(file.as_fd(), slot(number), LAP as u32));
        assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some([0; 4]), Some([0; 4]), None));
    }

    #[test]
    fn other_builds_are_refused() {
        let (_ours, file) = Rings::create(4).unwrap();
        forge(file.as_fd(), offset_of!(Header, layout), 0);
        assert!(matches!(Rings::open(file.as_fd()), Err(Mismatch::Layout)));
        forge(file.as_fd(), offset_of!(Header, version), 9);
        assert!(matches!(Rings::open(file.as_fd()), Err(Mismatch::Version(9))));
        let plain = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(matches!(Rings::open(plain.as_fd()), Err(Mismatch::System(_))), "not a memory file");
    }
}
