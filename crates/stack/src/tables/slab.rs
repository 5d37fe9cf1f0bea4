//! A slab: dense slots with generations, so that a handle outlives its object without being mistaken for the next.

use crate::snapshot::OBJECTS_MAX;

/// Objects in slots. Never grows beyond its limit; memory is reserved at start and touched when first used.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    /// Free slots, last freed first: its memory is the likeliest to be in cache.
    free: Vec<u32>,
    limit: usize,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new(limit: usize) -> Slab<T> {
        Slab { entries: Vec::with_capacity(limit), free: Vec::with_capacity(limit), limit }
    }

    /// Whether a table that was read from a snapshot is consistent. It gets back its room.
    pub(crate) fn is_sound(&mut self) -> bool {
        if self.limit > OBJECTS_MAX || self.entries.len() > self.limit {
            return false;
        }
        self.entries.reserve_exact(self.limit - self.entries.len());
        self.free.reserve_exact(self.limit.saturating_sub(self.free.len()));
        let mut is_free = vec![false; self.entries.len()];
        for slot in &self.free {
            match (self.entries.get(*slot as usize), is_free.get_mut(*slot as usize)) {
                (Some(Entry { value: None, .. }), Some(free)) if !*free => *free = true,
                _ => return false,
            }
        }
        self.entries.iter().zip(is_free).all(|(entry, is_free)| is_free == entry.value.is_none())
    }

    /// How many there can be.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.entries.len() >= self.limit
    }

    /// The slot and generation the next insertion will use; `None` when full.
    pub(crate) fn next_key(&self) -> Option<(u32, u32)> {
        match self.free.last() {
            Some(&slot) => Some((slot, self.entries[slot as usize].generation)),
            None if self.entries.len() < self.limit => Some((self.entries.len() as u32, 0)),
            None => None,
        }
    }

    /// Inserts `value` at [`next_key`](Slab::next_key); gives it back when full.
    pub(crate) fn insert(&mut self, value: T) -> Result<(u32, u32), T> {
        if self.is_full() {
            return Err(value);
        }
        Ok(self.insert_with(|| value).unwrap_or_default())
    }

    /// Inserts what `make` makes, if there is room: a large value is built in its slot, or moved there but once.
    #[inline(always)]
    pub(crate) fn insert_with(&mut self, make: impl FnOnce() -> T) -> Option<(u32, u32)> {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.entries[slot as usize];
            entry.value = Some(make());
            return Some((slot, entry.generation));
        }
        if self.entries.len() >= self.limit {
            return None;
        }
        self.entries.push(Entry { generation: 0, value: Some(make()) });
        Some((self.entries.len() as u32 - 1, 0))
    }

    /// The object in `slot`, whatever its generation.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)?.value.as_ref()
    }

    /// The object in `slot`, whatever its generation.
    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.value.as_mut()
    }

    #[inline]
    pub(crate) fn get(&self, slot: usize, generation: u32) -> Option<&T> {
        let entry = self.entries.get(slot)?;
        if entry.generation == generation { entry.value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: usize, generation: u32) -> Option<&mut T> {
        let entry = self.entries.get_mut(slot)?;
        if entry.generation == generation { entry.value.as_mut() } else { None }
    }

    pub(crate) fn generation(&self, slot: u32) -> u32 {
        self.entries.get(slot as usize).map_or(0, |entry| entry.generation)
    }

    /// Takes the object out; its handle is stale from here on.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let entry = self.entries.get_mut(slot as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
        Some(value)
    }

    /// Drops the object where it lies (a large one is not moved for that); its handle is stale from here on.
    pub(crate) fn discard(&mut self, slot: u32) {
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        if entry.value.is_some() {
            entry.value = None;
            entry.generation = entry.generation.wrapping_add(1);
            self.free.push(slot);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| Some((slot as u32, entry.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_handles_find_nothing() {
        let mut slab = Slab::new(2);
        let (slot, generation) = slab.insert('a').unwrap();
        slab.insert('b').unwrap();
        assert!(slab.is_full());
        assert_eq!(slab.insert('c'), Err('c'));
        assert_eq!(slab.remove(slot), Some('a'));
        assert_eq!(slab.remove(slot), None);
        let again = slab.insert('d').unwrap();
        assert_eq!(again.0, slot);
        assert_eq!(slab.get(slot as usize, generation), None);
        assert_eq!(slab.get(slot as usize, again.1), Some(&'d'));
        assert_eq!(slab.len(), 2);
    }
}
