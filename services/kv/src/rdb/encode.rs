//! Writing values, in forms that every version of Redis reads.

use super::kind::of_value as kind;
use crate::keyspace::value::Value;
use std::io::{self, Write};

/// Writes a length.
///
/// # Errors
/// As the target has it; a vector has none.
pub fn length(length: usize, to: &mut impl Write) -> io::Result<()> {
    match length {
        0..=0x3f => to.write_all(&[length as u8]),
        0x40..=0x3fff => to.write_all(&[0x40 | (length >> 8) as u8, length as u8]),
        _ => match u32::try_from(length) {
            Ok(length) => {
                to.write_all(&[0x80])?;
                to.write_all(&length.to_be_bytes())
            }
            Err(_) => {
                to.write_all(&[0x81])?;
                to.write_all(&(length as u64).to_be_bytes())
            }
        },
    }
}

/// Writes a string.
///
/// # Errors
/// As the target has it.
pub fn string(text: &[u8], to: &mut impl Write) -> io::Result<()> {
    length(text.len(), to)?;
    to.write_all(text)
}

/// The type as which a value is written; `None`: streams are not written.
pub fn number(value: &Value) -> Option<u8> {
    match value {
        Value::Text(_) => Some(kind::STRING),
        Value::List(_) => Some(kind::LIST),
        Value::Set(_) => Some(kind::SET),
        Value::Hash(_) => Some(kind::HASH),
        Value::Sorted(_) => Some(kind::ZSET_2),
        Value::Stream(_) => None,
    }
}

/// Writes a value that has a [type](number), without this.
///
/// # Errors
/// As the target has it.
pub fn value(value: &Value, to: &mut impl Write) -> io::Result<()> {
    match value {
        Value::Text(text) => string(text, to),
        Value::List(list) => {
            length(list.len(), to)?;
            list.iter().try_for_each(|element| string(element, to))
        }
        Value::Set(set) => {
            length(set.len(), to)?;
            set.iter().try_for_each(|member| string(member, to))
        }
        Value::Hash(hash) => {
            length(hash.len(), to)?;
            hash.iter().try_for_each(|(field, value)| {
                string(field, to)?;
                string(value, to)
            })
        }
        Value::Sorted(sorted) => {
            length(sorted.len(), to)?;
            sorted.iter().try_for_each(|(member, score)| {
                string(member, to)?;
                to.write_all(&score.to_le_bytes())
            })
        }
        Value::Stream(_) => Ok(()),
    }
}
