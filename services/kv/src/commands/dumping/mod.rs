//! A value by itself, as Redis carries it from one server to another: DUMP and RESTORE.

use crate::commands::expiry::{Unit, time};
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::database::Entry;
use crate::keyspace::events::Kinds;
use crate::limits::{NO_ROOM, RECORD_BYTES_MAX};
use crate::rdb::payload::{self, PayloadError};
use bytes::Bytes;

commands! { "generic":
    "dump", 2, [READ], ONE, "2.6.0", "Returns a serialized representation of the value stored at a key." => dump;
    "restore", -4, [WRITE GROWS], ONE, "2.6.0", "Creates a key from the serialized representation of a value." => restore;
}

fn dump(call: &mut Call<'_>) -> Result<(), Fault> {
    match call.find(call.args.at(1)).map(|entry| payload::write(&entry.value)) {
        Some(payload) => call.reply.value(&Bytes::from(payload)),
        None => call.reply.null(),
    }
    Ok(())
}

/// What RESTORE is told besides key, time and value.
#[derive(Default)]
struct Options {
    replaces: bool,
    is_absolute: bool,
}

/// Options, in any order. How long the key was idle, or how often it was used, is judged and then nobody's.
fn options(call: &Call<'_>) -> Result<Options, Fault> {
    let (mut options, mut index) = (Options::default(), 4);
    let (mut has_idle, mut has_frequency) = (false, false);
    while index < call.args.len() {
        let has_value = index + 1 < call.args.len();
        if call.args.is(index, "REPLACE") {
            options.replaces = true;
        } else if call.args.is(index, "ABSTTL") {
            options.is_absolute = true;
        } else if call.args.is(index, "IDLETIME") && has_value && !has_frequency {
            index += 1;
            if call.integer(index)? < 0 {
                return Err(Fault::Said("ERR Invalid IDLETIME value, must be >= 0"));
            }
            has_idle = true;
        } else if call.args.is(index, "FREQ") && has_value && !has_idle {
            index += 1;
            if !(0..=255).contains(&call.integer(index)?) {
                return Err(Fault::Said("ERR Invalid FREQ value, must be >= 0 and <= 255"));
            }
            has_frequency = true;
        } else {
            return Err(Fault::Syntax);
        }
        index += 1;
    }
    Ok(options)
}

fn restore(call: &mut Call<'_>) -> Result<(), Fault> {
    let Options { replaces, is_absolute } = options(call)?;
    let key = call.args.at(1);
    let is_there = call.find(key).is_some();
    if is_there && !replaces {
        return Err(Fault::Said("BUSYKEY Target key name already exists."));
    }
    let ttl = call.integer(2)?;
    if ttl < 0 {
        return Err(Fault::Said("ERR Invalid TTL value, must be >= 0"));
    }
    let value = payload::read(call.args.at(3), RECORD_BYTES_MAX).map_err(|error| match error {
        PayloadError::Footer => Fault::Said("ERR DUMP payload version or checksum are wrong"),
        PayloadError::Value(_) => Fault::Said("ERR Bad data format"),
    })?;
    // A payload may be compressed: what it becomes is known only now.
    if value.bytes() as u64 > call.state.log.room {
        call.state.log.refused += 1;
        return Err(Fault::Said(NO_ROOM));
    }
    let expires = match ttl {
        0 => 0,
        // A time that is never reached is as good as the last one there is.
        ttl => time(call, ttl, Unit::Milliseconds, is_absolute).unwrap_or(i64::MAX),
    };
    let is_over = expires != 0 && expires <= call.state.keyspace.now_ms;
    match is_over {
        true if is_there => {
            call.change(Change::Delete { key });
            call.note(Kinds::GENERIC, "del", key);
        }
        true => {}
        false => {
            call.state.keyspace.put(call.database, key, &Entry::new(value, expires));
            call.note(Kinds::GENERIC, "restore", key);
        }
    }
    call.reply.ok();
    Ok(())
}
