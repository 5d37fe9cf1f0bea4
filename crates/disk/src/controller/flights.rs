//! [`Flights`]: commands that a backend works on.

use super::prp::Segment;
use crate::vsic::Kind;

/// A command that a backend works on.
pub(super) struct Flight {
    /// Its submission queue.
    pub(super) queue: u16,
    /// Its command identifier.
    pub(super) identifier: u16,
    pub(super) kind: Kind,
    /// The backend has the driver's own memory: nothing is to be copied.
    pub(super) is_lent: bool,
    /// A flush of the same backend is to follow.
    pub(super) then_flush: bool,
    pub(super) backend: usize,
    /// Where its data lie in the driver's memory. There is room for the largest transfer from the start.
    pub(super) segments: Vec<Segment>,
    is_used: bool,
}

/// All of them, by number.
pub(super) struct Flights {
    flights: Vec<Flight>,
    free: Vec<u32>,
}

impl Flights {
    /// For so many at once, of so many segments each.
    pub(super) fn new(count: u32, segments_max: usize) -> Flights {
        let flight = || Flight {
            queue: 0,
            identifier: 0,
            kind: Kind::Flush,
            is_lent: false,
            then_flush: false,
            backend: 0,
            segments: Vec::with_capacity(segments_max),
            is_used: false,
        };
        Flights { flights: (0..count).map(|_| flight()).collect(), free: (0..count).rev().collect() }
    }

    /// How many there are.
    pub(super) fn under_way(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Whether the backends have memory of the driver's.
    pub(super) fn is_any_lent(&self) -> bool {
        self.flights.iter().any(|flight| flight.is_used && flight.is_lent)
    }

    /// Whether another can begin.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Begins one.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<(u32, &mut Flight)> {
        let index = self.free.pop()?;
        let flight = self.flights.get_mut(index as usize)?;
        flight.is_used = true;
        Some((index, flight))
    }

    /// One that began and has not ended.
    #[inline]
    pub(super) fn get(&mut self, token: u64) -> Option<&mut Flight> {
        self.flights.get_mut(usize::try_from(token).ok()?).filter(|flight| flight.is_used)
    }

    /// Ends one.
    #[inline]
    pub(super) fn end(&mut self, token: u64) {
        if let Some(flight) = self.get(token) {
            flight.is_used = false;
            flight.segments.clear();
            self.free.push(token as u32);
        }
    }
}
