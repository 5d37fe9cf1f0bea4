//! The service's timers: its own process's affair.

use qanat_api::{CommandError, TimerId};
use qanat_nic::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const TIMERS_MAX: usize = 65_536;

struct Slot {
    generation: u32,
    token: Option<u64>,
}

/// Timers by deadline. A cancelled one stays in the heap until it is due.
#[derive(Default)]
pub(crate) struct Timers {
    due: BinaryHeap<Reverse<(Time, u32, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Timers {
    pub(crate) fn set(&mut self, now: Time, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        if self.due.len() >= TIMERS_MAX {
            return Err(CommandError::Full);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, token: None });
            self.slots.len() as u32 - 1
        });
        let place = self.slots.get_mut(slot as usize).ok_or(CommandError::Full)?;
        place.token = Some(token);
        self.due.push(Reverse((now + after, slot, place.generation)));
        Ok(TimerId::new(slot, place.generation))
    }

    pub(crate) fn cancel(&mut self, timer: TimerId) -> bool {
        self.take(timer.index() as u32, timer.generation()).is_some()
    }

    fn take(&mut self, slot: u32, generation: u32) -> Option<u64> {
        let place = self.slots.get_mut(slot as usize).filter(|place| place.generation == generation)?;
        let token = place.token.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        Some(token)
    }

    /// The next timer that is due.
    pub(crate) fn expired(&mut self, now: Time) -> Option<(TimerId, u64)> {
        while let Some(Reverse((at, slot, generation))) = self.due.peek().copied() {
            if at > now {
                return None;
            }
            self.due.pop();
            if let Some(token) = self.take(slot, generation) {
                return Some((TimerId::new(slot, generation), token));
            }
        }
        None
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_once() {
        let mut timers = Timers::default();
        let at = |ms| Time::from_millis(ms);
        let late = timers.set(at(0), Duration::from_millis(20), 2).unwrap();
        let soon = timers.set(at(0), Duration::from_millis(10), 1).unwrap();
        let never = timers.set(at(0), Duration::from_millis(15), 3).unwrap();
        assert!(timers.cancel(never) && !timers.cancel(never));
        assert_eq!(timers.expired(at(9)), None);
        assert_eq!(timers.expired(at(30)), Some((soon, 1)));
        let again = timers.set(at(30), Duration::ZERO, 4).unwrap();
        assert_ne!(again, never, "a slot's next timer is another");
        assert_eq!(timers.expired(at(30)), Some((late, 2)));
        assert_eq!(timers.expired(at(30)), Some((again, 4)));
        assert_eq!((timers.expired(at(99)), timers.next_deadline()), (None, None));
    }
}
