//! What the prelude is given: functions of `redis`, and those of Lua's that are written anew.

use crate::limits::REDIS_VERSION;
use crate::scripts::json::library;
use crate::scripts::meter::Meter;
use crate::scripts::packing::{messages, structs};
use crate::scripts::turn::{Failure, Turn, seed, spend};
use crate::scripts::{bits, calls, raised, registration, substitution};
use mlua::chunk::ChunkMode;
use mlua::{Error, Function, Lua, LuaString, MultiValue, Table, Value};
use raised::{Raised, number};
use sha1::{Digest, Sha1};

/// Values that `unpack` gives at most, as in Lua 5.1.
const UNPACKED_MAX: f64 = 7_999.0;
/// Frames that are looked at for the place of an error.
const FRAMES_MAX: usize = 64;
/// Signs of a chunk's name that are kept.
const NAME_SIGNS_MAX: usize = 128;
/// What making a coroutine costs: each counts its own instructions.
const COROUTINE_INSTRUCTIONS: u64 = 1_000;
/// Bytes that are hashed for an instruction.
const BYTES_HASHED: u64 = 4;
/// Bytes of strings that are compared without looking at the clock.
const COMPARED_BYTES_MAX: usize = 1_024;
/// What compiling costs besides each byte.
const COMPILE_INSTRUCTIONS: u64 = 200;

/// The name of a script: the SHA-1 of its text.
pub fn name_of(text: &[u8]) -> String {
    Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha1hex(lua: &Lua, values: &MultiValue) -> mlua::Result<String> {
    let (Some(value), 1) = (values.front(), values.len()) else {
        return Err(raised::code("ERR wrong number of arguments"));
    };
    let text = lua.coerce_string(value.clone())?;
    spend(lua, text.as_ref().map_or(0, |text| text.as_bytes().len() as u64 / BYTES_HASHED))?;
    Ok(text.map_or_else(|| name_of(b""), |text| name_of(&text.as_bytes())))
}

/// `redis.log` writes nothing: the service's log is not its clients'.
fn log(values: &MultiValue) -> mlua::Result<()> {
    if values.len() < 2 {
        return Err(raised::code("ERR redis.log() requires two arguments or more."));
    }
    let level =
        number(values.front()).ok_or_else(|| raised::code("ERR First argument must be a number (log level)."))?;
    if !(0.0..=3.0).contains(&level) {
        return Err(raised::code("ERR Invalid debug level."));
    }
    Ok(())
}

fn set_version(lua: &Lua, values: &MultiValue) -> mlua::Result<()> {
    if values.len() != 1 {
        return Err(raised::code("ERR redis.setresp() requires one argument."));
    }
    let version = number(values.front()).filter(|version| [2.0, 3.0].contains(version));
    let version = version.ok_or_else(|| raised::code("ERR RESP version must be 2 or 3."))?;
    if let Some(mut turn) = lua.app_data_mut::<Turn>() {
        turn.is_three = version == 3.0;
    }
    Ok(())
}

fn set_replication(values: &MultiValue) -> mlua::Result<()> {
    if values.len() != 1 {
        return Err(raised::code("ERR redis.set_repl() requires two arguments."));
    }
    if !number(values.front()).is_some_and(|flags| (0.0..4.0).contains(&flags)) {
        let why = "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(raised::code(why));
    }
    Ok(())
}

/// The text of an error that a script gives: one without a code gets one.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    if text.contains(&b' ') { text.to_vec() } else { [b"ERR ", text].concat() }
}

fn compile(
    lua: &Lua,
    (text, name, environment): (LuaString, LuaString, Table),
) -> mlua::Result<(Option<mlua::Function>, Option<String>)> {
    let text = text.as_bytes();
    // Lua does not check what bytecode does.
    if text.first() == Some(&0x1b) {
        return Ok((None, Some("attempt to load a binary chunk".to_owned())));
    }
    spend(lua, COMPILE_INSTRUCTIONS + text.len() as u64)?;
    let name: String = name.to_string_lossy().replace('\0', " ").chars().take(NAME_SIGNS_MAX).collect();
    let chunk = lua.load(text.as_ref()).set_name(name).set_mode(ChunkMode::Text).set_environment(environment);
    match chunk.into_function() {
        Ok(function) => Ok((Some(function), None)),
        Err(error) => Ok((None, Some(raised::told(&error).to_string()))),
    }
}

fn unpack(lua: &Lua, values: &MultiValue) -> mlua::Result<MultiValue> {
    let Some(Value::Table(table)) = values.front() else {
        return Err(raised::of_type(lua, 1, "unpack", "table", values.front()));
    };
    let place = |index: usize, default: f64| match values.get(index) {
        None | Some(Value::Nil) => Ok(default),
        value => number(value).ok_or_else(|| raised::of_type(lua, index + 1, "unpack", "number", value)),
    };
    let (first, last) = (place(1, 1.0)?, place(2, table.raw_len() as f64)?);
    if last < first {
        return Ok(MultiValue::new());
    }
    let count = last - first;
    if !(count < UNPACKED_MAX && first.abs() < 1e15) {
        return Err(raised::text(lua, "too many results to unpack"));
    }
    (0..=count as i64).map(|offset| table.raw_get::<Value>(first as i64 + offset)).collect()
}

/// Whether a table can be sorted at once: it has numbers or short strings, and they are compared as they are. Otherwise the comparisons have
/// to be instructions of Lua: each may take long, and it is not said how many there are. `less` is a function; nothing: there is none.
fn sorts_at_once(lua: &Lua, (table, less): (Table, Option<Function>)) -> mlua::Result<bool> {
    if let Some(less) = less {
        return Ok(less.info().what != "C");
    }
    let (mut meter, length) = (Meter::new(lua), table.raw_len());
    for place in 1..=length {
        meter.step()?;
        let is_short = match table.raw_get::<Value>(place)? {
            Value::Integer(_) | Value::Number(_) => true,
            Value::String(text) => text.as_bytes().len() <= COMPARED_BYTES_MAX,
            _ => false,
        };
        if !is_short {
            return Ok(false);
        }
    }
    spend(lua, length as u64 * u64::from(usize::BITS - length.leading_zeros()))?;
    Ok(true)
}

/// The next of Redis' random numbers: 31 bits of a linear congruential generator.
fn next(turn: &mut Turn) -> f64 {
    turn.random = turn.random.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
    let number = (turn.random >> 17) % 0x7fff_ffff;
    number as f64 / f64::from(i32::MAX)
}

fn random(lua: &Lua, values: &MultiValue) -> mlua::Result<f64> {
    let chance = lua.app_data_mut::<Turn>().map_or(0.0, |mut turn| next(&mut turn));
    let bound = |index: usize| {
        let value = values.get(index);
        number(value).map(f64::trunc).ok_or_else(|| raised::of_type(lua, index + 1, "random", "number", value))
    };
    let (low, high) = match values.len() {
        0 => return Ok(chance),
        1 => (1.0, bound(0)?),
        2 => (bound(0)?, bound(1)?),
        _ => return Err(raised::text(lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(raised::argument(lua, values.len(), "random", "interval is empty"));
    }
    Ok((chance * (high - low + 1.0)).floor() + low)
}

fn set_seed(lua: &Lua, number: f64) {
    if let Some(mut turn) = lua.app_data_mut::<Turn>() {
        turn.random = seed(number as i64 as u32);
    }
}

/// Notes why a script fails, and where.
fn note(lua: &Lua, reason: &Value) {
    let text = match reason {
        Value::Error(error) => match raised::told(error) {
            Raised::Code(text) => text,
            Raised::Text(text) => format!("ERR {text}"),
        },
        Value::Table(table) => match table.raw_get::<Value>("err") {
            Ok(Value::String(text)) => text.to_string_lossy(),
            _ => "ERR unknown error".to_owned(),
        },
        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
        Value::Boolean(is_true) => format!("ERR {is_true}"),
        other => format!("ERR {}", raised::name_of(other)),
    };
    let place = (1..FRAMES_MAX).map_while(|level| {
        lua.inspect_stack(level, |frame| {
            let (source, line) = (frame.source().source?.into_owned(), frame.current_line()?);
            (source != "=sandbox").then_some((source, line))
        })
    });
    let place = place.flatten().next();
    if let Some(mut turn) = lua.app_data_mut::<Turn>() {
        turn.failure = Some(Failure { text, place });
    }
}

fn redis(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("call", lua.create_function(calls::call)?)?;
    table.raw_set("pcall", lua.create_function(calls::pcall)?)?;
    table.raw_set("sha1hex", lua.create_function(|lua, values: MultiValue| sha1hex(lua, &values))?)?;
    table.raw_set("log", lua.create_function(|_, values: MultiValue| log(&values))?)?;
    table.raw_set("setresp", lua.create_function(|lua, values: MultiValue| set_version(lua, &values))?)?;
    table.raw_set("set_repl", lua.create_function(|_, values: MultiValue| set_replication(&values))?)?;
    table.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    table.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    table.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    table.raw_set("acl_check_cmd", lua.create_function(calls::may_call)?)?;
    table.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    let version = REDIS_VERSION.split('.').fold(0_u32, |all, part| all << 8 | part.parse().unwrap_or(0));
    for (name, number) in [
        ("REDIS_VERSION_NUM", version),
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        table.raw_set(name, number)?;
    }
    Ok(table)
}

/// All of it.
///
/// # Errors
/// There is no memory.
pub fn table(lua: &Lua) -> Result<Table, Error> {
    let table = lua.create_table()?;
    substitution::install(lua, &table)?;
    table.raw_set("bit", bits::library(lua)?)?;
    table.raw_set("cjson", library::shared(lua)?)?;
    table.raw_set("cmsgpack", messages::library(lua)?)?;
    table.raw_set("struct", structs::library(lua)?)?;
    table.raw_set("redis", redis(lua)?)?;
    table.raw_set("register", lua.create_function(registration::register)?)?;
    table.raw_set("compile", lua.create_function(compile)?)?;
    table.raw_set("unpack", lua.create_function(|lua, values: MultiValue| unpack(lua, &values))?)?;
    table.raw_set("sorts_at_once", lua.create_function(sorts_at_once)?)?;
    table.raw_set("random", lua.create_function(|lua, values: MultiValue| random(lua, &values))?)?;
    let set_seed = lua.create_function(|lua, number: f64| {
        set_seed(lua, number);
        Ok(())
    })?;
    table.raw_set("randomseed", set_seed)?;
    table.raw_set("spend", lua.create_function(|lua, ()| spend(lua, COROUTINE_INSTRUCTIONS))?)?;
    let error_text = lua.create_function(|lua, text: LuaString| lua.create_string(error_text(&text.as_bytes())))?;
    table.raw_set("error_text", error_text)?;
    let caught = lua.create_function(|lua, reason: Value| match &reason {
        Value::Error(error) => Ok(Value::String(lua.create_string(raised::told(error).to_string())?)),
        _ => Ok(reason),
    })?;
    table.raw_set("caught", caught)?;
    let handler = lua.create_function(|lua, reason: Value| {
        note(lua, &reason);
        Ok(())
    })?;
    table.raw_set("handler", handler)?;
    Ok(table)
}
