//! A hierarchical timing wheel (Varghese and Lauck 1987, scheme 7).
//!
//! ```text
//!  level 0   64 slots of 1 tick        an entry sits on the lowest level whose span covers its distance;
//!  level 1   64 slots of 64 ticks      when the wheel reaches its slot there, it cascades down
//!  …         five levels: 64⁵ ticks (12 days at 1 ms)
//! ```
//! Insert and cancel are O(1); a bitmap per level finds the next busy slot without walking empty ones. An entry never
//! fires before its deadline, and at most one tick after it.

use crate::snapshot;
use qanat_nic::Time;
use serde::{Deserializer, Serializer};

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 5;
const NONE: u32 = u32::MAX;
/// The farthest an entry can be, in ticks; a later deadline is re-inserted when that is reached.
const SPAN_TICKS: u64 = (1 << (SLOT_BITS as u64 * LEVELS as u64)) - 1;

/// Names an entry until it fires or is cancelled; a stale handle cancels nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct WheelHandle {
    entry: u32,
    generation: u32,
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Entry<T> {
    value: T,
    deadline_ns: u64,
    next: u32,
    previous: u32,
    generation: u32,
    /// Level and slot the entry is linked into; `NONE` when free or on the due list.
    place: u32,
}

/// Entries of `T` ordered by deadline, coarsely.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    limit: usize,
    count: usize,
    #[serde(serialize_with = "write_heads", deserialize_with = "read_heads")]
    heads: [[u32; SLOTS]; LEVELS],
    busy: [u64; LEVELS],
    /// Entries that are due and not yet popped.
    due_head: u32,
    due_tail: u32,
    /// Every tick up to and including this one has been collected.
    tick: u64,
    tick_shift: u32,
}

fn write_heads<S: Serializer>(heads: &[[u32; SLOTS]; LEVELS], serializer: S) -> Result<S::Ok, S::Error> {
    snapshot::write_sparse(heads.as_flattened(), |head| *head == NONE, serializer)
}

fn read_heads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[[u32; SLOTS]; LEVELS], D::Error> {
    let all = snapshot::read_sparse(NONE, LEVELS * SLOTS, deserializer)?;
    let mut heads = [[NONE; SLOTS]; LEVELS];
    heads.as_flattened_mut().iter_mut().zip(all).for_each(|(head, read)| *head = read);
    Ok(heads)
}

impl<T: Copy> Wheel<T> {
    /// Whether a wheel that was read from a snapshot is consistent: its lists end, and each entry is in the one it names.
    pub(crate) fn is_sound(&mut self) -> bool {
        if self.limit > 4 * snapshot::OBJECTS_MAX || self.entries.len() > self.limit || self.tick_shift > 32 {
            return false;
        }
        self.entries.reserve_exact(self.limit - self.entries.len());
        let mut is_seen = vec![false; self.entries.len()];
        // `previous` of the first, and what each of a list says of where it is; `None`: free ones, which say nothing.
        let mut walk = |head: u32, place: Option<u32>| -> Option<(u32, usize)> {
            let (mut last, mut index, mut count) = (NONE, head, 0);
            while index != NONE {
                let seen = is_seen.get_mut(index as usize).filter(|seen| !**seen)?;
                *seen = true;
                let entry = self.entries.get(index as usize)?;
                if place.is_some_and(|place| entry.place != place || entry.previous != last) {
                    return None;
                }
                (last, index, count) = (index, entry.next, count + 1);
            }
            Some((last, count))
        };
        let mut waiting = 0;
        for (place, head) in (0u32..).zip(self.heads.as_flattened()) {
            let busy =
                self.busy.get(place as usize / SLOTS).is_some_and(|busy| busy >> (place as usize % SLOTS) & 1 == 1);
            match walk(*head, Some(place)) {
                Some((_, count)) if busy == (count > 0) => waiting += count,
                _ => return false,
            }
        }
        let (Some((tail, due)), Some((_, free))) = (walk(self.due_head, Some(NONE)), walk(self.free, None)) else {
            return false;
        };
        tail == self.due_tail && waiting + due == self.count && self.count + free == self.entries.len()
    }

    /// A wheel of at most `limit` entries whose tick is 2^`tick_shift` nanoseconds, starting at `now`.
    pub fn new(limit: usize, tick_shift: u32, now: Time) -> Wheel<T> {
        Wheel {
            entries: Vec::with_capacity(limit),
            free: NONE,
            limit,
            count: 0,
            heads: [[NONE; SLOTS]; LEVELS],
            busy: [0; LEVELS],
            due_head: NONE,
            due_tail: NONE,
            tick: now.as_nanos() >> tick_shift,
            tick_shift,
        }
    }

    /// Entries waiting.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds `value`, to be popped at `deadline` or up to a tick later; `None` when the wheel is full.
    // Inlined, so that `value` is written in place: read back from the caller's stack it would wait for all older stores.
    #[inline]
    pub fn insert(&mut self, deadline: Time, value: T) -> Option<WheelHandle> {
        let deadline_ns = deadline.as_nanos();
        let index = if self.free != NONE {
            let index = self.free;
            let entry = &mut self.entries[index as usize];
            self.free = entry.next;
            entry.value = value;
            entry.deadline_ns = deadline_ns;
            index
        } else if self.entries.len() < self.limit {
            self.entries.push(Entry { value, deadline_ns, next: NONE, previous: NONE, generation: 0, place: NONE });
            self.entries.len() as u32 - 1
        } else {
            return None;
        };
        self.count += 1;
        self.link(index);
        Some(WheelHandle { entry: index, generation: self.entries[index as usize].generation })
    }

    /// Removes an entry. Gives whether it was still there.
    pub fn cancel(&mut self, handle: WheelHandle) -> bool {
        match self.entries.get(handle.entry as usize) {
            Some(entry) if entry.generation == handle.generation => {}
            _ => return false,
        }
        self.unlink(handle.entry);
        self.release(handle.entry);
        true
    }

    /// The next entry whose deadline is not after `now`.
    pub fn pop_expired(&mut self, now: Time) -> Option<T> {
        self.advance(now);
        let index = self.due_head;
        if index == NONE {
            return None;
        }
        self.unlink(index);
        let value = self.entries[index as usize].value;
        self.release(index);
        Some(value)
    }

    /// When to call [`pop_expired`](Wheel::pop_expired) next: not later than an entry's deadline plus one tick; perhaps
    /// earlier, when only a cascade is due.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.due_head != NONE {
            return Some(Time::from_nanos(self.tick << self.tick_shift));
        }
        self.next_busy_tick().map(|tick| Time::from_nanos(tick << self.tick_shift))
    }

    fn release(&mut self, index: u32) {
        let free = self.free;
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = free;
        self.free = index;
        self.count -= 1;
    }

    /// First tick at which the entry may fire: its deadline rounded up.
    fn tick_of(&self, deadline_ns: u64) -> u64 {
        let mask = (1u64 << self.tick_shift) - 1;
        (deadline_ns >> self.tick_shift) + u64::from(deadline_ns & mask != 0)
    }

    fn link(&mut self, index: u32) {
        let due = self.tick_of(self.entries[index as usize].deadline_ns);
        if due <= self.tick {
            let tail = self.due_tail;
            let entry = &mut self.entries[index as usize];
            entry.place = NONE;
            entry.next = NONE;
            entry.previous = tail;
            if tail == NONE {
                self.due_head = index;
            } else {
                self.entries[tail as usize].next = index;
            }
            self.due_tail = index;
            return;
        }
        let due = due.min(self.tick + SPAN_TICKS);
        // The level is that of the highest digit (base 64) in which the due tick differs from the present one.
        let level = ((63 - (due ^ self.tick).leading_zeros()) / SLOT_BITS).min(LEVELS as u32 - 1) as usize;
        let slot = ((due >> (SLOT_BITS * level as u32)) as usize) & (SLOTS - 1);
        let head = self.heads[level][slot];
        let entry = &mut self.entries[index as usize];
        entry.place = (level * SLOTS + slot) as u32;
        entry.previous = NONE;
        entry.next = head;
        if head != NONE {
            self.entries[head as usize].previous = index;
        }
        self.heads[level][slot] = index;
        self.busy[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let Entry { next, previous, place, .. } = self.entries[index as usize];
        if next != NONE {
            self.entries[next as usize].previous = previous;
        } else if place == NONE {
            self.due_tail = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
        } else if place == NONE {
            self.due_head = next;
        } else {
            let (level, slot) = (place as usize / SLOTS, place as usize % SLOTS);
            self.heads[level][slot] = next;
            if next == NONE {
                self.busy[level] &= !(1 << slot);
            }
        }
    }

    /// The first tick after the present one at which a slot must be emptied or cascaded.
    fn next_busy_tick(&self) -> Option<u64> {
        (0..LEVELS)
            .filter_map(|level| {
                let shift = SLOT_BITS * level as u32;
                let digit = (self.tick >> shift) & (SLOTS as u64 - 1);
                // Entries on a level are always ahead of the present digit, except that the top level may have wrapped.
                let ahead = self.busy[level] & (u64::MAX.checked_shl(digit as u32 + 1).unwrap_or(0));
                let base = self.tick >> shift >> SLOT_BITS << SLOT_BITS;
                if ahead != 0 {
                    return Some((base + u64::from(ahead.trailing_zeros())) << shift);
                }
                let wrapped = self.busy[level];
                (wrapped != 0).then(|| (base + SLOTS as u64 + u64::from(wrapped.trailing_zeros())) << shift)
            })
            .min()
    }

    fn advance(&mut self, now: Time) {
        let target = now.as_nanos() >> self.tick_shift;
        while self.tick < target {
            // Bounded by the number of busy slots: idle stretches are skipped.
            let Some(next) = self.next_busy_tick() else {
                self.tick = target;
                return;
            };
            if next > target {
                self.tick = target;
                return;
            }
            self.tick = next;
            for level in (0..LEVELS).rev() {
                let shift = SLOT_BITS * level as u32;
                if level > 0 && next & ((1 << shift) - 1) != 0 {
                    continue;
                }
                let slot = ((next >> shift) as usize) & (SLOTS - 1);
                let mut index = std::mem::replace(&mut self.heads[level][slot], NONE);
                self.busy[level] &= !(1 << slot);
                while index != NONE {
                    let following = self.entries[index as usize].next;
                    self.link(index);
                    index = following;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const TICK: u32 = 20;

    #[test]
    fn fires_once_and_not_early() {
        let mut wheel = Wheel::new(8, TICK, Time::ZERO);
        wheel.insert(Time::from_millis(50), 'a').unwrap();
        let b = wheel.insert(Time::from_millis(10), 'b').unwrap();
        assert_eq!(wheel.pop_expired(Time::from_millis(9)), None);
        assert!(wheel.cancel(b));
        assert!(!wheel.cancel(b));
        assert_eq!(wheel.pop_expired(Time::from_millis(49)), None);
        assert_eq!(wheel.pop_expired(Time::from_millis(52)), Some('a'));
        assert_eq!(wheel.next_deadline(), None);
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_full_wheel_says_so() {
        let mut wheel = Wheel::new(1, TICK, Time::ZERO);
        assert!(wheel.insert(Time::from_millis(1), ()).is_some());
        assert!(wheel.insert(Time::from_millis(1), ()).is_none());
    }

    proptest! {
        /// Against a sorted list: everything fires, within a tick after its deadline, whatever the steps.
        #[test]
        fn agrees_with_a_list(
            start in 0u64..1 << 50,
            delays in prop::collection::vec(0u64..1 << 42, 1..60),
            cancelled in prop::collection::vec(any::<bool>(), 60),
        ) {
            let start = Time::from_nanos(start);
            let mut wheel = Wheel::new(64, TICK, start);
            let mut expected = Vec::new();
            for (index, delay) in delays.iter().enumerate() {
                let deadline = start + Duration::from_nanos(*delay);
                let handle = wheel.insert(deadline, index).unwrap();
                if cancelled[index] { prop_assert!(wheel.cancel(handle)); } else { expected.push((deadline, index)); }
            }
            let mut fired = Vec::new();
            let mut calls = 0;
            while let Some(deadline) = wheel.next_deadline() {
                calls += 1;
                prop_assert!(calls < 2_000);
                while let Some(index) = wheel.pop_expired(deadline) {
                    let wanted = start + Duration::from_nanos(delays[index]);
                    prop_assert!(deadline >= wanted);
                    prop_assert!(deadline.since(wanted) < Duration::from_nanos(1 << TICK));
                    fired.push(index);
                }
            }
            let mut expected: Vec<usize> = expected.into_iter().map(|(_, index)| index).collect();
            expected.sort_unstable();
            fired.sort_unstable();
            prop_assert_eq!(fired, expected);
            prop_assert!(wheel.is_empty());
        }
    }
}
