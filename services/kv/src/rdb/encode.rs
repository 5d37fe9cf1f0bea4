//! Writing values, in forms that every version of Redis reads.

use super::kind::of_value as kind;
use super::lengths::{length, string};
use super::stream;
use crate::keyspace::value::Value;
use std::io::{self, Write};

/// The type as which a value is written.
pub fn number(value: &Value) -> u8 {
    match value {
        Value::Text(_) => kind::STRING,
        Value::List(_) => kind::LIST,
        Value::Set(_) => kind::SET,
        Value::Hash(_) => kind::HASH,
        Value::Sorted(_) => kind::ZSET_2,
        Value::Stream(_) => kind::STREAM_2,
    }
}

/// Writes a value, without its [type](number).
///
/// # Errors
/// As the target has it.
pub fn value(value: &Value, to: &mut impl Write) -> io::Result<()> {
    match value {
        Value::Text(text) => string(text, to),
        Value::List(list) => {
            length(list.len() as u64, to)?;
            list.iter().try_for_each(|element| string(element, to))
        }
        Value::Set(set) => {
            length(set.len() as u64, to)?;
            set.iter().try_for_each(|member| string(member, to))
        }
        Value::Hash(hash) => {
            length(hash.len() as u64, to)?;
            hash.iter().try_for_each(|(field, value)| {
                string(field, to)?;
                string(&value, to)
            })
        }
        Value::Sorted(sorted) => {
            length(sorted.len() as u64, to)?;
            sorted.iter().try_for_each(|(member, score)| {
                string(member, to)?;
                to.write_all(&score.to_le_bytes())
            })
        }
        Value::Stream(found) => stream::writer::write(found, to),
    }
}
