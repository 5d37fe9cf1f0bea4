//! [`Stream`]: entries by their ids, and groups. It is there even if it has none.

use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::stream::group::Group;
use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::items;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What an entry costs in a record besides its fields.
const ENTRY_BYTES: usize = 20;
/// What a group costs besides its name.
const GROUP_BYTES: usize = 24;

/// A stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    entries: BTreeMap<Id, Box<[u8]>>,
    groups: BTreeMap<Box<[u8]>, Group>,
    last: Id,
    added: u64,
    removed: Id,
    bytes: usize,
}

impl Stream {
    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last id that was given, be its entry there or not.
    pub fn last(&self) -> Id {
        self.last
    }

    /// How many entries there have been.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// The greatest id that was removed, other than by trimming.
    pub fn removed(&self) -> Id {
        self.removed
    }

    /// The id of the first entry; the least one if there is none.
    pub fn first(&self) -> Id {
        self.entries.first_key_value().map_or(Id::MIN, |(id, _)| *id)
    }

    /// An entry's fields.
    pub fn get(&self, id: Id) -> Option<&[u8]> {
        self.entries.get(&id).map(AsRef::as_ref)
    }

    /// Entries from `start` up to `end`, both included.
    pub fn range(&self, start: Id, end: Id) -> impl DoubleEndedIterator<Item = (Id, &[u8])> {
        // A range that ends before it begins is none.
        let bounds = if start <= end { Bound::Included(end) } else { Bound::Excluded(start) };
        self.entries.range((Bound::Included(start), bounds)).map(|(id, fields)| (*id, fields.as_ref()))
    }

    /// Entries behind an id.
    pub fn after(&self, id: Id) -> impl Iterator<Item = (Id, &[u8])> {
        self.entries.range((Bound::Excluded(id), Bound::Unbounded)).map(|(id, fields)| (*id, fields.as_ref()))
    }

    /// A group.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// All groups, by their names.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (name.as_ref(), group))
    }

    /// Applies a change.
    pub fn apply(&mut self, change: &StreamChange<'_>) {
        match *change {
            StreamChange::Append { id, fields } => {
                self.bytes += ENTRY_BYTES + fields.len();
                if let Some(before) = self.entries.insert(id, fields.into()) {
                    self.bytes -= ENTRY_BYTES + before.len();
                }
                self.last = self.last.max(id);
                self.added = self.added.saturating_add(1);
            }
            StreamChange::Remove { id } => {
                if let Some(gone) = self.entries.remove(&id) {
                    self.bytes -= ENTRY_BYTES + gone.len();
                    self.removed = self.removed.max(id);
                }
            }
            StreamChange::Trim { through } => {
                while let Some(first) = self.entries.first_entry().filter(|first| *first.key() <= through) {
                    self.bytes -= ENTRY_BYTES + first.remove().len();
                }
            }
            StreamChange::SetMarks { last, added, removed } => {
                (self.last, self.added, self.removed) = (last, added, removed);
            }
            StreamChange::SetGroup { group, last, read } => match self.groups.get_mut(group) {
                Some(group) => (group.last, group.read) = (last, read),
                None => {
                    self.groups.insert(group.into(), Group::new(last, read));
                    self.bytes += GROUP_BYTES + group.len();
                }
            },
            StreamChange::DropGroup { group } => {
                if let Some(gone) = self.groups.remove(group) {
                    self.bytes -= GROUP_BYTES + group.len() + gone.bytes();
                }
            }
            StreamChange::SetConsumer { group, consumer, seen } => {
                self.alter(group, |group| group.set_consumer(consumer, seen));
            }
            StreamChange::DropConsumer { group, consumer } => self.alter(group, |group| group.drop_consumer(consumer)),
            StreamChange::SetPending { group, consumer, deliveries } => self.alter(group, |group| {
                items::deliveries(deliveries).for_each(|delivery| group.set_pending(consumer, delivery));
            }),
            StreamChange::DropPending { group, ids } => {
                self.alter(group, |group| items::ids(ids).for_each(|id| group.drop_pending(id)));
            }
        }
    }

    fn alter(&mut self, name: &[u8], alter: impl FnOnce(&mut Group)) {
        if let Some(group) = self.groups.get_mut(name) {
            let before = group.bytes();
            alter(group);
            self.bytes = self.bytes + group.bytes() - before;
        }
    }
}
