//! [`Prefixes`]: which clients want to know of all keys with some prefix.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a prefix, at most.
pub const PREFIX_BYTES_MAX: usize = 1_024;
/// Prefixes of a client, at most.
pub const PREFIXES_MAX: usize = 256;

/// See the module. A key is looked up once for each length that a prefix has, however many prefixes there are.
#[derive(Debug, Default)]
pub struct Prefixes {
    clients: BTreeMap<Box<[u8]>, BTreeSet<usize>>,
    /// How many prefixes have a length.
    lengths: BTreeMap<usize, usize>,
}

impl Prefixes {
    /// A client wants to know of a prefix.
    pub fn add(&mut self, prefix: &[u8], client: usize) {
        if !self.clients.contains_key(prefix) {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        self.clients.entry(prefix.into()).or_default().insert(client);
    }

    /// It does no more.
    pub fn remove(&mut self, prefix: &[u8], client: usize) {
        let Some(clients) = self.clients.get_mut(prefix) else { return };
        clients.remove(&client);
        if !clients.is_empty() {
            return;
        }
        self.clients.remove(prefix);
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// The prefixes that a key has, with who wants to know of each.
    pub fn of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a BTreeSet<usize>)> {
        let lengths = self.lengths.range(..=key.len());
        lengths.filter_map(move |(length, _)| {
            let (prefix, clients) = self.clients.get_key_value(key.get(..*length)?)?;
            Some((prefix.as_ref(), clients))
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Prefixes;

    #[test]
    fn a_key_finds_all_its_prefixes() {
        let mut prefixes = Prefixes::default();
        for (prefix, client) in [("", 1), ("a", 2), ("ab", 3), ("ab", 4), ("b", 5)] {
            prefixes.add(prefix.as_bytes(), client);
        }
        let of = |prefixes: &Prefixes, key: &str| {
            let found: Vec<usize> = prefixes.of(key.as_bytes()).flat_map(|(_, clients)| clients.clone()).collect();
            found
        };
        assert_eq!(of(&prefixes, "abc"), [1, 2, 3, 4]);
        assert_eq!(of(&prefixes, ""), [1]);
        prefixes.remove(b"ab", 3);
        prefixes.remove(b"", 1);
        assert_eq!((of(&prefixes, "abc"), prefixes.len()), (vec![2, 4], 3));
        for (prefix, client) in [("a", 2), ("ab", 4), ("b", 5), ("b", 5)] {
            prefixes.remove(prefix.as_bytes(), client);
        }
        assert!(prefixes.is_empty() && prefixes.lengths.is_empty());
    }
}
