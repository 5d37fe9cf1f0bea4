//! Hashes.

use crate::commands::scanning::cursor;
use crate::engine::call::{Call, value_of};
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::engine::sampler;
use crate::engine::scan::Scan;
use crate::engine::state::State;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::hash::{Hash, Slot};
use crate::keyspace::packed::FIELDS_MAX;
use crate::keyspace::value::Value;
use crate::resp::number::{double, integer, sum_text};
use crate::resp::reply::Reply;

commands! { "hash":
    "hset", -4, [WRITE GROWS FAST], ONE, "2.0.0", "Creates or modifies the value of a field in a hash." => |call| hset(call, "hset");
    "hmset", -4, [WRITE GROWS FAST], ONE, "2.0.0", "Sets the values of multiple fields." => |call| hset(call, "hmset");
    "hsetnx", 4, [WRITE GROWS FAST], ONE, "2.0.0", "Sets the value of a field in a hash only when the field doesn't exist." => hsetnx;
    "hget", 3, [READ FAST], ONE, "2.0.0", "Returns the value of a field in a hash." => hget;
    "hmget", -3, [READ FAST], ONE, "2.0.0", "Returns the values of all fields in a hash." => hmget;
    "hdel", -3, [WRITE FAST], ONE, "2.0.0", "Deletes one or more fields and their values from a hash." => hdel;
    "hlen", 2, [READ FAST], ONE, "2.0.0", "Returns the number of fields in a hash." => hlen;
    "hstrlen", 3, [READ FAST], ONE, "3.2.0", "Returns the length of the value of a field." => hstrlen;
    "hexists", 3, [READ FAST], ONE, "2.0.0", "Determines whether a field exists in a hash." => hexists;
    "hkeys", 2, [READ], ONE, "2.0.0", "Returns all fields in a hash." => |call| all(call, true, false);
    "hvals", 2, [READ], ONE, "2.0.0", "Returns all values in a hash." => |call| all(call, false, true);
    "hgetall", 2, [READ], ONE, "2.0.0", "Returns all fields and values in a hash." => |call| all(call, true, true);
    "hincrby", 4, [WRITE GROWS FAST], ONE, "2.0.0", "Increments the integer value of a field in a hash by a number." => hincrby;
    "hincrbyfloat", 4, [WRITE GROWS FAST], ONE, "2.6.0", "Increments the floating point value of a field by a number." => hincrbyfloat;
    "hrandfield", -2, [READ], ONE, "6.2.0", "Returns one or more random fields from a hash." => random;
    "hscan", -3, [READ], ONE, "2.8.0", "Iterates over fields and values of a hash." => scan;
}

fn hset(call: &mut Call<'_>, name: &str) -> Result<(), Fault> {
    let (key, args) = (call.args.at(1), call.args);
    if !args.len().is_multiple_of(2) {
        return Err(Fault::Arity(name.to_owned()));
    }
    call.hash(key)?;
    let mut count = 0;
    for index in (2..args.len()).step_by(2) {
        let (field, value) = (args.at(index), args.at(index + 1));
        count += i64::from(call.hash(key)?.is_none_or(|hash| hash.get(field).is_none()));
        call.change(Change::SetField { key, field, value });
    }
    call.note(Kinds::HASH, "hset", key);
    if name == "hmset" {
        call.reply.ok()
    } else {
        call.reply.integer(count)
    }
    Ok(())
}

fn hsetnx(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, field, value) = (call.args.at(1), call.args.at(2), call.args.at(3));
    let is_new = call.hash(key)?.is_none_or(|hash| hash.get(field).is_none());
    if is_new {
        call.change(Change::SetField { key, field, value });
        call.note(Kinds::HASH, "hset", key);
    }
    call.reply.integer(i64::from(is_new));
    Ok(())
}

/// A field's value.
fn field_of<'a>(call: &'a Call<'_>, key: &[u8], field: &[u8]) -> Result<Option<Slot<'a>>, Fault> {
    Ok(call.hash(key)?.and_then(|hash| hash.get(field)))
}

/// A hash, while the reply is written.
fn hash_of<'a>(state: &'a State, database: u8, key: &[u8]) -> Result<Option<&'a Hash>, Fault> {
    value_of::<Hash>(state, database, key, |value| match value {
        Value::Hash(hash) => Some(hash),
        _ => None,
    })
}

fn answer(reply: &mut Reply, value: Option<Slot<'_>>) {
    match value {
        Some(value) => reply.lent(&value, value.lent()),
        None => reply.null(),
    }
}

fn hget(call: &mut Call<'_>) -> Result<(), Fault> {
    let value = hash_of(call.state, call.database, call.args.at(1))?.and_then(|hash| hash.get(call.args.at(2)));
    answer(call.reply, value);
    let is_there = value.is_some();
    call.count(is_there);
    Ok(())
}

fn hmget(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, fields) = (call.args.at(1), call.args.from(2));
    let hash = hash_of(call.state, call.database, key)?;
    call.reply.array(fields.len());
    fields.for_each(|field| answer(call.reply, hash.and_then(|hash| hash.get(field))));
    Ok(())
}

fn hdel(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let mut count = 0;
    for field in call.args.from(2) {
        if call.hash(key)?.is_some_and(|hash| hash.get(field).is_some()) {
            call.change(Change::DeleteField { key, field });
            count += 1;
        }
    }
    if count > 0 {
        call.note_taken(Kinds::HASH, "hdel", key);
    }
    call.reply.integer(count);
    Ok(())
}

fn hlen(call: &mut Call<'_>) -> Result<(), Fault> {
    let length = call.hash(call.args.at(1))?.map_or(0, Hash::len);
    call.reply.length(length);
    Ok(())
}

fn hstrlen(call: &mut Call<'_>) -> Result<(), Fault> {
    let length = field_of(call, call.args.at(1), call.args.at(2))?.map_or(0, |value| value.len());
    call.reply.length(length);
    Ok(())
}

fn hexists(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_there = field_of(call, call.args.at(1), call.args.at(2))?.is_some();
    call.reply.integer(i64::from(is_there));
    Ok(())
}

fn all(call: &mut Call<'_>, fields: bool, values: bool) -> Result<(), Fault> {
    let hash = hash_of(call.state, call.database, call.args.at(1))?;
    let length = hash.map_or(0, |hash| hash.len());
    if fields && values {
        call.reply.map(length)
    } else {
        call.reply.array(length)
    }
    for (field, value) in hash.into_iter().flat_map(|hash| hash.iter()) {
        if fields {
            call.reply.bulk(field);
        }
        if values {
            call.reply.lent(&value, value.lent());
        }
    }
    Ok(())
}

fn hincrby(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, field) = (call.args.at(1), call.args.at(2));
    let amount = call.integer(3)?;
    let before = match field_of(call, key, field)? {
        Some(value) => integer(&value).ok_or(Fault::Said("ERR hash value is not an integer"))?,
        None => 0,
    };
    let sum = before.checked_add(amount).ok_or(Fault::Said("ERR increment or decrement would overflow"))?;
    call.change(Change::SetField { key, field, value: itoa::Buffer::new().format(sum).as_bytes() });
    call.note(Kinds::HASH, "hincrby", key);
    call.reply.integer(sum);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, field) = (call.args.at(1), call.args.at(2));
    let amount = call.double(3)?;
    if !amount.is_finite() {
        return Err(Fault::Said("ERR value is NaN or Infinity"));
    }
    let before = match field_of(call, key, field)? {
        Some(value) => double(&value).ok_or(Fault::Said("ERR hash value is not a float"))?,
        None => 0.0,
    };
    let sum = before + amount;
    if !sum.is_finite() {
        return Err(Fault::Said("ERR increment would produce NaN or Infinity"));
    }
    let text = sum_text(sum);
    call.change(Change::SetField { key, field, value: &text });
    call.note(Kinds::HASH, "hincrbyfloat", key);
    call.reply.bulk(&text);
    Ok(())
}

fn random(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, args) = (call.args.at(1), call.args);
    let with_values = args.len() == 4 && args.is(3, "WITHVALUES");
    if args.len() > 4 || args.len() == 4 && !with_values {
        return Err(Fault::Syntax);
    }
    let count = if args.len() > 2 { Some(call.integer(2)?) } else { None };
    if count.is_some_and(|count| !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count)) {
        return Err(Fault::Said("ERR value is out of range"));
    }
    let length = call.hash(key)?.map_or(0, Hash::len);
    let places = sampler::places(count.unwrap_or(1), length, &mut call.state.random);
    let hash = hash_of(call.state, call.database, key)?;
    // Few fields are looked at once, and not for each place.
    let few: Vec<_> = hash.filter(|_| length <= FIELDS_MAX).into_iter().flat_map(Hash::iter).collect();
    let at = |place| if few.is_empty() { hash?.at(place) } else { few.get(place).copied() };
    let found: Vec<_> = places.iter().filter_map(|place| at(*place)).collect();
    let reply = &mut *call.reply;
    if count.is_none() {
        reply.optional(found.first().map(|(field, _)| *field));
        return Ok(());
    }
    // In version 3 each pair is an array of its own.
    let is_nested = with_values && reply.is_three();
    reply.array(if with_values && !is_nested { 2 * found.len() } else { found.len() });
    for (field, value) in found {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(field);
        if with_values {
            reply.lent(&value, value.lent());
        }
    }
    Ok(())
}

fn scan(call: &mut Call<'_>) -> Result<(), Fault> {
    let scan = Scan::parse(call, 2, false)?;
    let hash = hash_of(call.state, call.database, call.args.at(1))?;
    let (places, next) = scan.places(hash.map_or(0, Hash::len));
    let found: Vec<_> = places.filter_map(|place| hash?.at(place)).filter(|(field, _)| scan.wants(field)).collect();
    cursor(call.reply, next);
    call.reply.array(2 * found.len());
    for (field, value) in found {
        call.reply.bulk(field);
        call.reply.lent(&value, value.lent());
    }
    Ok(())
}
