//! [`Table`]: what was said before (RFC 7541, 2.3.2 and 4).

use std::collections::VecDeque;

/// What an entry counts for besides its bytes (RFC 7541, 4.1).
const ENTRY_BYTES: usize = 32;

/// A name and its value, in one piece of memory.
#[derive(Debug)]
struct Entry {
    name_length: usize,
    bytes: Box<[u8]>,
}

impl Entry {
    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_BYTES
    }
}

/// See the module. The newest entry comes first.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
    size: usize,
    size_max: usize,
}

impl Table {
    /// An empty table of so many bytes at most.
    pub(super) fn new(size_max: usize) -> Table {
        Table { entries: VecDeque::new(), size: 0, size_max }
    }

    /// The name and the value at a place, 0 the newest.
    pub(super) fn get(&self, place: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(place)?;
        entry.bytes.split_at_checked(entry.name_length)
    }

    /// Takes in an entry. If it is larger than the table the table is empty afterwards.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let entry = Entry { name_length: name.len(), bytes: [name, value].concat().into() };
        self.shrink(self.size_max.saturating_sub(entry.size()));
        if entry.size() <= self.size_max {
            self.size += entry.size();
            self.entries.push_front(entry);
        }
    }

    /// It has so many bytes at most from now on.
    pub(super) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.shrink(size_max);
    }

    /// Forgets the oldest entries until there are no more than `size` bytes.
    fn shrink(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_way_and_what_is_too_large_leaves_nothing() {
        let mut table = Table::new(100);
        table.insert(b"a", b"1");
        table.insert(b"b", b"2");
        assert_eq!(table.get(1), Some((&b"a"[..], &b"1"[..])));
        table.insert(b"c", b"3");
        assert_eq!((table.get(0), table.get(2)), (Some((&b"c"[..], &b"3"[..])), None));
        assert_eq!(table.size, 68);
        table.set_size_max(40);
        assert_eq!((table.get(0).map(|entry| entry.0), table.get(1)), (Some(&b"c"[..]), None));
        table.insert(b"name", b"a value of some length");
        assert_eq!((table.get(0), table.size), (None, 0));
    }
}
