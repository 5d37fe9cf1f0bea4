//! [`struct@Hash`]: fields with values.

use crate::keyspace::shapes::Small;
use bytes::Bytes;
use indexmap::IndexMap;

/// What a field costs in a record besides its bytes.
const FIELD_BYTES: usize = 8;

/// A hash. Fields have places, by which it is scanned.
#[derive(Clone, Debug, Default)]
pub struct Hash {
    fields: IndexMap<Box<[u8]>, Bytes>,
    bytes: usize,
    is_large: bool,
}

impl Hash {
    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of its fields and values alone.
    pub fn content_bytes(&self) -> usize {
        self.bytes - FIELD_BYTES * self.fields.len()
    }

    /// How many fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field's value.
    pub fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.fields.get(field)
    }

    /// The field at a place.
    pub fn at(&self, index: usize) -> Option<(&[u8], &Bytes)> {
        self.fields.get_index(index).map(|(field, value)| (field.as_ref(), value))
    }

    /// All, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Bytes)> {
        self.fields.iter().map(|(field, value)| (field.as_ref(), value))
    }

    /// Sets a field. A hash that is no longer `small` is large from then on.
    pub fn set(&mut self, field: &[u8], value: &[u8], small: Small) {
        let of_new = value.len();
        self.is_large |= field.len() > small.bytes || of_new > small.bytes;
        let value = Bytes::copy_from_slice(value);
        match self.fields.get_mut(field) {
            Some(old) => self.bytes = self.bytes + of_new - std::mem::replace(old, value).len(),
            None => {
                self.fields.insert(field.into(), value);
                self.bytes += FIELD_BYTES + field.len() + of_new;
            }
        }
        self.is_large |= self.fields.len() > small.entries;
    }

    /// Removes a field. The last one takes its place.
    pub fn remove(&mut self, field: &[u8]) {
        if let Some(value) = self.fields.swap_remove(field) {
            self.bytes -= FIELD_BYTES + field.len() + value.len();
        }
    }

    /// As `OBJECT ENCODING` names it.
    pub fn encoding(&self) -> &'static str {
        if self.is_large { "hashtable" } else { "listpack" }
    }
}
