//! [`Touched`]: keys that have changed since those who cache them were told last.

use crate::keyspace::change::Change;

/// See the module.
#[derive(Debug, Default)]
pub struct Touched {
    /// Somebody wants to know. While it is false, nothing is noted.
    pub is_wanted: bool,
    /// Keys, each once if nothing else changed in between. A command's keys are in its record, too, so they are as bounded as that.
    pub keys: Vec<Box<[u8]>>,
    /// All keys of a database are gone, or others.
    pub is_flushed: bool,
}

impl Touched {
    /// A change happens.
    pub fn note(&mut self, change: &Change<'_>) {
        match (change, change.key()) {
            (Change::Flush | Change::Swap { .. }, _) => self.is_flushed = true,
            (_, Some(key)) => self.note_key(key),
            _ => {}
        }
    }

    /// A key is another one than it was.
    pub fn note_key(&mut self, key: &[u8]) {
        // The changes of one key follow each other: a hash's fields, for one.
        if self.keys.last().is_none_or(|last| last.as_ref() != key) {
            self.keys.push(key.into());
        }
    }

    /// Nobody wants to know any more.
    pub fn clear(&mut self) {
        (self.keys, self.is_flushed) = (Vec::new(), false);
    }
}
