//! [`Table`]: which clients have read which key. A key is of no database here, as with Redis.

use indexmap::IndexMap;

/// Bytes of all keys with their readers, at most, about.
const BYTES_MAX: usize = 256 << 20;
/// What a key takes besides its bytes, and what a reader takes, about.
const KEY_BYTES: usize = 96;
const READER_BYTES: usize = 16;

/// A client: its slot, and its number. Whoever has the slot later has another number.
pub type Reader = (usize, u64);

/// See the module.
#[derive(Debug, Default)]
pub struct Table {
    /// Readers are in the order of their slots.
    keys: IndexMap<Box<[u8]>, Vec<Reader>>,
    readers: usize,
    bytes: usize,
}

impl Table {
    /// A client has read a key; whether that was not known.
    pub fn add(&mut self, key: &[u8], reader: Reader) -> bool {
        let readers = match self.keys.get_mut(key) {
            Some(readers) => readers,
            None => {
                self.bytes += KEY_BYTES + key.len();
                self.keys.entry(key.into()).or_default()
            }
        };
        let place = readers.partition_point(|(slot, _)| *slot < reader.0);
        match readers.get_mut(place).filter(|(slot, _)| *slot == reader.0) {
            Some(there) => std::mem::replace(there, reader).1 != reader.1,
            None => {
                readers.insert(place, reader);
                self.readers += 1;
                self.bytes += READER_BYTES;
                true
            }
        }
    }

    fn gone(&mut self, key: usize, readers: usize) {
        self.readers -= readers;
        self.bytes -= KEY_BYTES + key + READER_BYTES * readers;
    }

    /// Takes a key; who has read it.
    pub fn take(&mut self, key: &[u8]) -> Option<Vec<Reader>> {
        let readers = self.keys.swap_remove(key)?;
        self.gone(key.len(), readers.len());
        Some(readers)
    }

    /// Whether it is known that a client has read a key.
    pub fn is_reader(&self, key: &[u8], reader: Reader) -> bool {
        self.keys.get(key).is_some_and(|readers| readers.binary_search(&reader).is_ok())
    }

    /// Takes any key, if there are more than `keys_max` (0: any number), or if they take too much memory.
    pub fn take_surplus(&mut self, keys_max: usize, random: &mut fastrand::Rng) -> Option<(Box<[u8]>, Vec<Reader>)> {
        let is_over = keys_max > 0 && self.keys.len() > keys_max || self.bytes > BYTES_MAX;
        if !is_over || self.keys.is_empty() {
            return None;
        }
        let (key, readers) = self.keys.swap_remove_index(random.usize(..self.keys.len()))?;
        self.gone(key.len(), readers.len());
        Some((key, readers))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Table::default();
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many readers all keys have.
    pub fn readers(&self) -> usize {
        self.readers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_counted_and_given_back() {
        let mut table = Table::default();
        assert!(table.add(b"a", (3, 30)) && table.add(b"a", (1, 10)) && !table.add(b"a", (3, 30)));
        // Somebody else has the slot.
        assert!(table.add(b"a", (3, 31)) && table.add(b"b", (2, 20)));
        assert_eq!((table.len(), table.readers()), (2, 3));
        assert_eq!(table.take(b"a"), Some(vec![(1, 10), (3, 31)]));
        assert_eq!(table.take(b"a"), None);
        let mut random = fastrand::Rng::with_seed(1);
        assert!(table.add(b"c", (2, 20)) && table.take_surplus(2, &mut random).is_none());
        assert!(table.take_surplus(0, &mut random).is_none());
        assert!(table.take_surplus(1, &mut random).is_some() && table.len() == 1);
        let left = table.keys.get_index(0).unwrap().0.clone();
        table.take(&left);
        assert_eq!((table.readers, table.bytes), (0, 0));
    }
}
