//! `string.find`, `match`, `gmatch`, `gsub` and `rep`, as Lua 5.1 has them.

use crate::scripts::patterns::{Captured, Matcher};
use crate::scripts::raised;
use crate::scripts::turn::{left, spend};
use mlua::{Lua, LuaString, MultiValue, Table, Value};

/// Bytes of a string that is made at once.
const MADE_BYTES_MAX: usize = 64 << 20;
/// Signs that mean something in a pattern.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Steps of a match that cost as much as an instruction.
const STEPS: u64 = 4;

/// Steps that a match may take.
fn steps(lua: &Lua) -> u64 {
    left(lua).saturating_mul(STEPS)
}

fn string(lua: &Lua, values: &MultiValue, index: usize, function: &str) -> mlua::Result<LuaString> {
    let value = values.get(index);
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            let text = lua.coerce_string(number.clone())?;
            text.ok_or_else(|| raised::of_type(lua, index + 1, function, "string", value))
        }
        _ => Err(raised::of_type(lua, index + 1, function, "string", value)),
    }
}

fn number(lua: &Lua, values: &MultiValue, index: usize, function: &str) -> mlua::Result<Option<f64>> {
    match values.get(index) {
        None | Some(Value::Nil) => Ok(None),
        Some(value) => match lua.coerce_number(value.clone())? {
            Some(number) => Ok(Some(number)),
            None => Err(raised::of_type(lua, index + 1, function, "number", Some(value))),
        },
    }
}

fn captured(lua: &Lua, captured: Captured<'_>) -> mlua::Result<Value> {
    match captured {
        Captured::Text(text) => Ok(Value::String(lua.create_string(text)?)),
        Captured::Place(place) => Ok(Value::Number(place as f64)),
    }
}

/// Adds the captures of a match; all of it, if there are none and `is_whole`.
fn captures(
    lua: &Lua,
    matcher: &Matcher<'_>,
    whole: (usize, usize),
    is_whole: bool,
    found: &mut MultiValue,
) -> mlua::Result<()> {
    let count = if matcher.count() == 0 && is_whole { 1 } else { matcher.count() };
    for index in 0..count {
        let capture = matcher.capture(index, whole).map_err(|why| raised::text(lua, why))?;
        found.push_back(captured(lua, capture)?);
    }
    Ok(())
}

/// A pattern without its anchor, and whether it had one.
fn unanchored(pattern: &[u8]) -> (&[u8], bool) {
    pattern.strip_prefix(b"^").map_or((pattern, false), |rest| (rest, true))
}

fn paid<T>(lua: &Lua, matcher: &Matcher<'_>, outcome: Result<T, &'static str>) -> mlua::Result<T> {
    spend(lua, matcher.steps / STEPS)?;
    outcome.map_err(|why| raised::text(lua, why))
}

fn search(lua: &Lua, values: &MultiValue, function: &str) -> mlua::Result<MultiValue> {
    let is_find = function == "find";
    let (text, pattern) = (string(lua, values, 0, function)?, string(lua, values, 1, function)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let start = number(lua, values, 2, function)?.unwrap_or(1.0);
    let start = if start < 0.0 { start + text.len() as f64 } else { start - 1.0 };
    let start = (start.max(0.0) as usize).min(text.len());
    let is_plain = values.get(3).is_some_and(|value| !matches!(value, Value::Nil | Value::Boolean(false)));
    let mut found = MultiValue::new();
    let place = |place: usize| Value::Number(place as f64);
    if is_find && (is_plain || !pattern.iter().any(|sign| SPECIAL.contains(sign))) {
        spend(lua, text.len() as u64 / 64)?;
        let rest = text.get(start..).unwrap_or_default();
        match memchr::memmem::find(rest, &pattern) {
            Some(at) => found.extend([place(start + at + 1), place(start + at + pattern.len())]),
            None => found.push_back(Value::Nil),
        }
        return Ok(found);
    }
    let (pattern, is_anchored) = unanchored(&pattern);
    let mut matcher = Matcher::new(&text, pattern, steps(lua));
    let outcome = matcher.find(start, is_anchored);
    match paid(lua, &matcher, outcome)? {
        None => found.push_back(Value::Nil),
        Some(whole) => {
            if is_find {
                found.extend([place(whole.0 + 1), place(whole.1)]);
            }
            captures(lua, &matcher, whole, !is_find, &mut found)?;
        }
    }
    Ok(found)
}

/// A step of `gmatch` from a place on: where the next one goes on, and what was captured.
fn step(lua: &Lua, values: &MultiValue) -> mlua::Result<MultiValue> {
    let (text, pattern) = (string(lua, values, 0, "gmatch")?, string(lua, values, 1, "gmatch")?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let start = number(lua, values, 2, "gmatch")?.unwrap_or(0.0) as usize;
    let mut matcher = Matcher::new(&text, &pattern, steps(lua));
    let outcome = matcher.find(start, false);
    let mut found = MultiValue::new();
    if let Some(whole) = paid(lua, &matcher, outcome)? {
        found.push_back(Value::Number((whole.1 + usize::from(whole.0 == whole.1)) as f64));
        captures(lua, &matcher, whole, true, &mut found)?;
    }
    Ok(found)
}

/// A step of `gsub` from a place on: what is before the match, the match, a byte that is passed over if it is empty, where the next one
/// goes on, and what was captured. Nothing, if there is none.
fn seek(lua: &Lua, values: &MultiValue) -> mlua::Result<MultiValue> {
    let (text, pattern) = (string(lua, values, 0, "gsub")?, string(lua, values, 1, "gsub")?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let start = number(lua, values, 2, "gsub")?.unwrap_or(0.0) as usize;
    let (pattern, is_anchored) = unanchored(&pattern);
    let mut found = MultiValue::new();
    if is_anchored && start > 0 {
        return Ok(found);
    }
    let mut matcher = Matcher::new(&text, pattern, steps(lua));
    let outcome = matcher.find(start, is_anchored);
    if let Some((begin, end)) = paid(lua, &matcher, outcome)? {
        let next = end + usize::from(begin == end);
        for range in [start..begin, begin..end, end..next.min(text.len())] {
            found.push_back(Value::String(lua.create_string(text.get(range).unwrap_or_default())?));
        }
        found.push_back(Value::Number(next as f64));
        captures(lua, &matcher, (begin, end), true, &mut found)?;
    }
    Ok(found)
}

/// `gsub` with a string.
fn replace(lua: &Lua, values: &MultiValue) -> mlua::Result<(LuaString, f64)> {
    let [text, pattern, change] = [0, 1, 2].map(|index| string(lua, values, index, "gsub"));
    let (text, pattern, change) = (text?, pattern?, change?);
    let (text, pattern, change) = (text.as_bytes(), pattern.as_bytes(), change.as_bytes());
    let most = number(lua, values, 3, "gsub")?.unwrap_or(f64::INFINITY);
    let (pattern, is_anchored) = unanchored(&pattern);
    let mut matcher = Matcher::new(&text, pattern, steps(lua));
    let (mut made, mut place, mut count) = (Vec::new(), 0, 0.0);
    while count < most && place <= text.len() {
        let outcome = matcher.find(place, is_anchored);
        if outcome.is_err() {
            paid(lua, &matcher, outcome)?;
        }
        let Ok(Some((begin, end))) = outcome else { break };
        made.extend_from_slice(text.get(place..begin).unwrap_or_default());
        filled(lua, &matcher, (begin, end), &change, &mut made)?;
        count += 1.0;
        place = end + usize::from(begin == end);
        made.extend_from_slice(text.get(end..place).unwrap_or_default());
        if made.len() > MADE_BYTES_MAX {
            return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
        }
        if is_anchored {
            break;
        }
    }
    spend(lua, (matcher.steps + made.len() as u64) / STEPS)?;
    made.extend_from_slice(text.get(place..).unwrap_or_default());
    Ok((lua.create_string(&made)?, count))
}

/// Adds what a match is replaced by: `%1` is its first capture.
fn filled(
    lua: &Lua,
    matcher: &Matcher<'_>,
    whole: (usize, usize),
    change: &[u8],
    made: &mut Vec<u8>,
) -> mlua::Result<()> {
    let mut rest = change;
    loop {
        rest = match rest {
            [] => return Ok(()),
            [b'%', digit @ b'0'..=b'9', after @ ..] => {
                let index = usize::from(digit - b'0');
                let capture = match index.checked_sub(1) {
                    None => Ok(Captured::Text(matcher.whole(whole))),
                    Some(index) => matcher.capture(index, whole),
                };
                match capture.map_err(|why| raised::text(lua, why))? {
                    Captured::Text(text) => made.extend_from_slice(text),
                    Captured::Place(place) => made.extend_from_slice(place.to_string().as_bytes()),
                }
                after
            }
            [b'%', sign, after @ ..] => {
                made.push(*sign);
                after
            }
            [sign, after @ ..] => {
                made.push(*sign);
                after
            }
        };
        if made.len() > MADE_BYTES_MAX {
            return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
        }
    }
}

fn rep(lua: &Lua, values: &MultiValue) -> mlua::Result<LuaString> {
    let text = string(lua, values, 0, "rep")?;
    let times = number(lua, values, 1, "rep")?;
    let times = times.ok_or_else(|| raised::of_type(lua, 2, "rep", "number", values.get(1)))?.max(0.0);
    let text = text.as_bytes();
    let bytes = text.len() as f64 * times.trunc();
    // An infinity times nothing is no number.
    if bytes > MADE_BYTES_MAX as f64 {
        return Err(raised::text(lua, "not enough memory"));
    }
    if text.is_empty() {
        return lua.create_string("");
    }
    spend(lua, bytes as u64 / 64)?;
    lua.create_string(text.repeat(times as usize))
}

/// Puts the functions in a table.
///
/// # Errors
/// There is no memory.
pub fn install(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table.raw_set("find", lua.create_function(|lua, values: MultiValue| search(lua, &values, "find"))?)?;
    table.raw_set("match", lua.create_function(|lua, values: MultiValue| search(lua, &values, "match"))?)?;
    table.raw_set("step", lua.create_function(|lua, values: MultiValue| step(lua, &values))?)?;
    table.raw_set("seek", lua.create_function(|lua, values: MultiValue| seek(lua, &values))?)?;
    table.raw_set("replace", lua.create_function(|lua, values: MultiValue| replace(lua, &values))?)?;
    table.raw_set("rep", lua.create_function(|lua, values: MultiValue| rep(lua, &values))?)?;
    let rest = lua.create_function(|lua, (text, place): (LuaString, f64)| {
        lua.create_string(text.as_bytes().get(place as usize..).unwrap_or_default())
    })?;
    table.raw_set("rest", rest)
}
