//! The elements of a key that are sorted, in their own order.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::keyspace::value::Value;
use bytes::Bytes;
use std::ops::Range;

/// Elements of a list are lent. Others are members of a table, of which copies are made.
fn copied(member: &[u8]) -> Bytes {
    Bytes::copy_from_slice(member)
}

/// How many elements a key has, and whether it is a set, which has no order.
///
/// # Errors
/// [`Fault::WrongType`].
pub fn length(call: &Call<'_>, key: &[u8]) -> Result<(usize, bool), Fault> {
    match call.find(key).map(|entry| &entry.value) {
        None => Ok((0, false)),
        Some(Value::List(list)) => Ok((list.len(), false)),
        Some(Value::Set(set)) => Ok((set.len(), true)),
        Some(Value::Sorted(sorted)) => Ok((sorted.len(), false)),
        Some(_) => Err(Fault::WrongType),
    }
}

/// All elements.
pub fn all(call: &Call<'_>, key: &[u8]) -> Vec<Bytes> {
    match call.find(key).map(|entry| &entry.value) {
        Some(Value::List(list)) => list.iter().cloned().collect(),
        Some(Value::Set(set)) => set.iter().map(copied).collect(),
        Some(Value::Sorted(sorted)) => sorted.iter().map(|(member, _)| copied(member)).collect(),
        _ => Vec::new(),
    }
}

/// Some of the elements, counted from the end if it `is_reversed`. A set has no end: it is taken as it is.
pub fn some(call: &Call<'_>, key: &[u8], range: Range<usize>, is_reversed: bool) -> Vec<Bytes> {
    let (start, count) = (range.start, range.len());
    match call.find(key).map(|entry| &entry.value) {
        Some(Value::List(list)) if is_reversed => list.iter().rev().skip(start).take(count).cloned().collect(),
        Some(Value::List(list)) => list.range(start, range.end).cloned().collect(),
        Some(Value::Set(set)) => set.iter().skip(start).take(count).map(copied).collect(),
        Some(Value::Sorted(sorted)) if is_reversed => {
            let from = sorted.order().len().saturating_sub(start + 1);
            sorted.order().down_from(from).take(count).map(|(_, member)| copied(member)).collect()
        }
        Some(Value::Sorted(sorted)) => {
            sorted.order().from(start).take(count).map(|(_, member)| copied(member)).collect()
        }
        _ => Vec::new(),
    }
}
