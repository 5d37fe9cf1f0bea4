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

/// The two lengths before a field.
const LENGTHS_BYTES: usize = 2;

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
            let place = start..start + LENGTHS_BYTES + field.len() + value.len();
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

    /// Sets a field: how long its value was, if it was there. `None`: it does not fit, and nothing has changed. Its name or value is
    /// too long, or it is new and there are [`FIELDS_MAX`].
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> Option<Option<usize>> {
        let (of_field, of_value) = (u8::try_from(field.len()).ok()?, u8::try_from(value.len()).ok()?);
        let old = self.find(field).map(|entry| (entry.place, entry.value.len()));
        if old.is_none() && self.count() >= FIELDS_MAX {
            return None;
        }
        match &old {
            None => {
                // Not twice what is needed, as a vector would take: hashes are read more often than they grow.
                self.bytes.reserve_exact(LENGTHS_BYTES + field.len() + value.len());
                self.bytes.extend_from_slice(&[of_field, of_value]);
                self.bytes.extend_from_slice(field);
                self.bytes.extend_from_slice(value);
                self.count += 1;
            }
            Some((place, before)) => {
                self.resize(place.end - before..place.end, value.len());
                if let Some(length) = self.bytes.get_mut(place.start + 1) {
                    *length = of_value;
                }
                let start = place.end - before;
                if let Some(room) = self.bytes.get_mut(start..start + value.len()) {
                    room.copy_from_slice(value);
                }
            }
        }
        Some(old.map(|(_, before)| before))
    }

    /// Makes a place as long as this, by moving what is behind it at once.
    fn resize(&mut self, place: Range<usize>, length: usize) {
        let before = self.bytes.len();
        if let Some(more) = length.checked_sub(place.len()) {
            self.bytes.reserve_exact(more);
            self.bytes.resize(before + more, 0);
            self.bytes.copy_within(place.end..before, place.end + more);
        } else {
            self.bytes.drain(place.start + length..place.end);
        }
    }

    /// Removes a field; the last one takes its place. How long its value was.
    pub fn remove(&mut self, field: &[u8]) -> Option<usize> {
        let (place, length) = self.find(field).map(|entry| (entry.place, entry.value.len()))?;
        let last = self.entries().last().map(|entry| entry.place)?;
        if let Some(tail) = self.bytes.get_mut(place.start..).filter(|_| place != last) {
            tail.rotate_right(last.len());
            self.bytes.drain(place.start + last.len()..place.end + last.len());
        } else {
            self.bytes.truncate(last.start);
        }
        self.count -= 1;
        Some(length)
    }
}
