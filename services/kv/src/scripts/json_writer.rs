//! `cjson.encode`.

use crate::scripts::decimals::general;
use crate::scripts::raised::{self, name_of};
use mlua::{Error, Lua, MultiValue, Table, Value};

/// Tables in tables.
const DEPTH_MAX: usize = 200;
/// Bytes of a text that is made.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// An array may have holes, if it has no more places than this, or than twice its elements.
const SPARSE_PLACES: u64 = 10;

/// A value as JSON.
///
/// # Errors
/// It can't be written.
pub fn encode(lua: &Lua, values: &MultiValue) -> mlua::Result<Vec<u8>> {
    let (Some(value), 1) = (values.front(), values.len()) else {
        return Err(raised::argument(lua, 1, "encode", "expected 1 argument"));
    };
    let mut text = Vec::new();
    write(lua, value, 0, &mut text)?;
    Ok(text)
}

fn refused(lua: &Lua, value: &Value, why: &str) -> Error {
    raised::text(lua, format_args!("Cannot serialise {}: {why}", name_of(value)))
}

fn write(lua: &Lua, value: &Value, depth: usize, text: &mut Vec<u8>) -> mlua::Result<()> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::MemoryError("not enough memory".to_owned()));
    }
    match value {
        Value::Nil => text.extend_from_slice(b"null"),
        Value::LightUserData(pointer) if pointer.0.is_null() => text.extend_from_slice(b"null"),
        Value::Boolean(is_true) => text.extend_from_slice(if *is_true { b"true" } else { b"false" }),
        Value::Integer(number) => text.extend_from_slice(general(*number as f64, 14).as_bytes()),
        Value::Number(number) if number.is_finite() => text.extend_from_slice(general(*number, 14).as_bytes()),
        Value::Number(_) => return Err(refused(lua, value, "must not be NaN or Inf")),
        Value::String(string) => quote(&string.as_bytes(), text),
        Value::Table(table) if depth < DEPTH_MAX => return write_table(lua, table, depth + 1, text),
        Value::Table(_) => {
            return Err(raised::text(lua, format_args!("Cannot serialise, excessive nesting ({})", depth + 1)));
        }
        other => return Err(refused(lua, other, "type not supported")),
    }
    Ok(())
}

/// How many places an array has; `None`: the table is an object.
fn places(lua: &Lua, table: &Table) -> mlua::Result<Option<u64>> {
    let (mut most, mut count) = (0, 0_u64);
    for pair in table.pairs::<Value, Value>() {
        let place = match pair?.0 {
            Value::Integer(place) if place > 0 => place as u64,
            Value::Number(place) if place > 0.0 && place.trunc() == place && place < 1e15 => place as u64,
            _ => return Ok(None),
        };
        (most, count) = (most.max(place), count + 1);
    }
    if most > count.saturating_mul(2) && most > SPARSE_PLACES {
        return Err(raised::text(lua, "Cannot serialise table: excessively sparse array"));
    }
    Ok(Some(most).filter(|most| *most > 0))
}

fn write_table(lua: &Lua, table: &Table, depth: usize, text: &mut Vec<u8>) -> mlua::Result<()> {
    if let Some(places) = places(lua, table)? {
        text.push(b'[');
        for place in 1..=places {
            if place > 1 {
                text.push(b',');
            }
            write(lua, &table.raw_get::<Value>(place)?, depth, text)?;
        }
        text.push(b']');
        return Ok(());
    }
    text.push(b'{');
    let start = text.len();
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        if text.len() > start {
            text.push(b',');
        }
        match &name {
            Value::String(name) => quote(&name.as_bytes(), text),
            Value::Integer(number) => quote(general(*number as f64, 14).as_bytes(), text),
            Value::Number(number) => quote(general(*number, 14).as_bytes(), text),
            other => return Err(refused(lua, other, "table key must be a number or string")),
        }
        text.push(b':');
        write(lua, &value, depth, text)?;
    }
    text.push(b'}');
    Ok(())
}

fn quote(string: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    for byte in string {
        match byte {
            b'"' | b'\\' | b'/' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            8 => text.extend_from_slice(b"\\b"),
            12 => text.extend_from_slice(b"\\f"),
            0..0x20 | 0x7f => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
}
