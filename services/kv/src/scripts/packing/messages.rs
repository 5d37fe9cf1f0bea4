//! `cmsgpack`: `pack`, `unpack`, `unpack_one` and `unpack_limit`.

use super::arguments::{RESULTS_MAX, number, optional, text};
use super::message_reader::Reader;
use super::message_writer::put;
use crate::scripts::meter::Meter;
use crate::scripts::raised;
use crate::scripts::turn::spend;
use mlua::{Lua, LuaString, MultiValue, Table, Value};

/// What reading costs besides each byte.
const INSTRUCTIONS: u64 = 50;

fn pack(lua: &Lua, values: &MultiValue) -> mlua::Result<LuaString> {
    if values.is_empty() {
        return Err(raised::argument(lua, 0, "pack", "MessagePack pack needs input."));
    }
    let (mut made, mut meter) = (Vec::new(), Meter::new(lua));
    values.iter().try_for_each(|value| put(&mut made, value, 0, &mut meter))?;
    spend(lua, made.len() as u64)?;
    lua.create_string(&made)
}

/// Reads values from an offset on, `limit` at most; all of them, if both are zero. Of some, it is told first where the next one is.
fn some(lua: &Lua, text: &LuaString, limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let bytes = text.as_bytes();
    let (Ok(from), Ok(most)) = (usize::try_from(offset), usize::try_from(limit)) else {
        // The second number that is told is the length, as with Redis.
        let length = bytes.len();
        let why = format_args!("Invalid request to unpack with offset of {offset} and limit of {length}.");
        return Err(raised::text(lua, why));
    };
    let Some(rest) = bytes.get(from..) else {
        let why = format_args!("Start offset {offset} greater than input length {}.", bytes.len());
        return Err(raised::text(lua, why));
    };
    let takes_all = limit == 0 && offset == 0;
    spend(lua, INSTRUCTIONS + rest.len() as u64)?;
    let (mut reader, mut found) = (Reader::new(lua, rest), Vec::new());
    while reader.left() > 0 && (takes_all || found.len() < most) {
        if found.len() >= RESULTS_MAX {
            let why = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
            return Err(raised::text(lua, why));
        }
        found.push(reader.value(0)?);
    }
    let next = if reader.left() == 0 { -1.0 } else { (bytes.len() - reader.left()) as f64 };
    let next = (!takes_all).then_some(Value::Number(next));
    Ok(next.into_iter().chain(found).collect())
}

/// The library.
///
/// # Errors
/// There is no memory.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(|lua, values: MultiValue| pack(lua, &values))?)?;
    let unpack = lua.create_function(|lua, values: MultiValue| some(lua, &text(lua, &values, 0, "unpack")?, 0, 0))?;
    table.raw_set("unpack", unpack)?;
    let one = lua.create_function(|lua, values: MultiValue| {
        let offset = optional(lua, &values, 1, "unpack_one", 0)?;
        some(lua, &text(lua, &values, 0, "unpack_one")?, 1, offset)
    })?;
    table.raw_set("unpack_one", one)?;
    let limit = lua.create_function(|lua, values: MultiValue| {
        let limit = number(lua, &values, 1, "unpack_limit")? as i64;
        let offset = optional(lua, &values, 2, "unpack_limit", 0)?;
        some(lua, &text(lua, &values, 0, "unpack_limit")?, limit, offset)
    })?;
    table.raw_set("unpack_limit", limit)?;
    for (name, value) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        table.raw_set(name, value)?;
    }
    Ok(table)
}
