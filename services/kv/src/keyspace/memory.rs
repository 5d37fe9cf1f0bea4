//! How much memory keys take, about: what was asked of the allocator, rounded as the C library's does it, and the places of keys and
//! elements in their tables. It is known without a walk, so it is right for elements of equal length and near it for others.

use crate::keyspace::text::Text;
use crate::keyspace::value::Value;
use bytes::Bytes;
use std::mem::size_of;

/// A place in a table's index, by which a key is found: four bytes or eight, a byte of its hash, and the empty ones among them.
const INDEX_BYTES: usize = 12;
/// The hash that a table keeps of each key.
const HASH_BYTES: usize = size_of::<u64>();
/// A name in a table.
const NAME_BYTES: usize = size_of::<Box<[u8]>>();
/// What a database keeps of a key: its value, when it expires, and its use.
const ENTRY_BYTES: usize = size_of::<(Value, i64, u32)>();
/// A key's place in its database.
const KEY_PLACE_BYTES: usize = HASH_BYTES + NAME_BYTES + ENTRY_BYTES + INDEX_BYTES;
/// The place of a key that expires, among those.
const VOLATILE_PLACE_BYTES: usize = HASH_BYTES + NAME_BYTES + INDEX_BYTES;
/// A member among those that are in order. Chunks of them are not full.
const RANKED_BYTES: usize = (size_of::<f64>() + NAME_BYTES) * 4 / 3;

/// A stream's entry in its tree, whose nodes are not full.
const STREAM_ENTRY_BYTES: usize = (2 * size_of::<u64>() + NAME_BYTES) * 4 / 3;

/// What so many bytes take of the heap.
#[inline]
pub fn allocated(bytes: usize) -> usize {
    // A header before each piece, steps of sizes, and the least one.
    const HEADER: usize = 8;
    const STEP: usize = 16;
    const LEAST: usize = 32;
    if bytes == 0 { 0 } else { ((bytes + HEADER).next_multiple_of(STEP)).max(LEAST) }
}

/// What so many pieces take that have so many bytes together, as if they were equally long.
fn pieces(count: usize, bytes: usize) -> usize {
    bytes.checked_div(count).map_or(0, |each| count * allocated(each))
}

/// What a value takes besides its place.
#[inline]
pub fn of_value(value: &Value) -> usize {
    match value {
        Value::Text(text) => allocated(text.len()),
        Value::Hash(hash) => {
            let count = hash.len();
            let places = count * (HASH_BYTES + NAME_BYTES + size_of::<Text>() + INDEX_BYTES);
            let table = || places + pieces(2 * count, hash.content_bytes());
            size_of_val(hash.as_ref()) + hash.packed_bytes().map_or_else(table, allocated)
        }
        Value::List(list) => {
            size_of_val(list.as_ref()) + list.len() * size_of::<Bytes>() + pieces(list.len(), list.content_bytes())
        }
        Value::Set(set) => {
            let places = set.len() * (HASH_BYTES + NAME_BYTES + INDEX_BYTES);
            let table = || places + pieces(set.len(), set.content_bytes());
            size_of_val(set.as_ref()) + set.packed_bytes().map_or_else(table, allocated)
        }
        Value::Sorted(sorted) => {
            let count = sorted.len();
            let places = count * (HASH_BYTES + NAME_BYTES + size_of::<f64>() + INDEX_BYTES + RANKED_BYTES);
            // A member is there twice: by its name, and in its order.
            size_of_val(sorted.as_ref()) + places + 2 * pieces(count, sorted.content_bytes())
        }
        Value::Stream(stream) => {
            size_of_val(stream.as_ref()) + stream.len() * STREAM_ENTRY_BYTES + pieces(stream.len(), stream.bytes())
        }
    }
}

/// What a key takes besides its value.
#[inline]
pub fn of_name(key: &[u8], expires: bool) -> usize {
    let place = if expires { KEY_PLACE_BYTES + VOLATILE_PLACE_BYTES } else { KEY_PLACE_BYTES };
    place + if expires { 2 } else { 1 } * allocated(key.len())
}

/// What a key takes with all that it has.
pub fn of_key(key: &[u8], value: &Value, expires: bool) -> usize {
    of_name(key, expires) + of_value(value)
}

/// What tables take for keys: those that expire, and all. It is told to those who ask.
pub fn of_tables(keys: usize, volatile: usize) -> (usize, usize) {
    (volatile * VOLATILE_PLACE_BYTES, keys * KEY_PLACE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_the_heap_have_steps() {
        assert_eq!([0, 1, 24, 25, 40, 41].map(allocated), [0, 32, 32, 48, 48, 64]);
    }
}
