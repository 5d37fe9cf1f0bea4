//! The library: its functions, and those that tell and change [settings](super::settings).

use super::options::{self, Place};
use super::settings::Settings;
use super::{reader, writer};
use crate::scripts::raised;
use crate::scripts::turn::spend;
use mlua::{Lua, MultiValue, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// What reading costs besides each byte, and what a library of a script's own costs.
const INSTRUCTIONS: u64 = 50;
const LIBRARY_INSTRUCTIONS: u64 = 2_000;

/// The library that all scripts share.
///
/// # Errors
/// There is no memory.
pub fn shared(lua: &Lua) -> mlua::Result<Table> {
    library(lua, &Place::Shared)
}

fn library(lua: &Lua, place: &Place) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = place.clone();
    let encode = lua.create_function(move |lua, values: MultiValue| {
        let text = writer::encode(lua, &values, own.get(lua))?;
        spend(lua, text.len() as u64)?;
        lua.create_string(text)
    })?;
    let own = place.clone();
    let decode = lua.create_function(move |lua, values: MultiValue| {
        let (Some(value), 1) = (values.front(), values.len()) else {
            return Err(raised::argument(lua, 1, "decode", "expected 1 argument"));
        };
        let text = match value {
            Value::String(_) | Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone())?,
            _ => None,
        };
        let text = text.ok_or_else(|| raised::of_type(lua, 1, "decode", "string", Some(value)))?;
        let text = text.as_bytes();
        spend(lua, INSTRUCTIONS + text.len() as u64)?;
        reader::decode(lua, &text, own.get(lua))
    })?;
    let new = lua.create_function(|lua, _: MultiValue| {
        spend(lua, LIBRARY_INSTRUCTIONS)?;
        library(lua, &Place::Own(Rc::new(Cell::new(Settings::default()))))
    })?;
    table.raw_set("encode", encode)?;
    table.raw_set("decode", decode)?;
    table.raw_set("new", new)?;
    options::install(lua, &table, place)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}
