//! [`struct@Hash`]: fields with values. A small one is packed into one piece of memory, as most hashes are small.

use crate::keyspace::packed::Packed;
use crate::keyspace::shapes::Small;
use crate::keyspace::text::Text;
use bytes::Bytes;
use indexmap::IndexMap;
use std::ops::Deref;

/// What a field costs in a record besides its bytes.
const FIELD_BYTES: usize = 8;

/// A hash. Fields have places, by which it is scanned.
#[derive(Clone, Debug, Default)]
pub struct Hash {
    fields: Fields,
    bytes: usize,
    is_large: bool,
}

type Table = IndexMap<Box<[u8]>, Text>;

/// Once a table, it stays one.
#[derive(Clone, Debug)]
enum Fields {
    Packed(Packed),
    Table(Box<Table>),
}

impl Default for Fields {
    fn default() -> Fields {
        Fields::Packed(Packed::default())
    }
}

impl Fields {
    fn into_table(self) -> Box<Table> {
        match self {
            Fields::Packed(packed) => {
                Box::new(packed.iter().map(|(field, value)| (field.into(), value.into())).collect())
            }
            Fields::Table(table) => table,
        }
    }
}

/// A field's value, where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Slot<'a> {
    /// Among others.
    Packed(&'a [u8]),
    /// By itself.
    Own(&'a Text),
}

impl<'a> Slot<'a> {
    /// The bytes, to be lent, if they are many.
    pub fn lent(&self) -> Option<&'a Bytes> {
        match *self {
            Slot::Packed(_) => None,
            Slot::Own(text) => text.lent(),
        }
    }

    /// The bytes, lent or copied.
    pub fn to_bytes(&self) -> Bytes {
        self.lent().map_or_else(|| Bytes::copy_from_slice(self), Bytes::clone)
    }
}

impl Deref for Slot<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Slot::Packed(bytes) => bytes,
            Slot::Own(text) => text,
        }
    }
}

impl Hash {
    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of its fields and values alone.
    pub fn content_bytes(&self) -> usize {
        self.bytes - FIELD_BYTES * self.len()
    }

    /// The piece of memory that has all of it, in bytes, if it is packed.
    pub fn packed_bytes(&self) -> Option<usize> {
        match &self.fields {
            Fields::Packed(packed) => Some(packed.room()),
            Fields::Table(_) => None,
        }
    }

    /// How many fields.
    pub fn len(&self) -> usize {
        match &self.fields {
            Fields::Packed(packed) => packed.count(),
            Fields::Table(table) => table.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field's value.
    pub fn get(&self, field: &[u8]) -> Option<Slot<'_>> {
        match &self.fields {
            Fields::Packed(packed) => packed.get(field).map(Slot::Packed),
            Fields::Table(table) => table.get(field).map(Slot::Own),
        }
    }

    /// The field at a place. That takes as long as a packed hash has fields, which are few.
    pub fn at(&self, index: usize) -> Option<(&[u8], Slot<'_>)> {
        match &self.fields {
            Fields::Packed(packed) => packed.iter().nth(index).map(|(field, value)| (field, Slot::Packed(value))),
            Fields::Table(table) => table.get_index(index).map(|(field, value)| (field.as_ref(), Slot::Own(value))),
        }
    }

    /// All, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Slot<'_>)> {
        let (packed, table) = match &self.fields {
            Fields::Packed(packed) => (Some(packed), None),
            Fields::Table(table) => (None, Some(table)),
        };
        let packed = packed.into_iter().flat_map(Packed::iter).map(|(field, value)| (field, Slot::Packed(value)));
        let table = table.into_iter().flat_map(|table| table.iter());
        packed.chain(table.map(|(field, value)| (field.as_ref(), Slot::Own(value))))
    }

    /// Sets a field. A hash that is no longer `small` is large from then on.
    pub fn set(&mut self, field: &[u8], value: &[u8], small: Small) {
        self.is_large |= field.len() > small.bytes || value.len() > small.bytes;
        let put = match &mut self.fields {
            Fields::Packed(packed) if !self.is_large => packed.set(field, value),
            _ => None,
        };
        let before = match put {
            Some(before) => before,
            None => {
                let mut table = std::mem::take(&mut self.fields).into_table();
                let before = table.insert(field.into(), value.into());
                self.fields = Fields::Table(table);
                before.map(|before| before.len())
            }
        };
        self.bytes = match before {
            Some(before) => self.bytes + value.len() - before,
            None => self.bytes + FIELD_BYTES + field.len() + value.len(),
        };
        self.is_large |= self.len() > small.entries;
    }

    /// Removes a field. The last one takes its place.
    pub fn remove(&mut self, field: &[u8]) {
        let removed = match &mut self.fields {
            Fields::Packed(packed) => packed.remove(field),
            Fields::Table(table) => table.swap_remove(field).map(|value| value.len()),
        };
        if let Some(length) = removed {
            self.bytes -= FIELD_BYTES + field.len() + length;
        }
    }

    /// As `OBJECT ENCODING` names it.
    pub fn encoding(&self) -> &'static str {
        if self.is_large { "hashtable" } else { "listpack" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = Vec<u8>> {
        (0..60_u8, prop_oneof![8 => 1..12_usize, 1 => 60..70_usize, 1 => 250..260_usize])
            .prop_map(|(number, length)| format!("{number:0length$}").into_bytes())
    }

    proptest! {
        /// Packed or not, it is what a table is, places included.
        #[test]
        fn it_is_a_table_however_it_lies(
            changes in proptest::collection::vec((word(), proptest::option::weighted(0.8, word())), 1..300),
            small in prop_oneof![Just((512, 64)), Just((4, 64)), Just((512, 1_000))],
        ) {
            let small = Small { entries: small.0, bytes: small.1 };
            let (mut hash, mut model) = (Hash::default(), IndexMap::<Vec<u8>, Vec<u8>>::new());
            for (field, value) in changes {
                match value {
                    Some(value) => {
                        hash.set(&field, &value, small);
                        model.insert(field, value);
                    }
                    None => {
                        hash.remove(&field);
                        model.swap_remove(&field);
                    }
                }
                let found: Vec<_> = hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
                let wanted: Vec<_> = model.iter().map(|(field, value)| (field.clone(), value.clone())).collect();
                prop_assert_eq!(&found, &wanted);
                let content: usize = wanted.iter().map(|(field, value)| field.len() + value.len()).sum();
                prop_assert_eq!(hash.content_bytes(), content);
                for (place, (field, value)) in wanted.iter().enumerate() {
                    prop_assert_eq!(hash.get(field).map(|value| value.to_vec()), Some(value.clone()));
                    prop_assert_eq!(hash.at(place).map(|(field, value)| (field, value.to_vec())), Some((&field[..], value.clone())));
                }
                prop_assert!(hash.at(wanted.len()).is_none() && hash.get(b"nosuch").is_none());
            }
        }
    }
}
