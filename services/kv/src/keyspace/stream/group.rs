//! [`Group`]: consumers that share the entries of a stream, and what was given to them and not acknowledged.

use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::items::{DELIVERY_BYTES, Delivery};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a consumer costs in a record besides its name.
const CONSUMER_BYTES: usize = 16;

/// What is pending: who has it, since when (Unix, ms), and how often it was delivered.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The consumer's name.
    pub consumer: Arc<[u8]>,
    /// When it was delivered last.
    pub at: i64,
    /// How often it was.
    pub count: u64,
}

/// A consumer.
#[derive(Clone, Debug, Default)]
pub struct Consumer {
    /// When it asked last (Unix, ms).
    pub seen: i64,
    pending: BTreeSet<Id>,
}

impl Consumer {
    /// What is pending for it.
    pub fn pending(&self) -> &BTreeSet<Id> {
        &self.pending
    }
}

/// A group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The last entry that was delivered.
    pub last: Id,
    /// How many entries were read, if that is known.
    pub read: Option<u64>,
    consumers: BTreeMap<Arc<[u8]>, Consumer>,
    pending: BTreeMap<Id, Pending>,
    bytes: usize,
}

impl Group {
    /// One that has got entries up to `last`.
    pub fn new(last: Id, read: Option<u64>) -> Group {
        Group { last, read, ..Group::default() }
    }

    /// Bytes of its record without its own name, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A consumer.
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    /// All consumers, by their names.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&[u8], &Consumer)> {
        self.consumers.iter().map(|(name, consumer)| (name.as_ref(), consumer))
    }

    /// What is pending, by ids.
    pub fn pending(&self) -> &BTreeMap<Id, Pending> {
        &self.pending
    }

    /// A consumer is there, and was seen.
    pub fn set_consumer(&mut self, name: &[u8], seen: i64) {
        match self.consumers.get_mut(name) {
            Some(consumer) => consumer.seen = seen,
            None => {
                self.consumers.insert(name.into(), Consumer { seen, pending: BTreeSet::new() });
                self.bytes += CONSUMER_BYTES + name.len();
            }
        }
    }

    /// A consumer is gone, with what is pending for it.
    pub fn drop_consumer(&mut self, name: &[u8]) {
        let Some(consumer) = self.consumers.remove(name) else { return };
        self.bytes -= CONSUMER_BYTES + name.len();
        for id in &consumer.pending {
            self.bytes -= self.pending.remove(id).map_or(0, |_| DELIVERY_BYTES);
        }
    }

    /// An entry is pending for a consumer that is there.
    pub fn set_pending(&mut self, name: &[u8], delivery: Delivery) {
        let Some((name, consumer)) = self.consumers.get_key_value(name) else { return };
        let is_own = consumer.pending.contains(&delivery.id);
        let name = name.clone();
        let pending = Pending { consumer: name.clone(), at: delivery.at, count: delivery.count };
        match self.pending.insert(delivery.id, pending) {
            None => self.bytes += DELIVERY_BYTES,
            Some(before) if !is_own => {
                self.consumers.get_mut(&before.consumer).into_iter().for_each(|other| {
                    other.pending.remove(&delivery.id);
                });
            }
            Some(_) => return,
        }
        self.consumers.get_mut(&name).into_iter().for_each(|consumer| {
            consumer.pending.insert(delivery.id);
        });
    }

    /// An entry is not pending any more.
    pub fn drop_pending(&mut self, id: Id) {
        let Some(gone) = self.pending.remove(&id) else { return };
        self.bytes -= DELIVERY_BYTES;
        self.consumers.get_mut(&gone.consumer).into_iter().for_each(|consumer| {
            consumer.pending.remove(&id);
        });
    }
}
