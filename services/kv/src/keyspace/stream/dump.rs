//! A stream as changes that make it.

use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::group::Group;
use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::items::{Delivery, put_delivery};

/// A change has no more bytes of deliveries than this, and those of the names that it repeats.
const DELIVERIES_BYTES: usize = 64 << 10;

/// Gives the changes by which a stream that has nothing becomes `stream`.
pub fn changes(stream: &Stream, mut give: impl FnMut(StreamChange<'_>)) {
    stream.range(Id::MIN, Id::MAX).for_each(|(id, fields)| give(StreamChange::Append { id, fields }));
    give(StreamChange::SetMarks { last: stream.last(), added: stream.added(), removed: stream.removed() });
    for (name, group) in stream.groups() {
        give(StreamChange::SetGroup { group: name, last: group.last, read: group.read });
        changes_of_group(name, group, &mut give);
    }
}

fn changes_of_group(name: &[u8], group: &Group, give: &mut impl FnMut(StreamChange<'_>)) {
    for (consumer, found) in group.consumers() {
        give(StreamChange::SetConsumer { group: name, consumer, seen: found.seen });
        let mut deliveries = Vec::new();
        for id in found.pending() {
            let Some(pending) = group.pending().get(id) else { continue };
            put_delivery(&mut deliveries, Delivery { id: *id, at: pending.at, count: pending.count });
            if deliveries.len() >= DELIVERIES_BYTES + name.len() + consumer.len() {
                give(StreamChange::SetPending { group: name, consumer, deliveries: &deliveries });
                deliveries.clear();
            }
        }
        if !deliveries.is_empty() {
            give(StreamChange::SetPending { group: name, consumer, deliveries: &deliveries });
        }
    }
}
