//! Strings: set, get, and numbers in them.

use crate::commands::expiry::{self, Unit};
use crate::engine::call::{Call, value_of};
use crate::engine::command::{ALL, Keys, ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::value::Value;
use crate::resp::number::{integer, sum_text};

commands! { "string":
    "get", 2, [READ FAST], ONE, "1.0.0", "Returns the string value of a key." => get;
    "set", -3, [WRITE GROWS], ONE, "1.0.0", "Sets the string value of a key, ignoring its type." => set;
    "setnx", 3, [WRITE GROWS FAST], ONE, "1.0.0", "Sets the string value of a key only when the key doesn't exist." => setnx;
    "setex", 4, [WRITE GROWS], ONE, "2.0.0", "Sets the string value and expiration time of a key in seconds."
        => |call| setex(call, "setex", Unit::Seconds);
    "psetex", 4, [WRITE GROWS], ONE, "2.6.0", "Sets the string value and expiration time of a key in milliseconds."
        => |call| setex(call, "psetex", Unit::Milliseconds);
    "getset", 3, [WRITE GROWS FAST], ONE, "1.0.0", "Returns the previous string value of a key after setting it to a new value."
        => getset;
    "getdel", 2, [WRITE FAST], ONE, "6.2.0", "Returns the string value of a key after deleting the key." => getdel;
    "getex", -2, [WRITE FAST], ONE, "6.2.0", "Returns the string value of a key after setting its expiration time." => getex;
    "mget", -2, [READ FAST], ALL, "1.0.0", "Returns the string values of one or more keys." => mget;
    "mset", -3, [WRITE GROWS], Keys::Range(1, -1, 2), "1.0.1", "Sets the string values of one or more keys." => mset;
    "msetnx", -3, [WRITE GROWS], Keys::Range(1, -1, 2), "1.0.1",
        "Sets the string values of one or more keys only when all keys don't exist." => msetnx;
    "incr", 2, [WRITE GROWS FAST], ONE, "1.0.0", "Increments the integer value of a key by one." => |call| add(call, 1);
    "decr", 2, [WRITE GROWS FAST], ONE, "1.0.0", "Decrements the integer value of a key by one." => |call| add(call, -1);
    "incrby", 3, [WRITE GROWS FAST], ONE, "1.0.0", "Increments the integer value of a key by a number." => incrby;
    "decrby", 3, [WRITE GROWS FAST], ONE, "1.0.0", "Decrements a number from the integer value of a key." => decrby;
    "incrbyfloat", 3, [WRITE GROWS FAST], ONE, "2.6.0", "Increments the floating point value of a key by a number." => incrbyfloat;
}

/// Answers a key's string, or nothing; whether there is one. It is copied, or lent if it is long.
fn read(call: &mut Call<'_>, key: &[u8]) -> Result<bool, Fault> {
    let text = value_of(call.state, call.database, key, |value| match value {
        Value::Text(text) => Some(text),
        _ => None,
    })?;
    call.reply.text(text);
    Ok(text.is_some())
}

/// Sets a key. `is_timed`: it was said when it expires.
fn put(call: &mut Call<'_>, key: &[u8], (expires, is_timed): (i64, bool), text: &[u8]) {
    call.change(Change::Put { key, expires, text });
    call.note(Kinds::STRING, "set", key);
    if is_timed {
        call.note(Kinds::GENERIC, "expire", key);
    }
}

fn get(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_there = read(call, call.args.at(1))?;
    call.count(is_there);
    Ok(())
}

fn set(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, text) = (call.args.at(1), call.args.at(2));
    let (mut is_nx, mut is_xx, mut gets, mut keeps, mut expires) = (false, false, false, false, None);
    let mut index = 3;
    while index < call.args.len() {
        if call.args.is(index, "NX") && !is_xx {
            is_nx = true;
        } else if call.args.is(index, "XX") && !is_nx {
            is_xx = true;
        } else if call.args.is(index, "GET") {
            gets = true;
        } else if call.args.is(index, "KEEPTTL") && expires.is_none() {
            keeps = true;
        } else if !keeps
            && expires.is_none()
            && let Some(at) = expiry::option(call, index, "set")?
        {
            expires = Some(at);
            index += 1;
        } else {
            return Err(Fault::Syntax);
        }
        index += 1;
    }
    let old = if gets { call.text(key)?.cloned() } else { None };
    let is_timed = expires.is_some();
    let before = call.find(key).map(|entry| entry.expires);
    let is_refused = is_nx && before.is_some() || is_xx && before.is_none();
    if !is_refused {
        let expires = if keeps { before.unwrap_or(0) } else { expires.unwrap_or(0) };
        put(call, key, (expires, is_timed), text);
    }
    match (gets, is_refused) {
        (true, _) => call.reply.text(old.as_ref()),
        (false, true) => call.reply.null(),
        (false, false) => call.reply.ok(),
    }
    Ok(())
}

fn setnx(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, text) = (call.args.at(1), call.args.at(2));
    let is_there = call.find(key).is_some();
    if !is_there {
        put(call, key, (0, false), text);
    }
    call.reply.integer(i64::from(!is_there));
    Ok(())
}

fn setex(call: &mut Call<'_>, name: &'static str, unit: Unit) -> Result<(), Fault> {
    let expires = expiry::after(call, 2, (unit, false), name)?;
    let (key, text) = (call.args.at(1), call.args.at(3));
    put(call, key, (expires, true), text);
    call.reply.ok();
    Ok(())
}

fn getset(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let old = call.text(key)?.cloned();
    let text = call.args.at(2);
    put(call, key, (0, false), text);
    call.reply.text(old.as_ref());
    Ok(())
}

fn getdel(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let old = call.text(key)?.cloned();
    if old.is_some() {
        call.change(Change::Delete { key });
        call.note(Kinds::GENERIC, "del", key);
    }
    call.count(old.is_some());
    call.reply.text(old.as_ref());
    Ok(())
}

fn getex(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let at = match call.args.len() {
        2 => None,
        3 if call.args.is(2, "PERSIST") => Some(0),
        4 => Some(expiry::option(call, 2, "getex")?.ok_or(Fault::Syntax)?),
        _ => return Err(Fault::Syntax),
    };
    let old = call.text(key)?.cloned();
    call.count(old.is_some());
    if let (Some(_), Some(at)) = (&old, at) {
        let (before, now) = (call.find(key).map_or(0, |entry| entry.expires), call.state.keyspace.now_ms);
        let event = match at {
            1.. if at <= now => Some("del"),
            1.. => Some("expire"),
            _ => (before != 0).then_some("persist"),
        };
        match event {
            Some("del") => call.change(Change::Delete { key }),
            _ if at == before => {}
            _ => call.change(Change::Expire { key, at }),
        }
        event.into_iter().for_each(|event| call.note(Kinds::GENERIC, event, key));
    }
    call.reply.text(old.as_ref());
    Ok(())
}

fn mget(call: &mut Call<'_>) -> Result<(), Fault> {
    let keys = call.args.from(1);
    call.reply.array(keys.len());
    for key in keys {
        // Another kind of value is nothing here, not an error.
        let is_there = read(call, key).unwrap_or_else(|_| {
            call.reply.null();
            false
        });
        call.count(is_there);
    }
    Ok(())
}

fn pairs(call: &Call<'_>, name: &str) -> Result<(), Fault> {
    if call.args.len().is_multiple_of(2) { Err(Fault::Arity(name.to_owned())) } else { Ok(()) }
}

fn put_pairs(call: &mut Call<'_>) {
    for index in (1..call.args.len()).step_by(2) {
        let (key, text) = (call.args.at(index), call.args.at(index + 1));
        put(call, key, (0, false), text);
    }
}

fn mset(call: &mut Call<'_>) -> Result<(), Fault> {
    pairs(call, "mset")?;
    put_pairs(call);
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_>) -> Result<(), Fault> {
    pairs(call, "msetnx")?;
    let is_any_there = call.args.from(1).step_by(2).any(|key| call.find(key).is_some());
    if !is_any_there {
        put_pairs(call);
    }
    call.reply.integer(i64::from(!is_any_there));
    Ok(())
}

fn add(call: &mut Call<'_>, amount: i64) -> Result<(), Fault> {
    let key = call.args.at(1);
    let before = call.text(key)?.map_or(Ok(0), |text| integer(text).ok_or(Fault::NotInteger))?;
    let sum = before.checked_add(amount).ok_or(Fault::Said("ERR increment or decrement would overflow"))?;
    let expires = call.find(key).map_or(0, |entry| entry.expires);
    let mut buffer = itoa::Buffer::new();
    call.change(Change::Put { key, expires, text: buffer.format(sum).as_bytes() });
    call.note(Kinds::STRING, "incrby", key);
    call.reply.integer(sum);
    Ok(())
}

fn incrby(call: &mut Call<'_>) -> Result<(), Fault> {
    add(call, call.integer(2)?)
}

fn decrby(call: &mut Call<'_>) -> Result<(), Fault> {
    add(call, call.integer(2)?.checked_neg().ok_or(Fault::Said("ERR decrement would overflow"))?)
}

fn incrbyfloat(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let amount = call.double(2)?;
    let before = call.text(key)?.map_or(Ok(0.0), |text| crate::resp::number::double(text).ok_or(Fault::NotFloat))?;
    let sum = before + amount;
    if !sum.is_finite() {
        return Err(Fault::Said("ERR increment would produce NaN or Infinity"));
    }
    let expires = call.find(key).map_or(0, |entry| entry.expires);
    let text = sum_text(sum);
    call.change(Change::Put { key, expires, text: &text });
    call.note(Kinds::STRING, "incrbyfloat", key);
    call.reply.bulk(&text);
    Ok(())
}
