//! Fetching items, and what only touches them.

use super::state::Engine;

impl Engine {
    /// The item of a key, which was fetched by it.
    #[inline]
    pub fn fetch(&mut self, key: &[u8]) -> Option<u32> {
        self.counts.get_commands += 1;
        let number = self.find(key)?;
        self.counts.get_hits += 1;
        self.items.used(number, self.clock.now_s());
        Some(number)
    }

    /// The same, and it ends at another time now.
    pub fn touch(&mut self, key: &[u8], expires_s: u32) -> Option<u32> {
        self.counts.touch_commands += 1;
        let number = self.find(key)?;
        self.counts.touch_hits += 1;
        self.items.used(number, self.clock.now_s());
        self.items.get_mut(number)?.expires_s = expires_s;
        Some(number)
    }

    /// Lets go of a key; whether it was there. `cas`: only if that is its last change.
    pub fn delete(&mut self, key: &[u8], cas: Option<u64>) -> Deleted {
        let Some(number) = self.find(key) else {
            self.counts.delete_misses += 1;
            return Deleted::NotFound;
        };
        let found = self.items.get(number).map(|item| item.cas);
        if cas.is_some() && cas != found {
            self.counts.delete_misses += 1;
            return Deleted::Exists;
        }
        self.counts.delete_hits += 1;
        self.items.remove(number);
        Deleted::Gone
    }
}

/// What came of a deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deleted {
    /// It is gone.
    Gone,
    /// There was none.
    NotFound,
    /// It was changed since.
    Exists,
}
