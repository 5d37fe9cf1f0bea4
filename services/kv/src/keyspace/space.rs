//! [`Keyspace`]: the databases, what happened to them that is to be written down, and the time.

use crate::keyspace::change::{Change, Decoder, Encoder};
use crate::keyspace::database::{Database, Entry};
use crate::keyspace::dump;
use crate::keyspace::events::{Events, Kinds};
use crate::keyspace::libraries::Libraries;
use crate::keyspace::order::Order;
use crate::keyspace::ready;
use crate::keyspace::shapes::Shapes;
use crate::keyspace::touched::Touched;
use crate::keyspace::usage::Usage;
use crate::keyspace::watch::{Place, Watches};

pub use crate::keyspace::order::DATABASES;

/// Keys looked at in one round of expiry.
const EXPIRE_SAMPLE: usize = 20;
/// Rounds at once, at most.
const EXPIRE_ROUNDS: usize = 16;
/// A record of a checkpoint ends when it has so many bytes.
const RECORD_BYTES: usize = 256 << 10;

/// A checkpoint's walk over all keys: libraries that are not yet written, whose turn it is, and the places of that database that are not yet
/// written, from the last one down.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    libraries: usize,
    turn: u8,
    left: usize,
}

/// All keys. One thread's.
#[derive(Debug, Default)]
pub struct Keyspace {
    databases: [Database; DATABASES as usize],
    /// In which order they are walked.
    order: Order,
    /// Texts of functions.
    pub libraries: Libraries,
    /// The time (Unix, ms), as of this turn.
    pub now_ms: i64,
    /// What has changed since it was cleared last: the next record.
    record: Encoder,
    /// Changes so far.
    pub changes: u64,
    /// Keys that were gone because they expired.
    pub expired: u64,
    /// How the use of keys is noted.
    pub usage: Usage,
    /// Keys that somebody watches.
    pub watches: Watches,
    /// Whether pushes are noted: somebody waits for one.
    pub notes_pushes: bool,
    /// Keys that had something added, or a stream that is gone: who waits for them has to be looked at.
    pub pushed: Vec<Place>,
    /// Keys that have changed, if somebody who caches them wants to know.
    pub touched: Touched,
    /// What has happened to keys, if somebody wants to know.
    pub events: Events,
}

impl Keyspace {
    /// A database. Numbers are judged where they are given, so one that is too large means the first.
    #[inline]
    pub fn database(&self, number: u8) -> &Database {
        let [first, ..] = &self.databases;
        self.databases.get(usize::from(number)).unwrap_or(first)
    }

    /// Up to which sizes collections are small to those who ask.
    pub fn shapes(&self) -> Shapes {
        self.database(0).shapes
    }

    /// The same, from now on.
    pub fn set_shapes(&mut self, shapes: Shapes) {
        self.databases.iter_mut().for_each(|database| database.shapes = shapes);
    }

    /// A key's entry; `None` if there is none, or it has expired.
    #[inline]
    pub fn find(&self, database: u8, key: &[u8]) -> Option<&Entry> {
        self.database(database).get(key).filter(|entry| !self.is_over(entry))
    }

    /// The same, and it is used.
    #[inline]
    pub fn find_and_use(&self, database: u8, key: &[u8]) -> Option<&Entry> {
        let found = self.find(database, key);
        if let Some(entry) = found {
            entry.used.set(self.usage.used(entry.used.get(), self.now_ms));
        }
        found
    }

    /// Whether it has expired.
    #[inline]
    pub fn is_over(&self, entry: &Entry) -> bool {
        entry.expires != 0 && entry.expires <= self.now_ms
    }

    /// Makes a change, and writes it down.
    pub fn change(&mut self, database: u8, change: Change<'_>) {
        self.record.push(database, &change);
        self.changes += 1;
        if matches!(change, Change::PutLibrary { .. } | Change::DeleteLibrary { .. }) {
            return self.apply(database, &change);
        }
        if self.touched.is_wanted {
            self.touched.note(&change);
        }
        if self.events.wants(Kinds::NEW) {
            self.note_new(database, &change);
        }
        let there = |database: u8, key: &[u8]| {
            self.databases.get(usize::from(database)).is_some_and(|all| all.get(key).is_some())
        };
        if let Change::Swap { with } = change {
            self.watches.swapped(database, with, there);
            return self.apply(database, &change);
        }
        self.watches.changed(database, change.key(), |key| there(database, key));
        if self.notes_pushes {
            let Some(keys) = self.databases.get(usize::from(database)) else { return };
            let pushed = &mut self.pushed;
            ready::note(keys, &change, |key| pushed.push((database, key.into())));
        }
        self.apply(database, &change);
    }

    /// Swaps two databases. Numbers that are none change nothing: no such change is made.
    fn swap(&mut self, one: u8, other: u8) {
        if let Ok([first, second]) = self.databases.get_disjoint_mut([one, other].map(usize::from)) {
            std::mem::swap(first, second);
            self.order.swap(one, other);
        }
    }

    /// Applies a change that is written down already.
    pub fn apply(&mut self, database: u8, change: &Change<'_>) {
        match (*change, self.databases.get_mut(usize::from(database))) {
            (Change::PutLibrary { name, text }, _) => self.libraries.put(name, text),
            (Change::DeleteLibrary { name }, _) => self.libraries.remove(name),
            (Change::Swap { with }, _) => self.swap(database, with),
            (_, Some(database)) => {
                (database.born, database.keeps_use) = (self.usage.born(self.now_ms), self.usage.is_lfu);
                database.apply(change);
            }
            (_, None) => {}
        }
    }

    /// A change is going to happen: if it makes the key, that is noted.
    fn note_new(&mut self, database: u8, change: &Change<'_>) {
        let Some(key) = change.key().filter(|_| change.makes() && !self.events.is_replacing) else { return };
        if self.database(database).get(key).is_none() {
            self.events.note(Kinds::NEW, "new", database, key);
        }
    }

    /// Something was taken from a key's value, which may have been the last that it had.
    pub fn note_taken(&mut self, (kind, name): (Kinds, &'static str), database: u8, key: &[u8]) {
        self.events.note(kind, name, database, key);
        if self.events.wants(Kinds::GENERIC) && self.database(database).get(key).is_none() {
            self.events.note(Kinds::GENERIC, "del", database, key);
        }
    }

    /// Makes `key` what `entry` is, whatever it was. It is a new key then.
    pub fn put(&mut self, database: u8, key: &[u8], entry: &Entry) {
        self.events.note(Kinds::NEW, "new", database, key);
        self.events.is_replacing = true;
        dump::changes(key, entry, |change| self.change(database, change));
        self.events.is_replacing = false;
    }

    /// Applies a record; whether it is one.
    pub fn replay(&mut self, record: &[u8]) -> bool {
        let mut changes = Decoder::new(record);
        for (database, change) in changes.by_ref() {
            self.apply(database, &change);
        }
        changes.is_whole()
    }

    /// What has changed since it was taken last.
    pub fn record(&self) -> &[u8] {
        self.record.bytes()
    }

    /// The record was taken.
    pub fn clear_record(&mut self) {
        self.record.clear();
    }

    /// Removes a key if it has expired: before a command that may change it.
    pub fn expire_if_over(&mut self, database: u8, key: &[u8]) {
        if self.database(database).get(key).is_some_and(|entry| self.is_over(entry)) {
            self.expired += 1;
            self.change(database, Change::Delete { key });
            self.events.note(Kinds::EXPIRED, "expired", database, key);
        }
    }

    /// Removes some of what has expired: samples, as long as a quarter of a sample is over, a bounded number of times.
    pub fn expire_some(&mut self, random: &mut fastrand::Rng) {
        for number in 0..DATABASES {
            for _ in 0..EXPIRE_ROUNDS {
                let count = self.database(number).volatile_len();
                if count == 0 {
                    break;
                }
                let mut over = 0;
                for _ in 0..EXPIRE_SAMPLE.min(count) {
                    let database = self.database(number);
                    let index = random.usize(..database.volatile_len().max(1));
                    let Some(key) = database.volatile_at(index) else { break };
                    if database.get(key).is_some_and(|entry| self.is_over(entry)) {
                        let key: Box<[u8]> = key.into();
                        self.expire_if_over(number, &key);
                        over += 1;
                    }
                }
                if over * 4 < EXPIRE_SAMPLE {
                    break;
                }
            }
        }
    }

    /// Bytes that a checkpoint of all keys takes, about.
    pub fn bytes(&self) -> usize {
        self.databases.iter().map(Database::bytes).sum::<usize>() + self.libraries.bytes()
    }

    /// Bytes of memory that all keys take, about.
    pub fn memory(&self) -> usize {
        self.databases.iter().map(Database::memory).sum()
    }

    /// Keys of all databases.
    pub fn len(&self) -> usize {
        self.databases.iter().map(Database::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins to write all keys.
    pub fn walk(&self) -> Walk {
        let turn = DATABASES - 1;
        Walk { libraries: self.libraries.len(), turn, left: self.database(self.order.database(turn)).len() }
    }

    /// Adds the next key to `records`, all of which have to be appended with no other between them; whether there was one.
    pub fn dump_next(&self, walk: &mut Walk, records: &mut Vec<Encoder>) -> bool {
        if let Some(left) = walk.libraries.min(self.libraries.len()).checked_sub(1) {
            walk.libraries = left;
            if let Some((name, text)) = self.libraries.at(left) {
                let mut record = Encoder::default();
                record.push(0, &Change::PutLibrary { name, text });
                records.push(record);
            }
            return true;
        }
        loop {
            let number = self.order.database(walk.turn);
            walk.left = walk.left.min(self.database(number).len());
            if let Some(left) = walk.left.checked_sub(1) {
                walk.left = left;
                if let Some((key, entry)) = self.database(number).at(left) {
                    self.dump_key(number, key, entry, records);
                    return true;
                }
            }
            let Some(turn) = walk.turn.checked_sub(1) else { return false };
            *walk = Walk { libraries: 0, turn, left: self.database(self.order.database(turn)).len() };
        }
    }

    fn dump_key(&self, database: u8, key: &[u8], entry: &Entry, records: &mut Vec<Encoder>) {
        if records.is_empty() {
            records.push(Encoder::default());
        }
        dump::changes(key, entry, |change| {
            if records.last().is_some_and(|record| record.bytes().len() >= RECORD_BYTES) {
                records.push(Encoder::default());
            }
            if let Some(record) = records.last_mut() {
                record.push(database, &change);
            }
        });
    }
}
