//! [`Order`]: the order of use, in three segments, as memcached 1.6 has it (doc/new_lru.txt there).
//!
//! An item is new in HOT. When that is full, its last goes to WARM if it was fetched twice, else to COLD. WARM's last stays if it was fetched
//! meanwhile, else it goes to COLD, too. COLD's last goes, unless it was fetched: then it comes to WARM. So a walk through many keys that
//! nobody asks for again drives out only each other.

use super::item::{Item, NONE, Segment};

/// Parts of a hundred that HOT and WARM may have of all.
const HOT_SHARE: u64 = 20;
const WARM_SHARE: u64 = 40;
/// Items that are moved for each that comes, at most.
const STEPS_MAX: usize = 4;

/// One segment.
#[derive(Clone, Copy, Debug)]
pub struct List {
    newest: u32,
    oldest: u32,
    /// Memory of its items.
    pub bytes: u64,
    /// How many there are.
    pub count: u64,
}

impl List {
    /// Its oldest item.
    pub fn oldest(&self) -> u32 {
        self.oldest
    }
}

impl Default for List {
    fn default() -> List {
        List { newest: NONE, oldest: NONE, bytes: 0, count: 0 }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Order {
    lists: [List; 3],
}

impl Order {
    /// A segment.
    pub fn list(&self, segment: Segment) -> &List {
        &self.lists[segment as usize]
    }

    fn bytes(&self) -> u64 {
        self.lists.iter().map(|list| list.bytes).sum()
    }

    /// Adds an item as the newest of a segment.
    pub fn insert(&mut self, number: u32, segment: Segment, items: &mut [Item]) {
        let list = &mut self.lists[segment as usize];
        let Some(item) = items.get_mut(number as usize) else { return };
        (item.segment, item.newer, item.older) = (segment, NONE, list.newest);
        list.bytes += item.cost();
        list.count += 1;
        let before = std::mem::replace(&mut list.newest, number);
        match items.get_mut(before as usize) {
            Some(before) => before.newer = number,
            None => list.oldest = number,
        }
    }

    /// Takes an item out.
    pub fn remove(&mut self, number: u32, items: &mut [Item]) {
        let Some(item) = items.get(number as usize) else { return };
        let (newer, older, cost) = (item.newer, item.older, item.cost());
        let list = &mut self.lists[item.segment as usize];
        list.bytes = list.bytes.saturating_sub(cost);
        list.count = list.count.saturating_sub(1);
        match items.get_mut(newer as usize) {
            Some(item) => item.older = older,
            None => list.newest = older,
        }
        match items.get_mut(older as usize) {
            Some(item) => item.newer = newer,
            None => list.oldest = newer,
        }
    }

    fn shift(&mut self, number: u32, segment: Segment, items: &mut [Item]) {
        self.remove(number, items);
        self.insert(number, segment, items);
    }

    /// An item was fetched.
    #[inline]
    pub fn used(&mut self, number: u32, items: &mut [Item]) {
        let Some(item) = items.get_mut(number as usize) else { return };
        if !item.marks.is_fetched {
            item.marks.is_fetched = true;
        } else if !item.marks.is_active {
            item.marks.is_active = true;
            if item.segment == Segment::Cold {
                self.shift(number, Segment::Warm, items);
            }
        }
    }

    /// Moves what HOT and WARM have too much of.
    pub fn balance(&mut self, items: &mut [Item]) {
        let all = self.bytes();
        for (segment, share) in [(Segment::Hot, HOT_SHARE), (Segment::Warm, WARM_SHARE)] {
            for _ in 0..STEPS_MAX {
                let list = self.list(segment);
                if list.bytes * 100 <= all * share {
                    break;
                }
                let number = list.oldest;
                let Some(item) = items.get_mut(number as usize) else { break };
                let is_active = std::mem::take(&mut item.marks.is_active);
                self.shift(number, if is_active { Segment::Warm } else { Segment::Cold }, items);
            }
        }
    }

    /// The item that is to go next; `None`: there is none.
    pub fn victim(&mut self, items: &mut [Item]) -> Option<u32> {
        for _ in 0..STEPS_MAX {
            let number = self.list(Segment::Cold).oldest;
            let Some(item) = items.get_mut(number as usize) else { break };
            if !std::mem::take(&mut item.marks.is_active) {
                return Some(number);
            }
            self.shift(number, Segment::Warm, items);
        }
        // The first that has any.
        let oldest = [Segment::Cold, Segment::Warm, Segment::Hot].map(|segment| self.list(segment).oldest);
        oldest.into_iter().find(|number| *number != NONE)
    }
}
