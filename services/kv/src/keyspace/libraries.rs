//! [`Libraries`]: texts of functions. They are no keys, and FLUSHALL leaves them.

use bytes::Bytes;
use indexmap::IndexMap;

/// What a library costs in a record besides its bytes.
const LIBRARY_BYTES: usize = 16;

/// Libraries by their names. They have places, as keys of a database have.
#[derive(Debug, Default)]
pub struct Libraries {
    texts: IndexMap<Box<[u8]>, Bytes>,
    bytes: usize,
    version: u64,
}

impl Libraries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of their records, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// It is another one after each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A library's text.
    pub fn get(&self, name: &[u8]) -> Option<&Bytes> {
        self.texts.get(name)
    }

    /// The library at a place.
    pub fn at(&self, index: usize) -> Option<(&[u8], &Bytes)> {
        self.texts.get_index(index).map(|(name, text)| (name.as_ref(), text))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Bytes)> {
        self.texts.iter().map(|(name, text)| (name.as_ref(), text))
    }

    /// A library has this text from now on.
    pub fn put(&mut self, name: &[u8], text: &[u8]) {
        self.remove(name);
        self.bytes += LIBRARY_BYTES + name.len() + text.len();
        self.texts.insert(name.into(), Bytes::copy_from_slice(text));
        self.version += 1;
    }

    /// It is gone.
    pub fn remove(&mut self, name: &[u8]) {
        if let Some(text) = self.texts.swap_remove(name) {
            self.bytes -= LIBRARY_BYTES + name.len() + text.len();
            self.version += 1;
        }
    }
}
