//! [`Index`]: from a key's hash to the items that have it, by linear hashing (Litwin, VLDB 1980).
//!
//! The table grows by one bucket with each item, so that no request waits until all of it is made anew. Items of a bucket are chained.

use super::item::{Item, NONE};

/// Buckets to begin with.
const BUCKETS_MIN: usize = 1 << 10;

/// See the module.
#[derive(Debug)]
pub struct Index {
    buckets: Vec<u32>,
}

impl Default for Index {
    fn default() -> Index {
        Index { buckets: vec![NONE; BUCKETS_MIN] }
    }
}

impl Index {
    /// The bucket of a hash. Those that were not split yet have the items of two.
    fn bucket(&self, hash: u32) -> usize {
        let mask = self.buckets.len().next_power_of_two() - 1;
        let bucket = hash as usize & mask;
        if bucket < self.buckets.len() { bucket } else { bucket & (mask >> 1) }
    }

    /// The first item of a hash's bucket, which may be another's.
    #[inline]
    pub fn first(&self, hash: u32) -> u32 {
        self.buckets.get(self.bucket(hash)).copied().unwrap_or(NONE)
    }

    /// Adds an item; `count` items are there with it.
    pub fn insert(&mut self, number: u32, items: &mut [Item], count: usize) {
        if count > self.buckets.len() {
            self.split(items);
        }
        let Some(hash) = items.get(number as usize).map(|item| item.hash) else { return };
        let bucket = self.bucket(hash);
        if let (Some(first), Some(item)) = (self.buckets.get_mut(bucket), items.get_mut(number as usize)) {
            item.chain = std::mem::replace(first, number);
        }
    }

    /// Takes an item out.
    pub fn remove(&mut self, number: u32, items: &mut [Item]) {
        let Some((hash, next)) = items.get(number as usize).map(|item| (item.hash, item.chain)) else { return };
        let bucket = self.bucket(hash);
        let Some(first) = self.buckets.get_mut(bucket) else { return };
        if *first == number {
            *first = next;
            return;
        }
        let mut at = *first;
        // A chain has an end: each item is in one chain, once.
        while let Some(item) = items.get_mut(at as usize) {
            if item.chain == number {
                item.chain = next;
                return;
            }
            at = item.chain;
        }
    }

    /// Divides the next bucket in two.
    fn split(&mut self, items: &mut [Item]) {
        let new = self.buckets.len();
        // The number of the bucket to divide is the new one's without its first bit.
        let half = (new + 1).next_power_of_two() >> 1;
        let old = new - half;
        self.buckets.push(NONE);
        let Some(mut at) = self.buckets.get_mut(old).map(|first| std::mem::replace(first, NONE)) else { return };
        while let Some(item) = items.get_mut(at as usize) {
            let target = if item.hash as usize & half == 0 { old } else { new };
            let next = item.chain;
            if let Some(first) = self.buckets.get_mut(target) {
                item.chain = std::mem::replace(first, at);
            }
            at = next;
        }
    }

    /// Buckets there are.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::account::Account;
    use crate::items::item::Value;

    /// Items with these hashes, all of them in the index.
    fn index_of(hashes: &[u32]) -> (Index, Vec<Item>) {
        let mut index = Index::default();
        let mut items: Vec<Item> = hashes
            .iter()
            .map(|hash| Item::new(&hash.to_be_bytes(), Value::of(&hash.to_be_bytes(), &[]), &Account::default()))
            .collect();
        items.iter_mut().zip(hashes).for_each(|(item, hash)| item.hash = *hash);
        (0..items.len()).for_each(|number| index.insert(number as u32, &mut items, number + 1));
        (index, items)
    }

    fn finds(index: &Index, items: &[Item], number: u32) -> bool {
        let mut at = index.first(items[number as usize].hash);
        while at != NONE && at != number {
            at = items[at as usize].chain;
        }
        at == number
    }

    #[test]
    fn all_are_found_while_it_grows_and_after_some_went() {
        let hashes: Vec<u32> = (0..10_000u32).map(|number| number.wrapping_mul(2_654_435_761)).collect();
        let (mut index, mut items) = index_of(&hashes);
        assert!(index.buckets() >= 9_999);
        assert!((0..10_000).all(|number| finds(&index, &items, number)));
        (0..10_000).step_by(3).for_each(|number| index.remove(number, &mut items));
        assert!((0..10_000).all(|number| finds(&index, &items, number) == (number % 3 != 0)));
    }

    #[test]
    fn keys_of_one_hash_are_one_chain() {
        let (mut index, mut items) = index_of(&[7; 5_000]);
        assert!((0..5_000).all(|number| finds(&index, &items, number)));
        (0..5_000).for_each(|number| index.remove(number, &mut items));
        assert_eq!(index.first(7), NONE);
    }
}
