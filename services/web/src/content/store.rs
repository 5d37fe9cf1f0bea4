//! The resources in memory: found by the raw bytes of a request, or by root and path; least recently used ones go.

use super::resource::{Resource, ResourceKey, Target};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hasher};
use std::rc::Rc;

/// Raw request targets remembered; at the limit all are forgotten (each is found again by its path).
const RAW_MAX: usize = 16_384;
/// Longest raw target remembered, bytes.
const RAW_BYTES_MAX: usize = 512;
/// Paths remembered as missing, for the rest of the second; at the limit all are forgotten.
const MISSING_MAX: usize = 4_096;

#[derive(Debug)]
struct RawEntry {
    /// Host (or nothing) and target, as sent.
    bytes: Box<[u8]>,
    host_length: usize,
    resource: Rc<Resource>,
}

impl RawEntry {
    #[inline]
    fn is(&self, host: &[u8], target: &[u8]) -> bool {
        self.host_length == host.len()
            && self.bytes.len() == host.len() + target.len()
            && self.bytes.ends_with(target)
            // Without virtual hosts the host is empty: comparing no bytes by memcmp was a fifth of a cached request's
            // samples. Why it is so slow there is not established.
            && (host.is_empty() || self.bytes.starts_with(host))
    }
}

/// The resources held, within a budget.
#[derive(Debug)]
pub struct Store {
    hasher: DefaultHashBuilder,
    raw: HashTable<RawEntry>,
    resources: HashTable<Rc<Resource>>,
    memory_bytes_max: usize,
    memory_bytes: usize,
    missing_count: usize,
    evictions: u64,
}

impl Store {
    /// Empty, for at most `memory_bytes_max` bytes.
    pub fn new(memory_bytes_max: usize) -> Store {
        Store {
            hasher: DefaultHashBuilder::default(),
            raw: HashTable::new(),
            resources: HashTable::new(),
            memory_bytes_max,
            memory_bytes: 0,
            missing_count: 0,
            evictions: 0,
        }
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Resources held.
    pub fn count(&self) -> usize {
        self.resources.len()
    }

    /// Resources put out for others so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// An unpredictable number derived from `seed`.
    pub fn number(&self, seed: u64) -> u64 {
        self.hasher.hash_one(seed)
    }

    #[inline]
    fn raw_hash(&self, host: &[u8], target: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(host);
        hasher.write_usize(host.len());
        hasher.write(target);
        hasher.finish()
    }

    /// The resource last found for these very bytes.
    #[inline]
    pub fn find_raw(&self, host: &[u8], target: &[u8]) -> Option<&Rc<Resource>> {
        let entry = self.raw.find(self.raw_hash(host, target), |entry| entry.is(host, target))?;
        (!entry.resource.evicted.get()).then_some(&entry.resource)
    }

    /// Remembers that these bytes mean `resource`.
    pub fn remember_raw(&mut self, host: &[u8], target: &[u8], resource: &Rc<Resource>) {
        if host.len() + target.len() > RAW_BYTES_MAX || resource.evicted.get() {
            return;
        }
        if self.raw.len() >= RAW_MAX {
            self.raw.clear();
        }
        let hash = self.raw_hash(host, target);
        if let Some(entry) = self.raw.find_mut(hash, |entry| entry.is(host, target)) {
            entry.resource = Rc::clone(resource);
            return;
        }
        let entry = RawEntry {
            bytes: [host, target].concat().into_boxed_slice(),
            host_length: host.len(),
            resource: Rc::clone(resource),
        };
        let hasher = &self.hasher;
        self.raw.insert_unique(hash, entry, |entry| {
            let (host, target) = entry.bytes.split_at(entry.host_length);
            let mut state = hasher.build_hasher();
            state.write(host);
            state.write_usize(host.len());
            state.write(target);
            state.finish()
        });
    }

    /// The resource of a path.
    pub fn find(&self, key: &ResourceKey) -> Option<&Rc<Resource>> {
        self.resources.find(self.hasher.hash_one(key), |resource| resource.key == *key)
    }

    /// Takes `resource` in, in place of an older one of the same path, and puts others out if the budget asks for it.
    pub fn insert(&mut self, resource: Resource, clock: u64) -> Rc<Resource> {
        self.remove(&resource.key);
        resource.used.set(clock);
        let resource = Rc::new(resource);
        if matches!(resource.target, Target::Missing(_)) {
            if self.missing_count >= MISSING_MAX {
                self.forget_missing();
            }
            self.missing_count += 1;
        }
        self.memory_bytes += resource.cost;
        let hasher = &self.hasher;
        let hash = hasher.hash_one(&resource.key);
        self.resources.insert_unique(hash, Rc::clone(&resource), |entry| hasher.hash_one(&entry.key));
        if self.memory_bytes > self.memory_bytes_max {
            self.evict();
        }
        resource
    }

    fn remove(&mut self, key: &ResourceKey) {
        let hash = self.hasher.hash_one(key);
        if let Ok(entry) = self.resources.find_entry(hash, |resource| resource.key == *key) {
            let (resource, _) = entry.remove();
            resource.evicted.set(true);
            self.memory_bytes = self.memory_bytes.saturating_sub(resource.cost);
            if matches!(resource.target, Target::Missing(_)) {
                self.missing_count = self.missing_count.saturating_sub(1);
            }
        }
    }

    /// Puts out the least recently used tenth at least: sorting all at once, seldom, costs less than keeping order at
    /// every request.
    fn evict(&mut self) {
        let goal = self.memory_bytes_max / 10 * 9;
        let mut ages: Vec<(u64, ResourceKey)> =
            self.resources.iter().map(|resource| (resource.used.get(), resource.key.clone())).collect();
        ages.sort_unstable_by_key(|(used, _)| *used);
        // The newest stays even if it fills the budget alone.
        ages.pop();
        for (_, key) in ages {
            if self.memory_bytes <= goal {
                break;
            }
            self.remove(&key);
            self.evictions += 1;
        }
        self.forget_evicted();
    }

    fn forget_missing(&mut self) {
        let memory_bytes = &mut self.memory_bytes;
        self.resources.retain(|resource| {
            let keep = !matches!(resource.target, Target::Missing(_));
            if !keep {
                resource.evicted.set(true);
                *memory_bytes = memory_bytes.saturating_sub(resource.cost);
            }
            keep
        });
        self.missing_count = 0;
        self.forget_evicted();
    }

    /// Drops raw targets of resources that were put out: they would keep their memory.
    fn forget_evicted(&mut self) {
        self.raw.retain(|entry| !entry.resource.evicted.get());
    }

    /// Forgets everything; responses under way keep what they need.
    pub fn clear(&mut self) {
        for resource in &self.resources {
            resource.evicted.set(true);
        }
        self.resources.clear();
        self.raw.clear();
        self.memory_bytes = 0;
        self.missing_count = 0;
    }

    /// Drops raw targets that point at replaced resources.
    pub fn tidy(&mut self) {
        self.forget_evicted();
    }

    /// Gives up the ready frames of the less recently used half.
    pub fn release_cold_copies(&self) {
        let mut ages: Vec<(u64, &Rc<Resource>)> =
            self.resources.iter().map(|resource| (resource.used.get(), resource)).collect();
        ages.sort_unstable_by_key(|(used, _)| *used);
        for (_, resource) in ages.iter().take(ages.len() / 2) {
            resource.release_copies();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn resource(path: &str, cost: usize) -> Resource {
        Resource {
            key: ResourceKey { root: 0, path: path.as_bytes().into() },
            target: Target::Directory,
            cost,
            used: Cell::new(0),
            checked: Cell::new(0),
            evicted: Cell::new(false),
        }
    }

    #[test]
    fn least_recently_used_goes() {
        let mut store = Store::new(1000);
        for (clock, name) in ["a", "b", "c", "d"].iter().enumerate() {
            let held = store.insert(resource(name, 240), clock as u64);
            store.remember_raw(b"", name.as_bytes(), &held);
        }
        assert_eq!((store.count(), store.memory_bytes()), (4, 960));
        store.find_raw(b"", b"a").unwrap().used.set(9);
        store.insert(resource("e", 240), 10);
        assert!(store.find_raw(b"", b"a").is_some());
        assert!(store.find_raw(b"", b"b").is_none());
        assert!(store.find(&ResourceKey { root: 0, path: b"c"[..].into() }).is_none());
        assert!(store.memory_bytes() <= 900);
        assert_eq!(store.evictions(), 2);
        store.insert(resource("huge", 5000), 11);
        assert_eq!(store.count(), 1, "it stays though it fills the budget");
        store.insert(resource("huge", 10), 12);
        assert_eq!((store.count(), store.memory_bytes()), (1, 10));
        store.clear();
        assert_eq!((store.count(), store.memory_bytes()), (0, 0));
    }

    #[test]
    fn raw_targets_are_told_apart_and_bounded() {
        let mut store = Store::new(1 << 20);
        let held = store.insert(resource("a", 10), 0);
        store.remember_raw(b"h", b"/a", &held);
        assert!(store.find_raw(b"h", b"/a").is_some());
        assert!(store.find_raw(b"", b"h/a").is_none());
        assert!(store.find_raw(b"h/", b"a").is_none());
        for number in 0..RAW_MAX + 10 {
            store.remember_raw(b"", format!("/a?{number}").as_bytes(), &held);
        }
        assert!(store.raw.len() <= RAW_MAX);
        for number in 0..MISSING_MAX + 10 {
            let missing = Resource { target: Target::Missing(404), ..resource(&number.to_string(), 10) };
            store.insert(missing, 0);
        }
        assert!(store.count() <= MISSING_MAX + 1);
        store.insert(resource("a", 10), 0);
        assert!(store.find_raw(b"h", b"/a").is_none(), "replaced");
        store.tidy();
        assert_eq!(store.raw.len(), 0);
    }
}
