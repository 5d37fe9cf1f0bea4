//! A ring of messages from one producer to one consumer, either of which may lie to the other.
//!
//! ```text
//!   RingHeader  | producer position | consumer position | consumer sleeps |     a cache line each
//!   slots       | 32 bytes | 32 bytes | …                                       a power of two of them
//! ```
//! Positions count messages and wrap at 2³². Each side keeps its own position to itself and only *tells* it to the other, in
//! batches; what the other tells is checked against it: the distance is never more than the ring's size, so no lie makes a
//! loop longer or reads a slot twice. Slots are atomics read and written relaxed: as cheap as memory, and a peer that writes
//! while we read gives us bytes, not undefined behaviour.
//!
//! *No wake-up is lost*: the consumer says that it sleeps, then looks again; the producer publishes, then looks whether the
//! consumer sleeps. Each has a full fence between the two, so one of them sees the other (checked by `tests/model.rs`).

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Words of a message.
pub const MESSAGE_WORDS: usize = 4;
/// A message as it lies in a slot.
pub type Words = [u64; MESSAGE_WORDS];
/// Largest ring, in messages.
pub const CAPACITY_MAX: u32 = 1 << 16;

/// A word on cache lines of its own (two: processors fetch them in pairs).
#[repr(C, align(128))]
pub struct Alone(AtomicU32);

/// What the two sides tell each other.
#[repr(C)]
pub struct RingHeader {
    producer: Alone,
    consumer: Alone,
    sleeps: Alone,
}

impl RingHeader {
    /// Of an empty ring.
    #[allow(clippy::new_without_default, reason = "made in place, by whoever lays out the memory")]
    pub fn new() -> RingHeader {
        let alone = || Alone(AtomicU32::new(0));
        RingHeader { producer: alone(), consumer: alone(), sleeps: alone() }
    }
}

/// One message.
#[repr(C, align(32))]
pub struct Slot([AtomicU64; MESSAGE_WORDS]);

impl Slot {
    /// A slot of zeroes.
    #[allow(clippy::new_without_default, reason = "as above")]
    pub fn new() -> Slot {
        Slot(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Where a ring is. Its slots are a power of two, at most [`CAPACITY_MAX`].
pub trait Place {
    /// Its positions.
    fn header(&self) -> &RingHeader;
    /// Its slots.
    fn slots(&self) -> &[Slot];
}

/// The other side told a position that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Our position.
    pub own: u32,
    /// What it told.
    pub told: u32,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a ring position of {} beside ours of {}", self.told, self.own)
    }
}

impl std::error::Error for Violation {}

/// The sending side.
pub struct Producer<P: Place> {
    place: P,
    /// Messages written.
    position: u32,
    /// Messages told of.
    published: u32,
    /// The consumer's position when last looked at.
    consumed: u32,
}

impl<P: Place> Producer<P> {
    /// Of an empty ring.
    pub fn new(place: P) -> Producer<P> {
        Producer { place, position: 0, published: 0, consumed: 0 }
    }

    fn capacity(&self) -> u32 {
        self.place.slots().len() as u32
    }

    /// Messages that surely fit now.
    ///
    /// # Errors
    /// The consumer claims what was never sent.
    #[inline]
    pub fn room(&mut self) -> Result<u32, Violation> {
        let room = self.capacity() - self.position.wrapping_sub(self.consumed);
        if room > 0 { Ok(room) } else { self.look() }
    }

    /// Asks the consumer's cache line.
    fn look(&mut self) -> Result<u32, Violation> {
        // Acquire: the consumer has read the slots it gives back.
        let told = self.place.header().consumer.0.load(Ordering::Acquire);
        let waiting = self.position.wrapping_sub(told);
        if waiting > self.capacity() {
            return Err(Violation { own: self.position, told });
        }
        self.consumed = told;
        Ok(self.capacity() - waiting)
    }

    /// Messages not yet taken, as the consumer tells it now.
    ///
    /// # Errors
    /// As [`room`](Producer::room).
    pub fn depth(&mut self) -> Result<u32, Violation> {
        Ok(self.capacity() - self.look()?)
    }

    /// Writes a message; nobody sees it before [`publish`](Producer::publish). False: the ring is full.
    ///
    /// # Errors
    /// As [`room`](Producer::room).
    #[inline]
    pub fn push(&mut self, words: Words) -> Result<bool, Violation> {
        if self.room()? == 0 {
            return Ok(false);
        }
        let mask = self.capacity() - 1;
        if let Some(slot) = self.place.slots().get((self.position & mask) as usize) {
            for (target, word) in slot.0.iter().zip(words) {
                target.store(word, Ordering::Relaxed);
            }
        }
        self.position = self.position.wrapping_add(1);
        Ok(true)
    }

    /// Messages written since the start, wrapping.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The consumer's position as of the last look, for who waits for messages to be taken. Looks again if `fresh`.
    ///
    /// # Errors
    /// As [`room`](Producer::room).
    pub fn consumed(&mut self, fresh: bool) -> Result<u32, Violation> {
        if fresh {
            self.look()?;
        }
        Ok(self.consumed)
    }

    /// Tells of what was written. True: the consumer sleeps, wake it (said once to whoever asks first).
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.published == self.position {
            return false;
        }
        self.published = self.position;
        let header = self.place.header();
        header.producer.0.store(self.position, Ordering::Release);
        // Between our position and its flag; see the module's text.
        fence(Ordering::SeqCst);
        header.sleeps.0.load(Ordering::Relaxed) != 0 && header.sleeps.0.swap(0, Ordering::Relaxed) != 0
    }
}

/// The receiving side.
pub struct Consumer<P: Place> {
    place: P,
    /// Messages taken.
    position: u32,
    /// Messages given back.
    released: u32,
    /// The producer's position when last looked at.
    produced: u32,
}

impl<P: Place> Consumer<P> {
    /// Of an empty ring.
    pub fn new(place: P) -> Consumer<P> {
        Consumer { place, position: 0, released: 0, produced: 0 }
    }

    /// Takes the next message, copied out once.
    ///
    /// # Errors
    /// The producer claims more than fits.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<Words>, Violation> {
        let slots = self.place.slots();
        let capacity = slots.len() as u32;
        if self.produced == self.position {
            // Acquire: the producer has written the slots it tells of.
            let told = self.place.header().producer.0.load(Ordering::Acquire);
            if told.wrapping_sub(self.position) > capacity {
                return Err(Violation { own: self.position, told });
            }
            self.produced = told;
            if told == self.position {
                return Ok(None);
            }
        }
        let Some(slot) = slots.get((self.position & (capacity - 1)) as usize) else { return Ok(None) };
        let words = std::array::from_fn(|index| slot.0[index].load(Ordering::Relaxed));
        self.position = self.position.wrapping_add(1);
        // A full ring moves on while a long batch is being read.
        if self.position.wrapping_sub(self.released) >= capacity / 2 {
            self.release();
        }
        Ok(Some(words))
    }

    /// Gives the slots of taken messages back.
    #[inline]
    pub fn release(&mut self) {
        if self.released != self.position {
            self.released = self.position;
            self.place.header().consumer.0.store(self.position, Ordering::Release);
        }
    }

    /// Says that this side goes to sleep, and looks a last time: true if there is nothing to take, so it may.
    pub fn falls_asleep(&mut self) -> bool {
        self.release();
        let header = self.place.header();
        header.sleeps.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // An impossible position is found by the next `pop`: it is something to take, too.
        if header.producer.0.load(Ordering::Acquire) == self.position {
            return true;
        }
        self.wakes();
        false
    }

    /// Says that this side is awake.
    pub fn wakes(&self) {
        self.place.header().sleeps.0.store(0, Ordering::Relaxed);
    }
}
