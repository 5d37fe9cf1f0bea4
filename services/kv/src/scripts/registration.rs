//! `redis.register_function`: what a library offers.

use crate::scripts::raised::code;
use crate::scripts::shebang::{flag, named};
use crate::scripts::store::Registered;
use crate::scripts::turn::Turn;
use mlua::{Error, Function, Lua, LuaString, MultiValue, Table, Value};

/// Functions of a library, at most.
const FUNCTIONS_MAX: usize = 1_024;

fn flags(value: &Value) -> mlua::Result<Vec<&'static str>> {
    let refused = || code("ERR flags argument to redis.register_function must be a table representing function flags");
    let Value::Table(table) = value else { return Err(refused()) };
    let mut flags = Vec::new();
    for index in 1..=table.raw_len() {
        let known = match table.raw_get::<Value>(index)? {
            Value::String(name) => flag(&name.as_bytes()),
            _ => None,
        };
        let known = known.ok_or_else(|| code("ERR unknown flag given"))?;
        if !flags.contains(&known) {
            flags.push(known);
        }
    }
    Ok(flags)
}

/// What was given: the name, the function, and what is said of it.
type Given = (LuaString, Function, Option<Vec<u8>>, Vec<&'static str>);

fn by_names(table: &Table) -> mlua::Result<Given> {
    let (mut name, mut callback, mut description, mut known) = (None, None, None, Vec::new());
    for pair in table.pairs::<Value, Value>() {
        let (Value::String(field), value) = pair? else {
            return Err(code("ERR named argument key given to redis.register_function is not a string"));
        };
        match (field.as_bytes().to_ascii_lowercase().as_slice(), value) {
            (b"function_name", Value::String(text)) => name = Some(text),
            (b"function_name", _) => {
                return Err(code("ERR function_name argument given to redis.register_function must be a string"));
            }
            (b"description", Value::String(text)) => description = Some(text.as_bytes().to_vec()),
            (b"description", _) => {
                return Err(code("ERR description argument given to redis.register_function must be a string"));
            }
            (b"callback", Value::Function(function)) => callback = Some(function),
            (b"callback", _) => {
                return Err(code("ERR callback argument given to redis.register_function must be a function"));
            }
            (b"flags", value) => known = flags(&value)?,
            _ => return Err(code("ERR unknown argument given to redis.register_function")),
        }
    }
    let name = name.ok_or_else(|| code("ERR redis.register_function must get a function name argument"))?;
    let callback = callback.ok_or_else(|| code("ERR redis.register_function must get a callback argument"))?;
    Ok((name, callback, description, known))
}

fn given(lua: &Lua, values: &MultiValue) -> mlua::Result<Given> {
    let mut values = values.iter().cloned();
    match (values.next(), values.next(), values.next()) {
        (Some(Value::Table(table)), None, _) => by_names(&table),
        (Some(_), None, _) => Err(code(
            "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        )),
        (Some(name), Some(callback), None) => {
            let name = match name {
                Value::String(_) | Value::Integer(_) | Value::Number(_) => lua.coerce_string(name)?,
                _ => None,
            };
            let name = name.ok_or_else(|| code("ERR first argument to redis.register_function must be a string"))?;
            let Value::Function(callback) = callback else {
                return Err(code("ERR second argument to redis.register_function must be a function"));
            };
            Ok((name, callback, None, Vec::new()))
        }
        _ => Err(code("ERR wrong number of arguments to redis.register_function")),
    }
}

/// Notes a function; the name that it is found by, and itself.
///
/// # Errors
/// As Redis words them.
pub fn register(lua: &Lua, values: MultiValue) -> Result<(String, Function), Error> {
    let (name, callback, description, flags) = given(lua, &values)?;
    let name = named(&name.as_bytes()).map(str::to_owned).ok_or_else(|| {
        code("ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long")
    })?;
    let turn = lua.app_data_mut::<Turn>();
    let Some(mut turn) = turn else { return Err(code("ERR no library is being loaded")) };
    let Some(all) = &mut turn.loading else {
        return Err(code("ERR redis.register_function can only be called on FUNCTION LOAD command"));
    };
    if all.iter().any(|other| other.name.eq_ignore_ascii_case(&name)) {
        return Err(code("ERR Function already exists in the library"));
    }
    if all.len() >= FUNCTIONS_MAX {
        return Err(code("ERR the library has too many functions"));
    }
    let found_by = name.to_ascii_lowercase();
    all.push(Registered { name, description, flags });
    Ok((found_by, callback))
}
