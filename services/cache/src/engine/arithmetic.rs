//! Counting: `incr` and `decr`.

use super::state::Engine;
use super::storing::{Mode, Store, Stored};
use crate::items::item::Value;
use crate::number;

/// A value longer than this is no number, whatever it begins with: memcached has such in parts.
const NUMBER_BYTES_MAX: usize = 512 << 10;

/// Which way a number goes, and by how much.
#[derive(Clone, Copy, Debug)]
pub struct Delta {
    /// Up, and over the largest number to the smallest; else down, and not below 0.
    pub is_up: bool,
    pub by: u64,
    /// The change that must be the last; 0: any.
    pub cas: u64,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// The number now.
    Yes(u64),
    /// There is none.
    NotFound,
    /// The value is no number.
    NoNumber,
    /// It was changed since.
    Exists,
    /// There is no room.
    NoMemory,
}

impl Engine {
    /// Adds to a number, or takes away from it. A shorter number takes the place of a longer one, with blanks behind it.
    pub fn count(&mut self, key: &[u8], delta: Delta) -> Counted {
        let Some(number) = self.find(key) else {
            match delta.is_up {
                true => self.counts.incr_misses += 1,
                false => self.counts.decr_misses += 1,
            }
            return Counted::NotFound;
        };
        let Some(item) = self.items.get(number) else { return Counted::NotFound };
        if item.value().is_empty() || item.value().len() > NUMBER_BYTES_MAX {
            return Counted::NoNumber;
        }
        if delta.cas != 0 && item.cas != delta.cas {
            return Counted::Exists;
        }
        let Some(before) = number::unsigned_64(item.value()) else { return Counted::NoNumber };
        let now = match delta.is_up {
            true => before.wrapping_add(delta.by),
            false => before.saturating_sub(delta.by),
        };
        match delta.is_up {
            true => self.counts.incr_hits += 1,
            false => self.counts.decr_hits += 1,
        }
        let mut text = itoa::Buffer::new();
        let text = text.format(now).as_bytes();
        let (flags, expires_s, marks) = (item.flags, item.expires_s, item.marks);
        let is_shorter = text.len() <= item.value().len();
        if is_shorter && item.lent().is_none() {
            let cas = self.next_cas();
            self.items.refresh(number, self.clock.now_s());
            if let Some(item) = self.items.get_mut(number) {
                item.overwrite(text);
                item.cas = cas;
            }
            return Counted::Yes(now);
        }
        // What is lent may be on its way: it is not overwritten.
        let blanks = vec![b' '; item.value().len().saturating_sub(text.len())];
        let value = Value::of(key, &[text, &blanks]);
        let is_binary = marks.is_binary;
        let store = Store { mode: Mode::Set, flags, expires_s, cas: 0, may_be_stale: false, is_binary };
        let Stored::Yes(_) = self.store_uncounted(key, value, &store) else { return Counted::NoMemory };
        if is_shorter && let Some(item) = self.items.find(key).and_then(|number| self.items.get_mut(number)) {
            item.marks = marks;
        }
        Counted::Yes(now)
    }
}
