//! Answers of commands as values of Lua.

use crate::resp::number::{double, integer};
use mlua::{Error, Lua, Table, Value};

/// Answers in answers; commands give a few.
const DEPTH_MAX: usize = 32;

/// A table with one field.
///
/// # Errors
/// There is no memory.
pub fn field(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// An answer as it would be sent, in either version of the protocol.
///
/// # Errors
/// There is no memory; or it is no answer.
pub fn value(lua: &Lua, answer: &[u8]) -> mlua::Result<Value> {
    Reader { lua, rest: answer }.value(DEPTH_MAX)
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

fn broken() -> Error {
    Error::runtime("an answer is broken")
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> mlua::Result<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').ok_or_else(broken)?;
        let (line, rest) = self.rest.split_at_checked(end + 1).ok_or_else(broken)?;
        self.rest = rest;
        Ok(line.trim_ascii_end())
    }

    fn text(&mut self, length: i64) -> mlua::Result<&'a [u8]> {
        let length = usize::try_from(length).map_err(|_| broken())?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(broken)?;
        self.rest = rest.get(2..).unwrap_or_default();
        Ok(text)
    }

    fn string(&self, text: &[u8]) -> mlua::Result<Value> {
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        let depth = depth.checked_sub(1).ok_or_else(broken)?;
        let Some((kind, line)) = self.line()?.split_first() else { return Err(broken()) };
        let number = integer(line).unwrap_or(0);
        match kind {
            b':' => Ok(Value::Number(number as f64)),
            b'$' | b'*' if number < 0 => Ok(Value::Boolean(false)),
            b'$' => {
                let text = self.text(number)?;
                self.string(text)
            }
            b'+' => field(self.lua, "ok", self.string(line)?),
            b'-' => field(self.lua, "err", self.string(line)?),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => field(self.lua, "double", Value::Number(double(line).unwrap_or(0.0))),
            b'(' => field(self.lua, "big_number", self.string(line)?),
            b'=' => self.verbatim(number),
            b'*' | b'>' => {
                let table = self.lua.create_table()?;
                for index in 1..=number {
                    let value = self.value(depth)?;
                    table.raw_set(index, value)?;
                }
                Ok(Value::Table(table))
            }
            b'%' | b'~' => {
                let table = self.named(*kind == b'%', number, depth)?;
                field(self.lua, if *kind == b'%' { "map" } else { "set" }, Value::Table(table))
            }
            _ => Err(broken()),
        }
    }

    /// The pairs of a map, or the members of a set.
    fn named(&mut self, is_map: bool, count: i64, depth: usize) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let name = self.value(depth)?;
            let value = if is_map { self.value(depth)? } else { Value::Boolean(true) };
            table.raw_set(name, value)?;
        }
        Ok(table)
    }

    fn verbatim(&mut self, length: i64) -> mlua::Result<Value> {
        let text = self.text(length)?;
        let table = self.lua.create_table()?;
        table.raw_set("format", self.string(text.get(..3).unwrap_or_default())?)?;
        table.raw_set("string", self.string(text.get(4..).unwrap_or_default())?)?;
        field(self.lua, "verbatim_string", Value::Table(table))
    }
}
