//! [`Keyspace`]: the databases, what happened to them that is to be written down, and the time.

use crate::keyspace::change::{Change, Decoder, Encoder};
use crate::keyspace::database::{Database, Entry};
use crate::keyspace::dump;
use crate::keyspace::shapes::Shapes;
use crate::keyspace::watch::{Place, Watches};

/// How many databases there are.
pub const DATABASES: u8 = 16;
/// Keys looked at in one round of expiry.
const EXPIRE_SAMPLE: usize = 20;
/// Rounds at once, at most.
const EXPIRE_ROUNDS: usize = 16;
/// A record of a checkpoint ends when it has so many bytes.
const RECORD_BYTES: usize = 256 << 10;

/// A checkpoint's walk over all keys: the database, and the places that are not yet written, from the last one down.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    database: u8,
    left: usize,
}

/// All keys. One thread's.
#[derive(Debug, Default)]
pub struct Keyspace {
    databases: [Database; DATABASES as usize],
    /// The time (Unix, ms), as of this turn.
    pub now_ms: i64,
    /// What has changed since it was cleared last: the next record.
    record: Encoder,
    /// Changes so far.
    pub changes: u64,
    /// Keys that were gone because they expired.
    pub expired: u64,
    /// Keys that somebody watches.
    pub watches: Watches,
    /// Whether pushes are noted: somebody waits for one.
    pub notes_pushes: bool,
    /// Keys that had something pushed, or a member added.
    pub pushed: Vec<Place>,
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

    /// Whether it has expired.
    #[inline]
    pub fn is_over(&self, entry: &Entry) -> bool {
        entry.expires != 0 && entry.expires <= self.now_ms
    }

    /// Makes a change, and writes it down.
    pub fn change(&mut self, database: u8, change: Change<'_>) {
        self.record.push(database, &change);
        self.changes += 1;
        let there = |key: &[u8]| self.databases.get(usize::from(database)).is_some_and(|all| all.get(key).is_some());
        self.watches.changed(database, change.key(), there);
        self.apply(database, &change);
        let (Change::Push { key, .. } | Change::SetScore { key, .. }) = change else { return };
        if self.notes_pushes {
            self.pushed.push((database, key.into()));
        }
    }

    /// Applies a change that is written down already.
    pub fn apply(&mut self, database: u8, change: &Change<'_>) {
        if let Some(database) = self.databases.get_mut(usize::from(database)) {
            database.apply(change);
        }
    }

    /// Makes `key` what `entry` is, whatever it was.
    pub fn put(&mut self, database: u8, key: &[u8], entry: &Entry) {
        dump::changes(key, entry, |change| self.change(database, change));
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
        self.databases.iter().map(Database::bytes).sum()
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
        Walk { database: DATABASES - 1, left: self.database(DATABASES - 1).len() }
    }

    /// Adds the next key to `records`, all of which have to be appended with no other between them; whether there was one.
    pub fn dump_next(&self, walk: &mut Walk, records: &mut Vec<Encoder>) -> bool {
        loop {
            walk.left = walk.left.min(self.database(walk.database).len());
            if let Some(left) = walk.left.checked_sub(1) {
                walk.left = left;
                if let Some((key, entry)) = self.database(walk.database).at(left) {
                    self.dump_key(walk.database, key, entry, records);
                    return true;
                }
            }
            let Some(next) = walk.database.checked_sub(1) else { return false };
            *walk = Walk { database: next, left: self.database(next).len() };
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
