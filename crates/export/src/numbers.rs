//! [`Numbers`]: the numbers by which the kernel knows names of a listing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What is known of a number.
#[derive(Debug)]
struct Known {
    name: Arc<[u8]>,
    /// Look-ups that the kernel has not forgotten.
    look_ups: u64,
}

/// Numbers of names, each given once. Of the names that readers have met, so many are known; the oldest are forgotten first. The kernel is
/// told that a forgotten number is stale, and looks the name up again.
#[derive(Debug)]
pub struct Numbers {
    most: usize,
    last: u64,
    names: HashMap<u64, Known>,
    numbers: HashMap<Arc<[u8]>, u64>,
    /// Oldest first; some may be forgotten already.
    ages: VecDeque<u64>,
}

impl Numbers {
    /// At most so many names are known at once.
    pub fn new(most: usize) -> Numbers {
        Numbers { most, last: 0, names: HashMap::new(), numbers: HashMap::new(), ages: VecDeque::new() }
    }

    /// A name's number, from 1 on. It counts as a look-up.
    pub fn number(&mut self, name: &[u8]) -> u64 {
        if let Some(number) = self.numbers.get(name).copied() {
            self.names.entry(number).and_modify(|known| known.look_ups += 1);
            return number;
        }
        while self.names.len() >= self.most
            && let Some(oldest) = self.ages.pop_front()
        {
            self.remove(oldest);
        }
        self.last += 1;
        let name: Arc<[u8]> = name.into();
        self.numbers.insert(Arc::clone(&name), self.last);
        self.names.insert(self.last, Known { name, look_ups: 1 });
        self.ages.push_back(self.last);
        // Without this, names that come and go would leave their numbers behind.
        if self.ages.len() > self.most * 2 {
            let names = &self.names;
            self.ages.retain(|number| names.contains_key(number));
        }
        self.last
    }

    /// The name of a number; `None`: it is forgotten.
    pub fn name(&self, number: u64) -> Option<Arc<[u8]>> {
        self.names.get(&number).map(|known| Arc::clone(&known.name))
    }

    /// The kernel has forgotten so many look-ups of a number.
    pub fn forget(&mut self, number: u64, look_ups: u64) {
        if let Some(known) = self.names.get_mut(&number) {
            known.look_ups = known.look_ups.saturating_sub(look_ups);
            if known.look_ups == 0 {
                self.remove(number);
            }
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(known) = self.names.remove(&number) {
            self.numbers.remove(&known.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_until_it_is_forgotten() {
        let mut numbers = Numbers::new(8);
        assert_eq!((numbers.number(b"a"), numbers.number(b"b"), numbers.number(b"a")), (1, 2, 1));
        numbers.forget(1, 1);
        assert_eq!(numbers.name(1).as_deref(), Some(&b"a"[..]));
        numbers.forget(1, 5);
        assert_eq!(numbers.name(1), None);
        assert_eq!(numbers.number(b"a"), 3);
    }

    #[test]
    fn however_many_names_are_met_few_are_kept() {
        let mut numbers = Numbers::new(100);
        for round in 0..10_000_u32 {
            let number = numbers.number(&round.to_ne_bytes());
            if round % 3 == 0 {
                numbers.forget(number, 1);
            }
            assert!(numbers.names.len() <= 100 && numbers.numbers.len() == numbers.names.len());
            assert!(numbers.ages.len() <= 201);
        }
        assert_eq!(numbers.name(9_999).as_deref(), Some(&9_998_u32.to_ne_bytes()[..]));
        assert_eq!(numbers.name(5), None);
    }
}
