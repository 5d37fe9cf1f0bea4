//! A key as changes that make it: what a checkpoint has of it, and what a copy of it is.

use crate::keyspace::change::{Change, End};
use crate::keyspace::database::Entry;
use crate::keyspace::stream::dump;
use crate::keyspace::value::Value;

/// Gives the changes by which `key` becomes what `entry` is, whatever it was before.
pub fn changes(key: &[u8], entry: &Entry, mut give: impl FnMut(Change<'_>)) {
    if let Value::Text(text) = &entry.value {
        return give(Change::Put { key, expires: entry.expires, text });
    }
    give(Change::Delete { key });
    match &entry.value {
        Value::Text(_) => {}
        Value::Hash(hash) => {
            hash.iter().for_each(|(field, value)| give(Change::SetField { key, field, value: &value }))
        }
        Value::List(list) => list.iter().for_each(|element| give(Change::Push { key, end: End::Back, element })),
        Value::Set(set) => set.iter().for_each(|member| give(Change::AddMember { key, member })),
        Value::Sorted(sorted) => {
            sorted.iter().for_each(|(member, score)| give(Change::SetScore { key, member, score }));
        }
        Value::Stream(stream) => dump::changes(stream, |what| give(Change::Stream { key, what })),
    }
    if entry.expires != 0 {
        give(Change::Expire { key, at: entry.expires });
    }
}
