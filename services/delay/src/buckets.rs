//! Held packets: a first-in-first-out list for each delay (figure 4.11's buckets), all in one slab made at start.
//!
//! Packets of a bucket have the same delay, so they are due in the order they came; a timer for each bucket's first
//! packet is enough, and no packet overtakes another of its flow.

use qanat_nic::{ChecksumOffload, Frame, Time};

const NONE: u32 = u32::MAX;

/// A packet on its way, and when it is to leave.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) frame: Frame,
    pub(crate) due: Time,
    /// Its transport checksum is not finished; the device is asked to.
    pub(crate) checksum: Option<ChecksumOffload>,
}

struct Node {
    held: Option<Held>,
    next: u32,
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

/// All buckets of one direction of one queue.
pub(crate) struct Buckets {
    nodes: Vec<Node>,
    free: u32,
    lists: Vec<List>,
    count: usize,
}

impl Buckets {
    /// `buckets` empty ones, which hold `limit` packets together.
    pub(crate) fn new(buckets: usize, limit: u32) -> Buckets {
        let node = |index: u32| Node { held: None, next: if index + 1 < limit { index + 1 } else { NONE } };
        Buckets {
            nodes: (0..limit).map(node).collect(),
            free: if limit > 0 { 0 } else { NONE },
            lists: vec![List { head: NONE, tail: NONE }; buckets],
            count: 0,
        }
    }

    /// Packets held.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// When the bucket's first packet is due.
    pub(crate) fn first_due(&self, bucket: usize) -> Option<Time> {
        let list = self.lists.get(bucket)?;
        self.nodes.get(list.head as usize)?.held.as_ref().map(|held| held.due)
    }

    /// Appends a packet, or gives it back: all room is taken.
    pub(crate) fn push(&mut self, bucket: usize, held: Held) -> Result<(), Held> {
        let index = self.free;
        let (Some(node), Some(list)) = (self.nodes.get_mut(index as usize), self.lists.get_mut(bucket)) else {
            return Err(held);
        };
        self.free = node.next;
        *node = Node { held: Some(held), next: NONE };
        let tail = std::mem::replace(&mut list.tail, index);
        match self.nodes.get_mut(tail as usize) {
            Some(last) => last.next = index,
            None => list.head = index,
        }
        self.count += 1;
        Ok(())
    }

    /// The bucket's first packet, if it is due.
    pub(crate) fn pop_due(&mut self, bucket: usize, now: Time) -> Option<Held> {
        let list = self.lists.get_mut(bucket)?;
        let index = list.head;
        let node = self.nodes.get_mut(index as usize)?;
        let held = node.held.take_if(|held| held.due <= now)?;
        list.head = std::mem::replace(&mut node.next, self.free);
        if list.head == NONE {
            list.tail = NONE;
        }
        self.free = index;
        self.count -= 1;
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_nic::{Pool, Region};

    fn held(pool: &Pool, number: u8, due_us: u64) -> Held {
        let mut frame = pool.allocate(0).unwrap();
        frame.append(1).unwrap()[0] = number;
        Held { frame, due: Time::from_micros(due_us), checksum: None }
    }

    #[test]
    fn order_is_kept_and_room_is_bounded() {
        let region = Region::new(8, 512).unwrap();
        let pool = region.pool(8).unwrap();
        let mut buckets = Buckets::new(2, 3);
        for round in 0..5 {
            assert!(buckets.push(0, held(&pool, 1, 10)).is_ok());
            assert!(buckets.push(1, held(&pool, 2, 5)).is_ok());
            assert!(buckets.push(0, held(&pool, 3, 20)).is_ok());
            assert!(buckets.push(0, held(&pool, 4, 30)).is_err(), "round {round}");
            assert_eq!(buckets.first_due(0), Some(Time::from_micros(10)));
            assert!(buckets.pop_due(0, Time::from_micros(9)).is_none());
            assert_eq!(buckets.pop_due(0, Time::from_micros(15)).unwrap().frame.bytes(), [1]);
            assert!(buckets.pop_due(0, Time::from_micros(15)).is_none());
            assert_eq!(buckets.pop_due(1, Time::from_micros(15)).unwrap().frame.bytes(), [2]);
            assert_eq!(buckets.pop_due(0, Time::from_micros(20)).unwrap().frame.bytes(), [3]);
            assert_eq!((buckets.len(), buckets.first_due(0), buckets.first_due(7)), (0, None, None));
        }
        assert_eq!(pool.in_use_count(), 0);
    }
}
