//! [`Items`]: all items there are, in no more memory than they may have.

use super::account::{Account, lent_cost};
use super::index::Index;
use super::item::{Item, NONE, Segment, Value};
use super::order::{List, Order};
use std::hash::{BuildHasher, RandomState};

/// A bucket of the index; and an item's place, which may be in the list of those that nobody has.
const BUCKET_COST: u64 = size_of::<u32>() as u64;
const PLACE_COST: u64 = (size_of::<Item>() + size_of::<u32>()) as u64;
/// Memory of an item besides its value, at most: a long key by itself, and what lends a value.
const BESIDES_BYTES: u64 = 512;
/// Items that go to make room for one, at most: a value of the largest size may need the room of many small ones.
const VICTIMS_MAX: usize = 100_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Items {
    items: Vec<Item>,
    /// Places in `items` that nobody has.
    free: Vec<u32>,
    index: Index,
    order: Order,
    account: Account,
    /// Keyed at random, so that nobody can choose keys of one bucket (SipHash 1-3).
    hasher: RandomState,
    /// Memory of items that the account does not count.
    own_bytes: u64,
    /// Memory of values that are lent, of items that are here.
    lent_bytes: u64,
    /// The most memory.
    bytes_max: u64,
    /// Items that went to make room.
    pub evicted: u64,
    /// Where the next look for what has ended begins.
    looked_at: usize,
}

/// What is stored under a key.
pub struct New {
    pub value: Value,
    pub flags: u32,
    pub expires_s: u32,
    pub cas: u64,
    pub used_s: u32,
}

impl Items {
    /// None yet, of so much memory at most.
    pub fn new(bytes_max: u64) -> Items {
        Items { bytes_max, ..Items::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All memory that is in use: items, those that went and are still being sent, and those that are still coming.
    pub fn memory(&self) -> u64 {
        let tables = self.index.buckets() as u64 * BUCKET_COST + self.items.len() as u64 * PLACE_COST;
        tables + self.own_bytes + self.account.bytes()
    }

    /// Memory that is lent or promised, and in no item that is here: nothing here can be given up for it.
    pub fn detached(&self) -> u64 {
        self.account.bytes().saturating_sub(self.lent_bytes)
    }

    /// Keys and values that are here, with what they take of the allocator.
    pub fn bytes(&self) -> u64 {
        self.own_bytes + self.lent_bytes
    }

    /// The most memory.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Another bound. What is too much goes with the next items that come.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Memory of values that are coming is counted by it, too.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Buckets of the index.
    pub fn buckets(&self) -> usize {
        self.index.buckets()
    }

    /// A segment's figures.
    pub fn segment(&self, segment: Segment) -> &List {
        self.order.list(segment)
    }

    fn hash(&self, key: &[u8]) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// The item of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = self.hash(key);
        let mut at = self.index.first(hash);
        while let Some(item) = self.items.get(at as usize) {
            if item.hash == hash && item.key() == key {
                return Some(at);
            }
            at = item.chain;
        }
        None
    }

    /// An item that was found just now.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Item> {
        self.items.get(number as usize)
    }

    /// The same, to be changed: not its value or key.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Item> {
        self.items.get_mut(number as usize)
    }

    /// An item was fetched.
    #[inline]
    pub fn used(&mut self, number: u32, now_s: u32) {
        self.order.used(number, &mut self.items);
        self.refresh(number, now_s);
    }

    /// An item was changed, which is no fetch.
    pub fn refresh(&mut self, number: u32, now_s: u32) {
        self.items.get_mut(number as usize).into_iter().for_each(|item| item.used_s = now_s);
    }

    /// Lets go of items until there is room for one more with a value of so many bytes; whether there is.
    pub fn make_room(&mut self, bytes: u64) -> bool {
        let needed = bytes + BESIDES_BYTES + PLACE_COST + BUCKET_COST;
        for _ in 0..VICTIMS_MAX {
            if self.memory() + needed <= self.bytes_max {
                return true;
            }
            // What is lent and not here can't be given up: it is waited for.
            let Some(number) = self.order.victim(&mut self.items) else { return false };
            self.remove(number);
            self.evicted += 1;
        }
        false
    }

    /// Stores a key that is not here. There is room: [`make_room`](Items::make_room) has made it.
    pub fn insert(&mut self, key: &[u8], new: New) -> u32 {
        let mut item = Item::new(key, new.value, &self.account);
        (item.flags, item.expires_s, item.cas, item.used_s) = (new.flags, new.expires_s, new.cas, new.used_s);
        item.hash = self.hash(key);
        self.own_bytes += item.own_cost();
        self.lent_bytes += item.lent().map_or(0, |value| lent_cost(value.len()));
        let number = match self.free.pop() {
            Some(number) => {
                self.items.get_mut(number as usize).into_iter().for_each(|place| *place = std::mem::take(&mut item));
                number
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as u32
            }
        };
        let count = self.len();
        self.index.insert(number, &mut self.items, count);
        self.order.insert(number, Segment::Hot, &mut self.items);
        self.order.balance(&mut self.items);
        number
    }

    /// Lets go of an item.
    pub fn remove(&mut self, number: u32) {
        self.index.remove(number, &mut self.items);
        self.order.remove(number, &mut self.items);
        let Some(place) = self.items.get_mut(number as usize) else { return };
        let item = std::mem::take(place);
        place.chain = NONE;
        self.own_bytes = self.own_bytes.saturating_sub(item.own_cost());
        self.lent_bytes = self.lent_bytes.saturating_sub(item.lent().map_or(0, |value| lent_cost(value.len())));
        self.free.push(number);
    }

    /// The items in places from `at` on, `count` of them, with where to go on; `None`: that were the last.
    pub fn walk(&self, at: usize, count: usize) -> (impl Iterator<Item = (u32, &Item)>, Option<usize>) {
        let end = (at + count).min(self.items.len());
        let items = self.items.get(at..end).unwrap_or_default();
        let items = items.iter().enumerate().map(move |(index, item)| ((at + index) as u32, item));
        (items.filter(|(_, item)| !item.key().is_empty()), Some(end).filter(|end| *end < self.items.len()))
    }

    /// Looks at `count` items, and lets go of those that have ended; the walk goes on where it was, round and round. How many went.
    pub fn sweep(&mut self, count: usize, has_ended: impl Fn(&Item) -> bool) -> u64 {
        let at = self.looked_at;
        let (items, next) = self.walk(at, count);
        let ended: Vec<u32> = items.filter(|(_, item)| has_ended(item)).map(|(number, _)| number).collect();
        self.looked_at = next.unwrap_or(0);
        ended.iter().for_each(|number| self.remove(*number));
        ended.len() as u64
    }

    /// Items of a segment from its oldest on.
    pub fn oldest(&self, segment: Segment) -> impl Iterator<Item = &Item> {
        let first = self.items.get(self.order.list(segment).oldest() as usize);
        std::iter::successors(first, |item| self.items.get(item.newer as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn new(value: &[u8], key: &[u8]) -> New {
        New { value: Value::of(key, &[value]), flags: 0, expires_s: 0, cas: 1, used_s: 1 }
    }

    fn put(items: &mut Items, key: &[u8], value: &[u8]) -> bool {
        if let Some(number) = items.find(key) {
            items.remove(number);
        }
        let new = new(value, key);
        let has_room = items.make_room(new.value.cost());
        if has_room {
            items.insert(key, new);
        }
        has_room
    }

    #[test]
    fn the_bound_holds_whatever_comes() {
        let mut items = Items::new(1 << 20);
        let mut lent = Vec::new();
        for number in 0..20_000u32 {
            let key = format!("key {}", number % 7_000);
            let length = (number as usize * 7_919) % if number % 10 == 0 { 60_000 } else { 300 };
            put(&mut items, key.as_bytes(), &vec![1; length]);
            if number % 100 == 0
                && let Some(found) = items.find(key.as_bytes())
            {
                lent.extend(items.get(found).and_then(|item| item.lent().cloned()));
                lent.truncate(5);
            }
            assert!(items.memory() <= 1 << 20, "{} bytes with item {number}", items.memory());
        }
        assert!(items.evicted > 0 && items.len() > 100);
        drop(lent);
        assert_eq!(items.detached(), 0);
    }

    #[test]
    fn what_is_lent_and_gone_leaves_no_room_until_it_is_back() {
        let mut items = Items::new(256 << 10);
        assert!(put(&mut items, b"large", &[1; 200_000]));
        let lent = items.find(b"large").and_then(|number| items.get(number)).and_then(|item| item.lent().cloned());
        assert!(!put(&mut items, b"other", &[1; 100_000]), "the first is still being sent");
        assert_eq!(items.find(b"large"), None);
        assert!(items.detached() > 200_000);
        drop(lent);
        assert!(put(&mut items, b"other", &[1; 100_000]));
    }

    #[test]
    fn a_walk_through_all_keys_leaves_those_that_are_asked_for() {
        let mut items = Items::new(1 << 20);
        for number in 0..500u32 {
            put(&mut items, format!("liked {number}").as_bytes(), &[1; 100]);
        }
        for number in 0..50_000u32 {
            put(&mut items, format!("once {number}").as_bytes(), &[1; 100]);
            let liked = format!("liked {}", number % 500);
            if let Some(found) = items.find(liked.as_bytes()) {
                items.used(found, number);
            }
        }
        let left = (0..500).filter(|number| items.find(format!("liked {number}").as_bytes()).is_some()).count();
        assert!(left > 490, "only {left} of 500 are left");
    }

    #[test]
    fn a_sweep_comes_round() {
        let mut items = Items::new(1 << 20);
        (0..1_000u32).for_each(|number| assert!(put(&mut items, &number.to_be_bytes(), b"v")));
        let gone: u64 = (0..10).map(|_| items.sweep(100, |item| item.key()[3] % 2 == 0)).sum();
        assert_eq!((gone, items.len()), (500, 500));
    }

    proptest! {
        #[test]
        fn it_is_a_map(acts in prop::collection::vec((0u8..3, 0u8..40, 0usize..6_000), 1..300)) {
            let mut items = Items::new(64 << 20);
            let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
            for (act, key, length) in acts {
                let key = vec![key; 1 + usize::from(key)];
                match act {
                    0 => {
                        let value = vec![length as u8; length];
                        prop_assert!(put(&mut items, &key, &value));
                        model.insert(key, value);
                    }
                    1 => {
                        let found = items.find(&key);
                        prop_assert_eq!(found.is_some(), model.remove(&key).is_some());
                        found.into_iter().for_each(|number| items.remove(number));
                    }
                    _ => {
                        let found = items.find(&key);
                        found.into_iter().for_each(|number| items.used(number, 1));
                        let value = found.and_then(|number| items.get(number)).map(Item::value);
                        prop_assert_eq!(value, model.get(&key).map(Vec::as_slice));
                    }
                }
                prop_assert_eq!(items.len(), model.len());
            }
            let all: Vec<u32> = items.walk(0, usize::MAX >> 1).0.map(|(number, _)| number).collect();
            all.into_iter().for_each(|number| items.remove(number));
            prop_assert_eq!((items.bytes(), items.account().bytes()), (0, 0));
            for segment in [Segment::Hot, Segment::Warm, Segment::Cold] {
                let list = items.segment(segment);
                prop_assert_eq!((list.bytes, list.count), (0, 0));
            }
        }
    }
}
