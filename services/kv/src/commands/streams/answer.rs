//! Entries and ids as they are answered.

use crate::keyspace::stream::fields;
use crate::keyspace::stream::id::Id;
use crate::resp::reply::Reply;

/// An id.
pub fn id(reply: &mut Reply, id: Id) {
    reply.bulk(id.to_string().as_bytes());
}

/// An entry: its id, and its fields.
pub fn entry(reply: &mut Reply, of: Id, packed: &[u8]) {
    reply.array(2);
    id(reply, of);
    reply.array(fields::unpack(packed).count());
    fields::unpack(packed).for_each(|piece| reply.bulk(piece));
}

/// Entries.
pub fn entries(reply: &mut Reply, found: &[(Id, &[u8])]) {
    reply.array(found.len());
    found.iter().for_each(|(id, packed)| entry(reply, *id, packed));
}

/// Begins the answer of a reading, of so many streams.
pub fn streams(reply: &mut Reply, count: usize) {
    if reply.is_three() { reply.map(count) } else { reply.array(count) }
}

/// Begins one of its streams.
pub fn stream(reply: &mut Reply, key: &[u8]) {
    if !reply.is_three() {
        reply.array(2);
    }
    reply.bulk(key);
}
