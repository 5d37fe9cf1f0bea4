//! [`Watches`]: which keys somebody watches, and whether they have changed.

use std::collections::HashMap;

/// A key of a database.
pub type Place = (u8, Box<[u8]>);

#[derive(Debug, Default)]
struct Watched {
    /// How many watch it.
    count: usize,
    version: u64,
}

/// Keys that are watched. Those that are not cost nothing.
#[derive(Debug, Default)]
pub struct Watches {
    keys: HashMap<Place, Watched>,
    /// Versions are never given twice, even if nobody watched the key in between.
    versions: u64,
}

impl Watches {
    /// Somebody watches a key; the version that it has.
    pub fn watch(&mut self, place: &Place) -> u64 {
        let watched = self.keys.entry(place.clone()).or_default();
        watched.count += 1;
        watched.version
    }

    /// Somebody watches it no more.
    pub fn unwatch(&mut self, place: &Place) {
        if let Some(watched) = self.keys.get_mut(place) {
            watched.count -= 1;
            if watched.count == 0 {
                self.keys.remove(place);
            }
        }
    }

    /// Whether a watched key still has this version.
    pub fn is_same(&self, place: &Place, version: u64) -> bool {
        self.keys.get(place).is_some_and(|watched| watched.version == version)
    }

    /// A key has changed; `None`: all keys of the database that `there` says are.
    pub fn changed(&mut self, database: u8, key: Option<&[u8]>, there: impl Fn(&[u8]) -> bool) {
        if self.keys.is_empty() {
            return;
        }
        self.versions += 1;
        let version = self.versions;
        match key {
            Some(key) => {
                if let Some(watched) = self.keys.get_mut(&(database, Box::from(key))) {
                    watched.version = version;
                }
            }
            None => {
                let all = self.keys.iter_mut().filter(|((of, key), _)| *of == database && there(key));
                all.for_each(|(_, watched)| watched.version = version);
            }
        }
    }

    /// Two databases are swapped. A key has changed if either has it, expired or not; `there`: whether a database has a key.
    pub fn swapped(&mut self, one: u8, other: u8, there: impl Fn(u8, &[u8]) -> bool) {
        self.versions += 1;
        let version = self.versions;
        let of_both = self.keys.iter_mut().filter(|((of, _), _)| *of == one || *of == other);
        let changed = of_both.filter(|((_, key), _)| there(one, key) || there(other, key));
        changed.for_each(|(_, watched)| watched.version = version);
    }

    /// Keys of a database that somebody watches.
    pub fn of(&self, database: u8) -> impl Iterator<Item = &[u8]> {
        self.keys.keys().filter(move |(of, _)| *of == database).map(|(_, key)| key.as_ref())
    }
}
