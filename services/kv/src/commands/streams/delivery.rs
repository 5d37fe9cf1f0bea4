//! Entries are given to those who read, at once or when they come. What a group gives is written down in the same record.

use crate::commands::streams::{answer, find};
use crate::engine::fault::Fault;
use crate::engine::reading::{Reader, Reading};
use crate::engine::state::State;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::items::{Delivery, put_delivery};
use crate::keyspace::stream::progress::read_with;
use crate::resp::reply::Reply;

/// A key, with its database.
type At<'a> = (u8, &'a [u8]);

fn change(state: &mut State, (database, key): At<'_>, what: StreamChange<'_>) {
    state.keyspace.change(database, Change::Stream { key, what });
}

/// The event of a consumer that is made.
pub const CONSUMER_MADE: &str = "xgroup-createconsumer";

/// A consumer has asked. It is made if there is none.
pub fn see(state: &mut State, at: At<'_>, Reader { group, consumer, .. }: &Reader) {
    let seen = state.keyspace.now_ms;
    let is_known = find::group(state, at.0, (at.1, group), "").is_ok_and(|(_, it)| it.consumer(consumer).is_some());
    change(state, at, StreamChange::SetConsumer { group, consumer, seen });
    if !is_known {
        state.keyspace.events.note(Kinds::STREAM, CONSUMER_MADE, at.0, at.1);
    }
}

/// Answers entries behind an id.
pub fn plain(state: &State, (database, key): At<'_>, after: Id, count: usize, reply: &mut Reply) {
    let Ok(Some(stream)) = find::stream(state, database, key) else { return reply.array(0) };
    let found: Vec<(Id, &[u8])> = stream.after(after).take(count).collect();
    answer::entries(reply, &found);
}

/// Answers entries that the group has given to nobody yet, and gives them to a consumer that is there.
pub fn new(state: &mut State, at: At<'_>, reader: &Reader, count: usize, reply: &mut Reply) {
    let Reader { group: name, consumer, needs_no_acknowledgement } = reader;
    let most = match needs_no_acknowledgement {
        true => count,
        false => count.min(find::room(state, name.len() + consumer.len())),
    };
    let now = state.keyspace.now_ms;
    let Ok((stream, group)) = find::group(state, at.0, (at.1, name), "") else { return reply.array(0) };
    let found: Vec<(Id, &[u8])> = stream.after(group.last).take(most).collect();
    let (mut last, mut read, mut deliveries) = (group.last, group.read, Vec::new());
    for (id, _) in &found {
        (last, read) = (*id, read_with(stream, read, *id));
        if !needs_no_acknowledgement {
            put_delivery(&mut deliveries, Delivery { id: *id, at: now, count: 1 });
        }
    }
    answer::entries(reply, &found);
    if last != group.last {
        change(state, at, StreamChange::SetGroup { group: name, last, read });
    }
    if !deliveries.is_empty() {
        change(state, at, StreamChange::SetPending { group: name, consumer, deliveries: &deliveries });
    }
}

/// Answers what is pending for a consumer behind an id. It was delivered once more then. Entries that are gone are nothing.
pub fn again(state: &mut State, at: At<'_>, reader: &Reader, after: Id, count: usize, reply: &mut Reply) {
    let Reader { group: name, consumer, .. } = reader;
    let most = count.min(find::room(state, name.len() + consumer.len()));
    let now = state.keyspace.now_ms;
    let Ok((stream, group)) = find::group(state, at.0, (at.1, name), "") else { return reply.array(0) };
    let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
    let pending = group.consumer(consumer).into_iter().flat_map(|found| found.pending().range(behind));
    let found: Vec<Id> = pending.take(most).copied().collect();
    let mut deliveries = Vec::new();
    reply.array(found.len());
    for id in found {
        let Some(packed) = stream.get(id) else {
            reply.array(2);
            answer::id(reply, id);
            reply.null_array();
            continue;
        };
        answer::entry(reply, id, packed);
        let before = group.pending().get(&id).map_or(0, |pending| pending.count);
        put_delivery(&mut deliveries, Delivery { id, at: now, count: before.saturating_add(1) });
    }
    if !deliveries.is_empty() {
        change(state, at, StreamChange::SetPending { group: name, consumer, deliveries: &deliveries });
    }
}

/// Answers a client that waits, if the key has something for it, or can't have it any more.
pub fn serve(
    state: &mut State,
    at: At<'_>,
    keys: &[Box<[u8]>],
    reading: &Reading,
    reply: &mut Reply,
) -> Option<Result<(), Fault>> {
    let (database, key) = at;
    let found = find::stream(state, database, key).ok().flatten();
    let (stream, after) = match (found, &reading.reader) {
        (None, None) => return None,
        (None, Some(_)) => return Some(Err(Fault::Said("UNBLOCKED the stream key no longer exists"))),
        (Some(stream), None) => {
            let place = keys.iter().position(|wanted| wanted.as_ref() == key)?;
            (stream, *reading.after.get(place)?)
        }
        (Some(stream), Some(reader)) => match stream.group(&reader.group) {
            None => {
                return Some(Err(Fault::Said(
                    "NOGROUP the consumer group this client was blocked on no longer exists",
                )));
            }
            Some(group) => (stream, group.last),
        },
    };
    stream.after(after).next()?;
    answer::streams(reply, 1);
    answer::stream(reply, key);
    match &reading.reader {
        None => plain(state, at, after, reading.count, reply),
        Some(reader) => {
            see(state, at, reader);
            new(state, at, reader, reading.count, reply);
        }
    }
    Some(Ok(()))
}
