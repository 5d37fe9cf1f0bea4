//! Keys, whatever they have: DEL, EXISTS, RENAME, COPY and their like.

use crate::engine::call::Call;
use crate::engine::command::{ALL, NO_KEYS, ONE, TWO, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::space::DATABASES;
use crate::resp::number::integer;

commands! { "generic":
    "del", -2, [WRITE], ALL, "1.0.0", "Deletes one or more keys." => delete;
    "unlink", -2, [WRITE FAST], ALL, "4.0.0", "Deletes one or more keys." => delete;
    "exists", -2, [READ FAST], ALL, "1.0.0", "Determines whether one or more keys exist." => exists;
    "touch", -2, [READ FAST], ALL, "3.2.1", "Returns the number of existing keys out of those specified." => touch;
    "type", 2, [READ FAST], ONE, "1.0.0", "Determines the type of value stored at a key." => kind;
    "rename", 3, [WRITE COPIES], TWO, "1.0.0", "Renames a key and overwrites the destination." => |call| rename(call, false);
    "renamenx", 3, [WRITE COPIES FAST], TWO, "1.0.0", "Renames a key only when the target key name doesn't exist."
        => |call| rename(call, true);
    "copy", -3, [WRITE GROWS COPIES], TWO, "6.2.0", "Copies the value of a key to a new key." => copy;
    "move", 3, [WRITE COPIES FAST], ONE, "1.0.0", "Moves a key to another database." => move_key;
    "randomkey", 1, [READ], NO_KEYS, "1.0.0", "Returns a random key name from the database." => random;
}

fn delete(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut count = 0;
    for key in call.args.from(1) {
        if call.find(key).is_some() {
            call.change(Change::Delete { key });
            call.note(Kinds::GENERIC, "del", key);
            count += 1;
        }
    }
    call.reply.integer(count);
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut count = 0;
    for key in call.args.from(1) {
        let is_there = call.look(key).is_some();
        call.count(is_there);
        count += i64::from(is_there);
    }
    call.reply.integer(count);
    Ok(())
}

fn touch(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut count = 0;
    for key in call.args.from(1) {
        let is_there = call.find(key).is_some();
        call.count(is_there);
        count += i64::from(is_there);
    }
    call.reply.integer(count);
    Ok(())
}

fn kind(call: &mut Call<'_>) -> Result<(), Fault> {
    let kind = call.look(call.args.at(1)).map_or("none", |entry| entry.value.kind());
    call.reply.simple(kind);
    Ok(())
}

fn rename(call: &mut Call<'_>, is_nx: bool) -> Result<(), Fault> {
    let (from, to) = (call.args.at(1), call.args.at(2));
    let entry = call.find(from).cloned().ok_or(Fault::NoKey)?;
    if from != to && !(is_nx && call.find(to).is_some()) {
        call.change(Change::Delete { key: from });
        call.state.keyspace.put(call.database, to, &entry);
        call.note(Kinds::GENERIC, "rename_from", from);
        call.note(Kinds::GENERIC, "rename_to", to);
    } else if is_nx {
        call.reply.integer(0);
        return Ok(());
    }
    if is_nx {
        call.reply.integer(1)
    } else {
        call.reply.ok()
    }
    Ok(())
}

fn database_of(text: &[u8]) -> Result<u8, Fault> {
    let number = integer(text).ok_or(Fault::NotInteger)?;
    let number = u8::try_from(number).ok().filter(|number| *number < DATABASES);
    number.ok_or(Fault::Said("ERR DB index is out of range"))
}

fn copy(call: &mut Call<'_>) -> Result<(), Fault> {
    let (from, to) = (call.args.at(1), call.args.at(2));
    let (mut database, mut replaces, mut index) = (call.database, false, 3);
    while index < call.args.len() {
        if call.args.is(index, "REPLACE") {
            replaces = true;
        } else if call.args.is(index, "DB") && index + 1 < call.args.len() {
            index += 1;
            database = database_of(call.args.at(index))?;
        } else {
            return Err(Fault::Syntax);
        }
        index += 1;
    }
    if database == call.database && from == to {
        return Err(Fault::Said("ERR source and destination objects are the same"));
    }
    put_copy(call, from, (database, to), replaces, false);
    Ok(())
}

/// Copies a key, or moves it, and answers whether that was possible.
fn put_copy(call: &mut Call<'_>, from: &[u8], (database, to): (u8, &[u8]), replaces: bool, moves: bool) {
    let entry = call.find(from).cloned();
    call.state.keyspace.expire_if_over(database, to);
    let is_taken = call.state.keyspace.find(database, to).is_some() && !replaces;
    let entry = entry.filter(|_| !is_taken);
    if let Some(entry) = &entry {
        if moves {
            call.change(Change::Delete { key: from });
        }
        call.state.keyspace.put(database, to, entry);
        if moves {
            call.note(Kinds::GENERIC, "move_from", from);
        }
        call.state.keyspace.events.note(Kinds::GENERIC, if moves { "move_to" } else { "copy_to" }, database, to);
    }
    call.reply.integer(i64::from(entry.is_some()));
}

fn move_key(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let database = database_of(call.args.at(2))?;
    if database == call.database {
        return Err(Fault::Said("ERR source and destination objects are the same"));
    }
    put_copy(call, key, (database, key), false, true);
    Ok(())
}

fn random(call: &mut Call<'_>) -> Result<(), Fault> {
    /// Keys that have expired are passed over, so many at most.
    const TRIES: usize = 100;
    let database = call.state.keyspace.database(call.database);
    let mut found = None;
    for _ in 0..TRIES {
        if database.is_empty() {
            break;
        }
        let place = call.state.random.usize(..database.len());
        found = database.at(place).filter(|(_, entry)| !call.state.keyspace.is_over(entry)).map(|(key, _)| key);
        if found.is_some() {
            break;
        }
    }
    call.reply.optional(found);
    Ok(())
}
