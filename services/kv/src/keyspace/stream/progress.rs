//! How far a group has come: how many entries it has read, and how many are before it. Both are known only as long as no entry was
//! removed out of turn there.

use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::group::Group;
use crate::keyspace::stream::id::Id;

/// Whether an entry at or behind `start` was removed.
fn has_holes(stream: &Stream, start: Id) -> bool {
    !stream.is_empty() && stream.removed() != Id::MIN && start <= stream.removed()
}

/// How many entries there have been up to this one, if that is known.
pub fn counter(stream: &Stream, id: Id) -> Option<u64> {
    let (added, length) = (stream.added(), stream.len() as u64);
    if added == 0 || length == 0 && id <= stream.last() || id == stream.last() {
        return Some(added);
    }
    if id > stream.last() {
        return None;
    }
    let first = stream.first();
    let is_whole = stream.removed() == Id::MIN || stream.removed() < first;
    match id.cmp(&first) {
        std::cmp::Ordering::Less if is_whole => Some(added.saturating_sub(length)),
        std::cmp::Ordering::Equal if is_whole => Some(added.saturating_sub(length).saturating_add(1)),
        _ => None,
    }
}

/// How many entries a group that had read so many has read when it has this one, too.
pub fn read_with(stream: &Stream, read: Option<u64>, id: Id) -> Option<u64> {
    match read {
        Some(read) if !has_holes(stream, id) => Some(read.saturating_add(1)),
        read if stream.added() == 0 => read,
        _ => counter(stream, id),
    }
}

/// How many entries are before a group, if that is known.
pub fn lag(stream: &Stream, group: &Group) -> Option<i64> {
    if stream.added() == 0 {
        return Some(0);
    }
    let read = group.read.filter(|_| !has_holes(stream, group.last)).or_else(|| counter(stream, group.last))?;
    Some((stream.added() as i64).wrapping_sub(read as i64))
}
