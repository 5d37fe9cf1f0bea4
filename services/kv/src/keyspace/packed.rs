//! [`Packed`]: fields with values in one piece of memory, one after the other:
//!
//! ```text
//! ┌───────────────────┬───────────────────┬───────┬───────┬───
//! │ length of a field │ length of a value │ field │ value │ …      lengths are one byte each
//! └───────────────────┴───────────────────┴───────┴───────┴───
//! ```

use std::ops::Range;

/// Fields at most. Whoever looks for one looks at all before it.
pub const FIELDS_MAX: usize = 128;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Packed {
    bytes: Vec<u8>,
    count: u8,
}

/// A field, and where it lies with its value.
struct Entry<'a> {
    field: &'a [u8],
    value: &'a [u8],
    place: Range<usize>,
}

impl Packed {
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let rest = self.bytes.get(start..)?;
            let ([of_field, of_value], content) = rest.split_first_chunk::<2>()?;
            let (field, content) = content.split_at_checked(usize::from(*of_field))?;
            let value = content.get(..usize::from(*of_value))?;
            let place = start..start + 2 + field.len() + value.len();
            start = place.end;
            Some(Entry { field, value, place })
        })
    }

    /// All, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries().map(|entry| (entry.field, entry.value))
    }

    /// How many.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Bytes of memory that it has taken.
    pub fn room(&self) -> usize {
        self.bytes.capacity()
    }

    fn find(&self, field: &[u8]) -> Option<Entry<'_>> {
        self.entries().find(|entry| entry.field == field)
    }

    /// A field's value.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.find(field).map(|entry| entry.value)
    }

    /// Sets a field. `false`: its name or value is too long for this, and nothing has changed. There are to be fewer than
    /// [`FIELDS_MAX`], if it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let (Ok(of_field), Ok(of_value)) = (u8::try_from(field.len()), u8::try_from(value.len())) else { return false };
        let old = self.find(field).map(|entry| entry.place);
        if old.is_none() {
            self.count += 1;
        }
        let place = old.unwrap_or(self.bytes.len()..self.bytes.len());
        // Not twice what is needed, as a vector would take: hashes are read more often than they grow.
        let more = (2 + field.len() + value.len()).saturating_sub(place.len());
        self.bytes.reserve_exact(more);
        self.bytes
            .splice(place, [of_field, of_value].into_iter().chain(field.iter().copied()).chain(value.iter().copied()));
        true
    }

    /// Removes a field; the last one takes its place. How long its value was.
    pub fn remove(&mut self, field: &[u8]) -> Option<usize> {
        let (place, length) = self.find(field).map(|entry| (entry.place, entry.value.len()))?;
        let last = self.entries().last().map(|entry| entry.place)?;
        let moved = self.bytes.split_off(last.start);
        if place != last {
            self.bytes.splice(place, moved);
        }
        self.count -= 1;
        Some(length)
    }
}
