//! What a bare program takes for the same game: two threads that hand each other cache lines and do nothing else. Below it
//! no placement can be.
//!
//! ```text
//!   linked:  processor 0: a line comes, a line goes             processor 1: the client
//!   split:   processor 0: what comes goes to the service,       processor 1: the client, and the service, turn by turn
//!                         what the service says to the client
//! ```
//! A packet over memif is more than a line: the receiver reads the ring's position, the descriptor, and the two lines of 64
//! bytes with their headers. `Lines::Packet` moves as many; a message of the split placement is one line in either.

use super::scene::Place;
use crate::harness::{HarnessError, cpu};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A power of two: as of a ring.
const SLOTS: usize = 256;
/// A look at the clock is as long as a hop: one in so many.
const ROUNDS: u64 = 64;
/// Some seconds.
const LOOKS_MAX: u32 = 1 << 27;

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// One cache line.
    One,
    /// Four, as memif's.
    Packet,
}

#[repr(align(128))]
struct Alone(AtomicU64);

#[repr(align(64))]
struct Line([AtomicU64; 8]);

impl Line {
    fn empty() -> Line {
        Line(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// One way. A slot is three lines: descriptor and packet.
struct Way {
    position: Alone,
    slots: Vec<[Line; 3]>,
    lines: Lines,
}

impl Way {
    fn new(lines: Lines) -> Way {
        let slots = (0..SLOTS).map(|_| std::array::from_fn(|_| Line::empty())).collect();
        Way { position: Alone(AtomicU64::new(0)), slots, lines }
    }

    /// The `number`th since the start, from 1 on.
    #[inline]
    fn put(&self, number: u64) {
        let slot = &self.slots[number as usize % SLOTS];
        if self.lines == Lines::One {
            return slot[0].0[0].store(number, Ordering::Release);
        }
        for line in slot {
            line.0[0].store(number, Ordering::Relaxed);
        }
        self.position.0.store(number, Ordering::Release);
    }

    /// Whether it is there.
    #[inline]
    fn has(&self, number: u64) -> bool {
        let slot = &self.slots[number as usize % SLOTS];
        if self.lines == Lines::One {
            return slot[0].0[0].load(Ordering::Acquire) == number;
        }
        self.position.0.load(Ordering::Acquire) >= number
            && slot.iter().all(|line| line.0[0].load(Ordering::Relaxed) == number)
    }
}

/// The other end's thread, until it is over.
fn serve(place: Place, [to_server, to_client, events, commands]: [&Way; 4], over: &AtomicBool) {
    let (mut came, mut said) = (1, 1);
    while !over.load(Ordering::Relaxed) {
        if place == Place::Split && commands.has(said) {
            to_client.put(said);
            said += 1;
        }
        if to_server.has(came) {
            if place == Place::Split {
                events.put(came)
            } else {
                to_client.put(came)
            }
            came += 1;
        }
        std::hint::spin_loop();
    }
}

/// The client, and the service of a net core, on one thread.
struct Ends<'a> {
    place: Place,
    ways: [&'a Way; 4],
    sent: u64,
    heard: u64,
}

impl Ends<'_> {
    /// There and back once. False: nothing came back.
    fn round(&mut self) -> bool {
        let [to_server, to_client, events, commands] = self.ways;
        self.sent += 1;
        to_server.put(self.sent);
        for _ in 0..LOOKS_MAX {
            if to_client.has(self.sent) {
                return true;
            }
            if self.place == Place::Split && events.has(self.heard + 1) {
                self.heard += 1;
                commands.put(self.heard);
            }
            std::hint::spin_loop();
        }
        false
    }
}

/// Plays with both ends at their places.
fn play<T: Send>(place: Place, lines: Lines, game: impl FnOnce(&mut Ends<'_>) -> T + Send) -> Result<T, HarnessError> {
    let ways = [Way::new(lines), Way::new(lines), Way::new(Lines::One), Way::new(Lines::One)];
    let (ways, over) = (ways.each_ref(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let server = scope.spawn(|| cpu::pin(0).map(|()| serve(place, ways, &over)));
        let result = cpu::pin(1).map(|()| game(&mut Ends { place, ways, sent: 0, heard: 0 }));
        over.store(true, Ordering::Relaxed);
        server.join().map_err(|_| HarnessError::Child("the floor's thread died".to_owned()))??;
        result
    })
}

/// Round trips, for a while; nanoseconds, each the mean of some.
pub fn ping_pong(place: Place, lines: Lines, duration: Duration) -> Result<Vec<u64>, HarnessError> {
    play(place, lines, |ends| {
        let (mut times, started) = (Vec::new(), Instant::now());
        let mut before = started;
        while before.duration_since(started) < duration && (0..ROUNDS).all(|_| ends.round()) {
            let now = Instant::now();
            times.push(now.duration_since(before).as_nanos() as u64 / ROUNDS);
            before = now;
        }
        times
    })
}

/// The longest of round trips begun every `interval` for a while: how long a thread that only polls is kept from it.
pub fn longest(interval: Duration, duration: Duration) -> Result<Duration, HarnessError> {
    play(Place::Linked, Lines::Packet, |ends| {
        // Until the other thread is where it is to be.
        (0..ROUNDS * ROUNDS).for_each(|_| _ = ends.round());
        let (mut longest, started) = (Duration::ZERO, Instant::now());
        while started.elapsed() < duration {
            let sent = Instant::now();
            ends.round();
            longest = longest.max(sent.elapsed());
            while sent.elapsed() < interval {
                std::hint::spin_loop();
            }
        }
        longest
    })
}
