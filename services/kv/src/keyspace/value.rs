//! [`Value`]: what a key has.

use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::sorted::Sorted;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::text::Text;
use crate::resp::number::integer;

/// A string that is no longer is `embstr` to those who ask.
const EMBEDDED_BYTES: usize = 44;

/// What a key has. It is never an empty collection, but it may be an empty stream.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(Text),
    /// A hash.
    Hash(Box<Hash>),
    /// A list.
    List(Box<List>),
    /// A set.
    Set(Box<Set>),
    /// A sorted set.
    Sorted(Box<Sorted>),
    /// A stream.
    Stream(Box<Stream>),
}

impl Value {
    /// As `TYPE` names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::Hash(_) => "hash",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Sorted(_) => "zset",
            Value::Stream(_) => "stream",
        }
    }

    /// As `OBJECT ENCODING` names it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Value::Text(text) if integer(text).is_some() => "int",
            Value::Text(text) if text.len() <= EMBEDDED_BYTES => "embstr",
            Value::Text(_) => "raw",
            Value::Hash(hash) => hash.encoding(),
            Value::List(_) => "quicklist",
            Value::Set(set) => set.encoding(),
            Value::Sorted(sorted) => sorted.encoding(),
            Value::Stream(_) => "stream",
        }
    }

    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::Hash(hash) => hash.bytes(),
            Value::List(list) => list.bytes(),
            Value::Set(set) => set.bytes(),
            Value::Sorted(sorted) => sorted.bytes(),
            Value::Stream(stream) => stream.bytes(),
        }
    }

    /// Whether it is a collection that has nothing, and is gone with its last element.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Text(_) | Value::Stream(_) => false,
            Value::Hash(hash) => hash.len() == 0,
            Value::List(list) => list.len() == 0,
            Value::Set(set) => set.len() == 0,
            Value::Sorted(sorted) => sorted.len() == 0,
        }
    }
}
