//! [`Database`]: keys with what they have, and which of them expire.

use crate::keyspace::change::Change;
use crate::keyspace::memory;
use crate::keyspace::shapes::Shapes;
use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::text::Text;
use crate::keyspace::value::Value;
use indexmap::{IndexMap, IndexSet};
use std::cell::Cell;

/// What a key costs in a record besides its bytes.
const KEY_BYTES: usize = 24;

/// A key's value, and when it expires (Unix, ms; 0: never).
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it has.
    pub value: Value,
    /// When it expires.
    pub expires: i64,
    /// When it was used last, or how often, as [`Usage`](crate::keyspace::usage::Usage) notes it. Reads note it, too.
    pub used: Cell<u32>,
}

impl Entry {
    /// One of which nothing is noted yet: it is no key's so far.
    pub fn new(value: Value, expires: i64) -> Entry {
        Entry { value, expires, used: Cell::default() }
    }
}

/// A database. Keys have places: the newest has the last, and if one is removed, the last one takes its place. Whoever goes from the
/// last place to the first meets every key that is there all the time, however many come and go meanwhile.
#[derive(Debug, Default)]
pub struct Database {
    keys: IndexMap<Box<[u8]>, Entry>,
    /// The place of the key that was looked for last. A command looks for its key several times: whether it has expired, what it has, to
    /// change it. Only the first time is it hashed.
    last: Cell<usize>,
    /// Those that expire.
    volatile: IndexSet<Box<[u8]>>,
    bytes: usize,
    /// Bytes of memory, about.
    memory: usize,
    /// What is noted of the use of a new key.
    pub(super) born: u32,
    /// A string that is replaced was used as often as before, not just now.
    pub(super) keeps_use: bool,
    /// Up to which sizes collections are small.
    pub shapes: Shapes,
}

impl Database {
    /// Keys, those included that have expired and are not gone yet.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys that expire.
    pub fn volatile_len(&self) -> usize {
        self.volatile.len()
    }

    /// Bytes of the records of all keys, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that keys take with all that they have, about.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Bytes of memory that the tables of keys have and do not use, about.
    pub fn spare(&self) -> usize {
        let (free, volatile_free) = (
            self.keys.capacity().saturating_sub(self.keys.len()),
            self.volatile.capacity().saturating_sub(self.volatile.len()),
        );
        let (volatile, all) = memory::of_tables(free, volatile_free);
        volatile + all
    }

    /// A key's entry, expired or not.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.get_index(self.place(key)?).map(|(_, entry)| entry)
    }

    /// The place of a key.
    #[inline]
    fn place(&self, key: &[u8]) -> Option<usize> {
        let last = self.last.get();
        if self.keys.get_index(last).is_some_and(|(known, _)| **known == *key) {
            return Some(last);
        }
        let place = self.keys.get_index_of(key)?;
        self.last.set(place);
        Some(place)
    }

    #[inline]
    fn get_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let place = self.place(key)?;
        self.keys.get_index_mut(place).map(|(_, entry)| entry)
    }

    /// The key at a place.
    pub fn at(&self, index: usize) -> Option<(&[u8], &Entry)> {
        self.keys.get_index(index).map(|(key, entry)| (key.as_ref(), entry))
    }

    /// The key at a place among those that expire.
    pub fn volatile_at(&self, index: usize) -> Option<&[u8]> {
        self.volatile.get_index(index).map(AsRef::as_ref)
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.keys.iter().map(|(key, entry)| (key.as_ref(), entry))
    }

    fn expire(&mut self, key: &[u8], at: i64) {
        let Some(entry) = self.get_mut(key) else { return };
        let before = std::mem::replace(&mut entry.expires, at);
        self.memory = self.memory + memory::of_name(key, at != 0) - memory::of_name(key, before != 0);
        match (before, at) {
            (0, 0) => {}
            (_, 0) => drop(self.volatile.swap_remove(key)),
            (0, _) => drop(self.volatile.insert(key.into())),
            _ => {}
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if let Some((_, entry)) = self.place(key).and_then(|place| self.keys.swap_remove_index(place)) {
            self.bytes -= KEY_BYTES + key.len() + entry.value.bytes();
            self.memory -= memory::of_key(key, &entry.value, entry.expires != 0);
            if entry.expires != 0 {
                self.volatile.swap_remove(key);
            }
        }
    }

    fn put(&mut self, key: &[u8], text: &[u8]) {
        let value = Value::Text(text.into());
        let (keeps_use, born) = (self.keeps_use, self.born);
        match self.get_mut(key) {
            Some(entry) => {
                if !keeps_use {
                    entry.used.set(born);
                }
                let before = std::mem::replace(&mut entry.value, value);
                self.bytes = self.bytes + text.len() - before.bytes();
                self.memory = self.memory + memory::allocated(text.len()) - memory::of_value(&before);
            }
            None => {
                self.keys.insert(key.into(), Entry { value, expires: 0, used: Cell::new(self.born) });
                self.memory += memory::of_name(key, false) + memory::allocated(text.len());
                self.bytes += KEY_BYTES + key.len() + text.len();
            }
        }
    }

    /// Changes a key's value, which is made by `new` if there is none. A collection that has nothing afterwards is removed.
    fn alter(&mut self, key: &[u8], new: Option<fn() -> Value>, alter: impl FnOnce(&mut Value)) {
        let (entry, before) = match (self.place(key).and_then(|place| self.keys.get_index_mut(place)), new) {
            (Some((_, entry)), _) => {
                let before = (entry.value.bytes(), memory::of_value(&entry.value));
                (entry, before)
            }
            (None, None) => return,
            (None, Some(new)) => {
                self.bytes += KEY_BYTES + key.len();
                self.memory += memory::of_name(key, false);
                let entry = Entry { value: new(), expires: 0, used: Cell::new(self.born) };
                (self.keys.entry(key.into()).or_insert(entry), (0, 0))
            }
        };
        alter(&mut entry.value);
        self.bytes = self.bytes + entry.value.bytes() - before.0;
        self.memory = self.memory + memory::of_value(&entry.value) - before.1;
        if entry.value.is_empty() {
            self.delete(key);
        }
    }

    /// Applies a change. One that does not fit what the key has does nothing: it is never made, but recovery may meet it before it
    /// knows the key.
    pub fn apply(&mut self, change: &Change<'_>) {
        match *change {
            Change::Put { key, expires, text } => {
                self.put(key, text);
                self.expire(key, expires);
            }
            Change::Delete { key } => self.delete(key),
            Change::Expire { key, at } => self.expire(key, at),
            Change::Flush => *self = Database { shapes: self.shapes, ..Database::default() },
            Change::Write { key, offset, bytes } => {
                self.alter(key, Some(|| Value::Text(Text::default())), |value| {
                    if let Value::Text(text) = value {
                        text.write(offset, bytes);
                    }
                });
            }
            Change::SetField { key, field, value: text } => {
                let small = self.shapes.hash();
                self.alter(key, Some(|| Value::Hash(Box::default())), |value| {
                    if let Value::Hash(hash) = value {
                        hash.set(field, text, small);
                    }
                });
            }
            Change::DeleteField { key, field } => self.alter(key, None, |value| {
                if let Value::Hash(hash) = value {
                    hash.remove(field);
                }
            }),
            Change::AddMember { key, member } => {
                let small = self.shapes.set();
                self.alter(key, Some(|| Value::Set(Box::default())), |value| {
                    if let Value::Set(set) = value {
                        set.insert(member, small);
                    }
                });
            }
            Change::RemoveMember { key, member } => self.alter(key, None, |value| {
                if let Value::Set(set) = value {
                    set.remove(member);
                }
            }),
            Change::SetScore { key, member, score } => {
                let small = self.shapes.sorted();
                self.alter(key, Some(|| Value::Sorted(Box::default())), |value| {
                    if let Value::Sorted(sorted) = value {
                        sorted.set(member, score, small);
                    }
                });
            }
            Change::RemoveScore { key, member } => self.alter(key, None, |value| {
                if let Value::Sorted(sorted) = value {
                    sorted.remove(member);
                }
            }),
            Change::Stream { key, what } => self.apply_to_stream(key, &what),
            _ => self.apply_to_list(change),
        }
    }

    fn apply_to_stream(&mut self, key: &[u8], what: &StreamChange<'_>) {
        let new: Option<fn() -> Value> = what.makes().then_some(|| Value::Stream(Box::default()));
        self.alter(key, new, |value| {
            if let Value::Stream(stream) = value {
                stream.apply(what);
            }
        });
    }

    fn apply_to_list(&mut self, change: &Change<'_>) {
        let Some(key) = change.key() else { return };
        let new: Option<fn() -> Value> =
            matches!(change, Change::Push { .. }).then_some(|| Value::List(Box::default()));
        self.alter(key, new, |value| {
            let Value::List(list) = value else { return };
            match *change {
                Change::Push { end, element, .. } => list.push(end, element),
                Change::Pop { end, count, .. } => list.pop(end, count),
                Change::Replace { index, element, .. } => list.replace(index, element),
                Change::Insert { index, element, .. } => list.insert(index, element),
                Change::Remove { index, .. } => list.remove(index),
                _ => {}
            }
        });
    }
}
