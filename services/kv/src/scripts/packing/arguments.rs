//! What functions of these libraries are given, and what they may give.

use crate::scripts::raised;
use mlua::{Error, Lua, LuaString, MultiValue, Value};

/// Bytes of a string that is made at once.
pub const MADE_BYTES_MAX: usize = 64 << 20;
/// Values that are given at once: as many as `unpack` gives.
pub const RESULTS_MAX: usize = 7_998;

/// An argument that is a string, or a number.
///
/// # Errors
/// It is none.
pub fn text(lua: &Lua, values: &MultiValue, index: usize, function: &str) -> mlua::Result<LuaString> {
    let value = values.get(index);
    let text = match value {
        Some(Value::String(text)) => Some(text.clone()),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => lua.coerce_string(number.clone())?,
        _ => None,
    };
    text.ok_or_else(|| raised::of_type(lua, index + 1, function, "string", value))
}

/// An argument that is a number.
///
/// # Errors
/// It is none.
pub fn number(lua: &Lua, values: &MultiValue, index: usize, function: &str) -> mlua::Result<f64> {
    let value = values.get(index).cloned().unwrap_or_default();
    let number = lua.coerce_number(value)?;
    number.ok_or_else(|| raised::of_type(lua, index + 1, function, "number", values.get(index)))
}

/// An argument that is an integer, if it is there.
///
/// # Errors
/// It is no number.
pub fn optional(lua: &Lua, values: &MultiValue, index: usize, function: &str, default: i64) -> mlua::Result<i64> {
    match values.get(index) {
        None | Some(Value::Nil) => Ok(default),
        Some(_) => number(lua, values, index, function).map(|number| number as i64),
    }
}

/// Whether a string that is made is not too long.
///
/// # Errors
/// It is.
pub fn fits(made: &[u8]) -> mlua::Result<()> {
    match made.len() > MADE_BYTES_MAX {
        true => Err(Error::MemoryError("not enough memory".to_owned())),
        false => Ok(()),
    }
}
