//! A ring of messages from one producer to one consumer, either of which may lie to the other.
//!
//! ```text
//!   RingHeader  | consumer position | consumer sleeps |      a cache line each
//!   slots       | 32 bytes | 32 bytes | …                    a power of two of them
//! ```
//! *A message says itself that it is there*: a bit of its first word, the lap, changes each time round. So there is no
//! producer's position to ask for, and a message costs its own cache line and no other. A batch is published by its first
//! message, whose first word is written last: the consumer, who reads in order, cannot come to the others before.
//!
//! Positions count messages and wrap at 2³². Each side keeps its own to itself; the consumer *tells* its own in batches, and the
//! producer looks there only when it knows of no room: once a time round. What is told is checked: the distance is never more
//! than the ring's size. A producer that lies about laps says messages that mean nothing, each taken once, as if it had said
//! them. Slots are atomics: as cheap as memory, and a peer that writes while we read gives us bytes, not undefined behaviour.
//!
//! *No wake-up is lost*: the consumer says that it sleeps, then looks again; the producer publishes, then looks whether the
//! consumer sleeps. Each has a full fence between the two, so one of them sees the other (checked by `tests/model.rs`). The
//! producer may look a turn later: then its stores have long arrived, and the fence waits for nothing.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Words of a message.
pub const MESSAGE_WORDS: usize = 4;
/// A message as it lies in a slot.
pub type Words = [u64; MESSAGE_WORDS];
/// Largest ring, in messages.
pub const CAPACITY_MAX: u32 = 1 << 16;
/// The bit of a message's first word that is the ring's.
pub const LAP: u64 = 1 << 15;

/// The lap of a message at `position`. A new ring's zeroes are of the lap before the first.
#[inline]
fn lap(position: u32, capacity: u32) -> u64 {
    if position & capacity == 0 { LAP } else { 0 }
}

/// A word on cache lines of its own (two: processors fetch them in pairs).
#[repr(C, align(128))]
pub struct Alone(AtomicU32);

/// What the consumer tells the producer.
#[repr(C)]
pub struct RingHeader {
    consumer: Alone,
    sleeps: Alone,
}

impl RingHeader {
    /// Of an empty ring.
    #[allow(clippy::new_without_default, reason = "made in place, by whoever lays out the memory")]
    pub fn new() -> RingHeader {
        let alone = || Alone(AtomicU32::new(0));
        RingHeader { consumer: alone(), sleeps: alone() }
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a ring position of {told} beside ours of {own}")]
pub struct Violation {
    /// Our position.
    pub own: u32,
    /// What it told.
    pub told: u32,
}

/// The sending side. `CHECKED`: it does not believe the consumer; a test has one that does, to see that it must not.
pub struct Producer<P: Place, const CHECKED: bool = true> {
    place: P,
    /// Messages written.
    position: u32,
    /// Messages told of.
    published: u32,
    /// First word of the first message not yet told of.
    held: u64,
    /// The consumer's position when last looked at.
    consumed: u32,
    /// Whether the consumer sleeps was not looked at since the last telling.
    is_unlooked: bool,
    batches: u64,
}

impl<P: Place> Producer<P> {
    /// Of an empty ring.
    pub fn new(place: P) -> Producer<P> {
        Producer::of(place)
    }
}

impl<P: Place> Producer<P> {
    /// Of a ring that another has written so far, up to `position`, in so many `batches`, all of them published.
    pub fn resumed(place: P, position: u32, batches: u64) -> Producer<P> {
        let consumed = position.wrapping_sub(place.slots().len() as u32);
        // No room is known of, and whether the consumer sleeps neither.
        Producer { place, position, published: position, held: 0, consumed, is_unlooked: true, batches }
    }
}

impl<P: Place, const CHECKED: bool> Producer<P, CHECKED> {
    pub(crate) fn of(place: P) -> Producer<P, CHECKED> {
        Producer { place, position: 0, published: 0, held: 0, consumed: 0, is_unlooked: false, batches: 0 }
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.place.slots().len() as u32
    }

    /// Whether so many messages fit now.
    ///
    /// # Errors
    /// The consumer claims what was never sent.
    #[inline]
    pub fn has_room(&mut self, messages: u32) -> Result<bool, Violation> {
        let room = self.capacity().wrapping_sub(self.position.wrapping_sub(self.consumed));
        Ok(room >= messages || self.look()? >= messages)
    }

    /// Asks the consumer's cache line.
    fn look(&mut self) -> Result<u32, Violation> {
        // Acquire: the consumer has read the slots it gives back.
        let told = self.place.header().consumer.0.load(Ordering::Acquire);
        let waiting = self.position.wrapping_sub(told);
        if CHECKED && waiting > self.capacity() {
            return Err(Violation { own: self.position, told });
        }
        self.consumed = told;
        Ok(self.capacity().wrapping_sub(waiting))
    }

    /// Messages not yet taken, as the consumer tells it now.
    ///
    /// # Errors
    /// As [`has_room`](Producer::has_room).
    pub fn depth(&mut self) -> Result<u32, Violation> {
        Ok(self.capacity().wrapping_sub(self.look()?))
    }

    /// Writes a message; nobody sees it before [`publish`](Producer::publish). False: the ring is full. Of its first word the bit
    /// [`LAP`] is lost.
    ///
    /// # Errors
    /// As [`has_room`](Producer::has_room).
    #[inline]
    pub fn push(&mut self, words: Words) -> Result<bool, Violation> {
        if !self.has_room(1)? {
            return Ok(false);
        }
        let capacity = self.capacity();
        if let Some(slot) = self.place.slots().get((self.position & (capacity - 1)) as usize) {
            let [first, second, third, fourth] = words;
            slot.0[1].store(second, Ordering::Relaxed);
            slot.0[2].store(third, Ordering::Relaxed);
            slot.0[3].store(fourth, Ordering::Relaxed);
            let first = first & !LAP | lap(self.position, capacity);
            if self.position == self.published {
                self.held = first;
            } else {
                // Behind one that is not there yet: nobody comes here.
                slot.0[0].store(first, Ordering::Relaxed);
            }
        }
        self.position = self.position.wrapping_add(1);
        Ok(true)
    }

    /// Messages written since the start, wrapping.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Batches published since the start.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// The consumer's position as of the last look, to wait for messages to be taken. Looks again if `fresh`.
    ///
    /// # Errors
    /// As [`has_room`](Producer::has_room).
    pub fn consumed(&mut self, fresh: bool) -> Result<u32, Violation> {
        if fresh {
            self.look()?;
        }
        Ok(self.consumed)
    }

    /// Tells of what was written. [`must_wake`](Producer::must_wake) is to follow before this side does anything that may take
    /// long.
    #[inline]
    pub fn publish(&mut self) {
        if self.published == self.position {
            return;
        }
        let slots = self.place.slots();
        if let Some(slot) = slots.get((self.published & (slots.len() as u32 - 1)) as usize) {
            // Release: all of the batch is there.
            slot.0[0].store(self.held, Ordering::Release);
        }
        self.published = self.position;
        self.is_unlooked = true;
        self.batches += 1;
    }

    /// Whether the consumer sleeps and is to be woken for what was published. It is said once, to the first that asks.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        if !self.is_unlooked {
            return false;
        }
        self.is_unlooked = false;
        // Between our message and its flag; see the module's text.
        fence(Ordering::SeqCst);
        let sleeps = &self.place.header().sleeps.0;
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

/// The receiving side.
pub struct Consumer<P: Place> {
    place: P,
    /// Messages taken.
    position: u32,
    /// Messages given back.
    released: u32,
}

impl<P: Place> Consumer<P> {
    /// Of an empty ring.
    pub fn new(place: P) -> Consumer<P> {
        Consumer { place, position: 0, released: 0 }
    }

    /// Of a ring that another has read so far, up to `position`.
    pub fn resumed(place: P, position: u32) -> Consumer<P> {
        Consumer { place, position, released: position }
    }

    /// Messages taken since the start, wrapping.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The next message's slot, and its first word if it is there.
    #[inline]
    fn next(&self) -> Option<(&Slot, u64)> {
        let slots = self.place.slots();
        let capacity = slots.len() as u32;
        let slot = slots.get((self.position & (capacity - 1)) as usize)?;
        // Acquire: the rest of the message, and of its batch, was written before.
        let first = slot.0[0].load(Ordering::Acquire);
        (first & LAP == lap(self.position, capacity)).then_some((slot, first & !LAP))
    }

    /// The next message, left where it is: it may be another when it is taken.
    #[inline]
    pub fn peek(&self) -> Option<Words> {
        let (slot, first) = self.next()?;
        let rest = |index: usize| slot.0[index].load(Ordering::Relaxed);
        Some([first, rest(1), rest(2), rest(3)])
    }

    /// Takes the next message, copied out once.
    #[inline]
    pub fn pop(&mut self) -> Option<Words> {
        let (slot, first) = self.next()?;
        let rest = |index: usize| slot.0[index].load(Ordering::Relaxed);
        let words = [first, rest(1), rest(2), rest(3)];
        self.position = self.position.wrapping_add(1);
        // A full ring moves on while a long batch is being read.
        if self.position.wrapping_sub(self.released) >= self.place.slots().len() as u32 / 2 {
            self.release();
        }
        Some(words)
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
        self.place.header().sleeps.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.next().is_none() {
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
