//! `bit`: operations on the bits of numbers, as LuaBitOp has them.

use crate::scripts::raised;
use mlua::{Lua, MultiValue, Table, Value};

/// A number as 32 bits: the nearest integer, modulo 2 to the 32.
fn bits(lua: &Lua, values: &MultiValue, index: usize, function: &str) -> mlua::Result<u32> {
    let number = match values.get(index) {
        Some(Value::Integer(number)) => *number as f64,
        Some(Value::Number(number)) => *number,
        Some(Value::String(text)) => crate::resp::number::double(&text.as_bytes())
            .ok_or_else(|| raised::of_type(lua, index + 1, function, "number", values.get(index)))?,
        found => return Err(raised::of_type(lua, index + 1, function, "number", found)),
    };
    // The magic number puts the integer in the low bits of the fraction, as LuaBitOp does it.
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn signed(bits: u32) -> f64 {
    f64::from(bits as i32)
}

type Fold = fn(u32, u32) -> u32;

const FOLDS: [(&str, Fold); 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];

const SHIFTS: [(&str, Fold); 5] = [
    ("lshift", |bits, by| bits << (by & 31)),
    ("rshift", |bits, by| bits >> (by & 31)),
    ("arshift", |bits, by| ((bits as i32) >> (by & 31)) as u32),
    ("rol", |bits, by| bits.rotate_left(by & 31)),
    ("ror", |bits, by| bits.rotate_right(by & 31)),
];

type Change = fn(u32) -> u32;

const PLAIN: [(&str, Change); 3] = [("tobit", |bits| bits), ("bnot", |bits| !bits), ("bswap", u32::swap_bytes)];

fn hexadecimal(lua: &Lua, values: &MultiValue) -> mlua::Result<String> {
    let number = bits(lua, values, 0, "tohex")?;
    let digits = if values.len() > 1 { bits(lua, values, 1, "tohex")? as i32 } else { 8 };
    let text = if digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    let wanted = digits.unsigned_abs().min(8) as usize;
    Ok(text.get(8 - wanted..).unwrap_or_default().to_owned())
}

/// The library.
///
/// # Errors
/// There is no memory.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, fold) in FOLDS {
        let function = lua.create_function(move |lua, values: MultiValue| {
            let mut all = bits(lua, &values, 0, name)?;
            for index in 1..values.len() {
                all = fold(all, bits(lua, &values, index, name)?);
            }
            Ok(signed(all))
        })?;
        table.raw_set(name, function)?;
    }
    for (name, shift) in SHIFTS {
        let function = lua.create_function(move |lua, values: MultiValue| {
            Ok(signed(shift(bits(lua, &values, 0, name)?, bits(lua, &values, 1, name)?)))
        })?;
        table.raw_set(name, function)?;
    }
    for (name, change) in PLAIN {
        let function =
            lua.create_function(move |lua, values: MultiValue| Ok(signed(change(bits(lua, &values, 0, name)?))))?;
        table.raw_set(name, function)?;
    }
    table.raw_set("tohex", lua.create_function(|lua, values: MultiValue| hexadecimal(lua, &values))?)?;
    Ok(table)
}
