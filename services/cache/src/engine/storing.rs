//! Storing values.

use super::state::Engine;
use crate::items::item::{Marks, Value, nominal_bytes};
use crate::items::store::New;

/// When a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Whatever is there.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind the one that is there.
    Append,
    /// Before it.
    Prepend,
    /// If it was not changed.
    Cas,
}

/// What is to be stored besides the value.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    pub mode: Mode,
    pub flags: u32,
    pub expires_s: u32,
    /// The change that must be the last; 0: any.
    pub cas: u64,
    /// A change that is older may store its value, which is stale then.
    pub may_be_stale: bool,
    /// The key came in base64.
    pub is_binary: bool,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// It is stored, by this change.
    Yes(u64),
    /// The mode's condition does not hold.
    No,
    /// It was changed since.
    Exists,
    /// There is none to change.
    NotFound,
    /// There is no room.
    NoMemory,
}

/// What has become of the item that was there, for the one that takes its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Same,
    Older,
    Other,
    NotAsked,
}

impl Engine {
    fn may_be_so_large(&self, key: usize, value: usize, flags: u32) -> bool {
        nominal_bytes(key, value, flags) <= self.settings.item_max
    }

    /// Whether a value of this length may come for a key. If it is too long and was to take the place of the one that is there
    /// (`replaces`), that one goes.
    pub fn admits(&mut self, key: &[u8], length: usize, flags: u32, replaces: bool) -> bool {
        let is_admitted = self.may_be_so_large(key.len(), length, flags);
        if !is_admitted {
            self.counts.store_too_large += 1;
            if replaces {
                self.forget(key);
            }
        }
        is_admitted
    }

    /// A value that cannot be stored takes the old one with it: a client that is told of an error must not read what was before.
    fn forget(&mut self, key: &[u8]) {
        if let Some(number) = self.items.find(key) {
            self.items.remove(number);
        }
    }

    /// Stores a value that a client has sent.
    pub fn store_sent(&mut self, key: &[u8], value: Value, store: &Store) -> Stored {
        let stored = self.store(key, value, store);
        if stored == Stored::NoMemory && store.mode == Mode::Set {
            self.forget(key);
        }
        stored
    }

    /// Stores a value.
    pub fn store(&mut self, key: &[u8], value: Value, store: &Store) -> Stored {
        self.counts.set_commands += 1;
        let stored = self.store_uncounted(key, value, store);
        self.counts.stored += u64::from(matches!(stored, Stored::Yes(_)));
        stored
    }

    /// The same, of a number that was counted up: that is no `set`.
    pub(super) fn store_uncounted(&mut self, key: &[u8], value: Value, store: &Store) -> Stored {
        // Before the item that is there is looked for: it may be the one that goes.
        if !self.items.make_room(value.cost()) {
            self.counts.store_no_memory += 1;
            return Stored::NoMemory;
        }
        let Some(number) = self.find(key) else {
            return match store.mode {
                Mode::Set | Mode::Add => self.put(key, value, store.flags, store.expires_s, Marks::default(), store),
                Mode::Cas => {
                    self.counts.cas_misses += 1;
                    Stored::NotFound
                }
                Mode::Replace | Mode::Append | Mode::Prepend => Stored::No,
            };
        };
        let Some(old) = self.items.get(number) else { return Stored::No };
        let relation = match store.cas {
            0 => Relation::NotAsked,
            cas if cas == old.cas => Relation::Same,
            cas if store.may_be_stale && cas < old.cas => Relation::Older,
            _ => Relation::Other,
        };
        let (flags, expires_s, marks) = (old.flags, old.expires_s, old.marks);
        match (store.mode, relation) {
            (Mode::Add, _) => {
                self.items.refresh(number, self.clock.now_s());
                Stored::No
            }
            (Mode::Cas, Relation::Same) => {
                self.counts.cas_hits += 1;
                self.exchange(number, key, value, (store.flags, store.expires_s, Marks::default()), store)
            }
            (Mode::Cas, Relation::Older) => {
                self.counts.cas_hits += 1;
                let marks = Marks { is_stale: true, is_won: marks.is_won, ..Marks::default() };
                self.exchange(number, key, value, (store.flags, expires_s, marks), store)
            }
            (Mode::Cas, _) => {
                self.counts.cas_badval += 1;
                Stored::Exists
            }
            (Mode::Append | Mode::Prepend, Relation::Older | Relation::Other) => Stored::Exists,
            (Mode::Append | Mode::Prepend, _) => self.extend(number, key, &value, store, (flags, expires_s)),
            (Mode::Set | Mode::Replace, _) => {
                self.exchange(number, key, value, (store.flags, store.expires_s, Marks::default()), store)
            }
        }
    }

    /// A value that is longer than the one that is there.
    fn extend(&mut self, number: u32, key: &[u8], value: &Value, store: &Store, kept: (u32, u32)) -> Stored {
        let Some(old) = self.items.get(number) else { return Stored::No };
        let added = match value {
            Value::Small(bytes) => bytes.get(key.len()..).unwrap_or_default(),
            Value::Large(bytes) => bytes,
        };
        if !self.may_be_so_large(key.len(), old.value().len() + added.len(), kept.0) {
            return Stored::No;
        }
        let value = match store.mode {
            Mode::Append => Value::of(key, &[old.value(), added]),
            _ => Value::of(key, &[added, old.value()]),
        };
        // For the new one, while the old one is there. It may be the one that goes, and then it has served.
        if !self.items.make_room(value.cost()) {
            return Stored::No;
        }
        self.forget(key);
        self.put(key, value, kept.0, kept.1, Marks::default(), store)
    }

    fn exchange(&mut self, number: u32, key: &[u8], value: Value, kept: (u32, u32, Marks), store: &Store) -> Stored {
        self.items.remove(number);
        self.put(key, value, kept.0, kept.1, kept.2, store)
    }

    fn put(&mut self, key: &[u8], value: Value, flags: u32, expires_s: u32, marks: Marks, store: &Store) -> Stored {
        let cas = self.next_cas();
        let number = self.items.insert(key, New { value, flags, expires_s, cas, used_s: self.clock.now_s() });
        if let Some(item) = self.items.get_mut(number) {
            item.marks = Marks { is_binary: store.is_binary, ..marks };
        }
        Stored::Yes(cas)
    }
}
