//! `struct`: `pack`, `unpack` and `size`.

use super::arguments::{RESULTS_MAX, fits, number, optional, text};
use super::format::{Format, Item, Step};
use crate::scripts::meter::Meter;
use crate::scripts::raised;
use crate::scripts::turn::spend;
use mlua::{Lua, LuaString, MultiValue, Table, Value};

/// The lowest bytes of a number, as many as `size` says.
fn integer_bytes(number: f64, size: usize, is_big: bool) -> Vec<u8> {
    let whole = if number < 0.0 { number as i64 as u64 } else { number as u64 };
    let mut bytes: Vec<u8> = whole.to_le_bytes().into_iter().chain(std::iter::repeat(0)).take(size).collect();
    if is_big {
        bytes.reverse();
    }
    bytes
}

/// The number that bytes are. Of more than eight, the lowest count.
fn integer(bytes: &[u8], is_signed: bool, is_big: bool) -> f64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    let number = if is_big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) };
    let unused = 64 - 8 * bytes.len().min(8) as u32;
    match is_signed {
        true => (number.checked_shl(unused).unwrap_or(0) as i64).checked_shr(unused).unwrap_or(0) as f64,
        false => number as f64,
    }
}

fn ordered<const N: usize>(mut bytes: [u8; N], is_big: bool) -> [u8; N] {
    if is_big {
        bytes.reverse();
    }
    bytes
}

fn pack(lua: &Lua, values: &MultiValue) -> mlua::Result<LuaString> {
    let format = text(lua, values, 0, "pack")?;
    let format = format.as_bytes();
    // Behind the arguments there is nothing, as with Redis, and not no value.
    let values = &values.iter().cloned().chain([Value::Nil]).collect::<MultiValue>();
    let (mut format, mut made, mut index) = (Format::new(&format), Vec::new(), 1);
    let mut meter = Meter::new(lua);
    while let Some(Step { item, size, padding }) = format.next(lua, "pack", made.len())? {
        meter.step()?;
        made.resize(made.len() + padding, 0);
        let is_value = !matches!(item, Item::Pad | Item::Control);
        match item {
            Item::Integer(_) => {
                made.extend(integer_bytes(number(lua, values, index, "pack")?, size, format.is_big));
            }
            Item::Float => {
                let number = number(lua, values, index, "pack")? as f32;
                made.extend(ordered(number.to_le_bytes(), format.is_big));
            }
            Item::Double => {
                let number = number(lua, values, index, "pack")?;
                made.extend(ordered(number.to_le_bytes(), format.is_big));
            }
            Item::Pad => made.push(0),
            Item::Bytes | Item::Text => {
                let string = text(lua, values, index, "pack")?;
                let string = string.as_bytes();
                let wanted = if size == 0 { string.len() } else { size };
                // The place that is told is that of the argument behind it, as with Redis.
                let cut = string.get(..wanted);
                made.extend_from_slice(
                    cut.ok_or_else(|| raised::argument(lua, index + 2, "pack", "string too short"))?,
                );
                made.extend((item == Item::Text).then_some(0));
            }
            Item::Control => {}
        }
        index += usize::from(is_value);
        fits(&made)?;
    }
    spend(lua, made.len() as u64)?;
    lua.create_string(&made)
}

fn unpack(lua: &Lua, values: &MultiValue) -> mlua::Result<MultiValue> {
    let (format, data) = (text(lua, values, 0, "unpack")?, text(lua, values, 1, "unpack")?);
    let (format, data) = (format.as_bytes(), data.as_bytes());
    // A place before the first byte is one far behind the last, as with Redis.
    let first = usize::try_from(optional(lua, values, 2, "unpack", 1)?).unwrap_or(usize::MAX);
    let first = first.checked_sub(1);
    let mut at = first.ok_or_else(|| raised::argument(lua, 3, "unpack", "offset must be 1 or greater"))?;
    let (mut format, mut found, mut meter) = (Format::new(&format), Vec::new(), Meter::new(lua));
    let too_short = || raised::argument(lua, 2, "unpack", "data string too short");
    while let Some(Step { item, mut size, padding }) = format.next(lua, "unpack", at)? {
        at = at.saturating_add(padding);
        if found.len() >= RESULTS_MAX {
            return Err(raised::text(lua, "stack overflow (too many results)"));
        }
        if item == Item::Bytes && size == 0 {
            let before = found.pop().as_ref().and_then(|value| raised::number(Some(value)));
            size = before.ok_or_else(|| raised::text(lua, "format 'c0' needs a previous size"))? as usize;
        }
        let rest = data.get(at..).ok_or_else(too_short)?;
        let piece = rest.get(..size).ok_or_else(too_short)?;
        match item {
            Item::Integer(is_signed) => found.push(Value::Number(integer(piece, is_signed, format.is_big))),
            Item::Float => {
                let bytes = piece.first_chunk().map_or([0; 4], |bytes| ordered(*bytes, format.is_big));
                found.push(Value::Number(f32::from_le_bytes(bytes).into()));
            }
            Item::Double => {
                let bytes = piece.first_chunk().map_or([0; 8], |bytes| ordered(*bytes, format.is_big));
                found.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            Item::Bytes => found.push(Value::String(lua.create_string(piece)?)),
            Item::Text => {
                let end = memchr::memchr(0, rest).ok_or_else(|| raised::text(lua, "unfinished string in data"))?;
                found.push(Value::String(lua.create_string(rest.get(..end).unwrap_or_default())?));
                size = end + 1;
            }
            Item::Pad | Item::Control => {}
        }
        meter.steps(1 + size as u64 / 16)?;
        at += size;
    }
    found.push(Value::Number(at as f64 + 1.0));
    Ok(found.into_iter().collect())
}

fn size(lua: &Lua, values: &MultiValue) -> mlua::Result<f64> {
    let format = text(lua, values, 0, "size")?;
    let format = format.as_bytes();
    let (mut format, mut all, mut meter) = (Format::new(&format), 0_usize, Meter::new(lua));
    while let Some(Step { item, size, padding }) = format.next(lua, "size", all)? {
        meter.step()?;
        if item == Item::Text {
            return Err(raised::argument(lua, 1, "size", "option 's' has no fixed size"));
        }
        if item == Item::Bytes && size == 0 {
            return Err(raised::argument(lua, 1, "size", "option 'c0' has no fixed size"));
        }
        all = all.saturating_add(padding).saturating_add(size);
    }
    Ok(all as f64)
}

/// The library.
///
/// # Errors
/// There is no memory.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(|lua, values: MultiValue| pack(lua, &values))?)?;
    table.raw_set("unpack", lua.create_function(|lua, values: MultiValue| unpack(lua, &values))?)?;
    table.raw_set("size", lua.create_function(|lua, values: MultiValue| size(lua, &values))?)?;
    Ok(table)
}
