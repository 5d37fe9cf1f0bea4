//! Looking through keys: KEYS, SCAN, DBSIZE; and FLUSHDB, FLUSHALL.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::scan::{Scan, matches};
use crate::keyspace::change::Change;
use crate::keyspace::space::DATABASES;

commands! { "generic":
    "keys", 2, [READ], NO_KEYS, "1.0.0", "Returns all key names that match a pattern." => keys;
    "scan", -2, [READ], NO_KEYS, "2.8.0", "Iterates over the key names in the database." => scan;
    "dbsize", 1, [READ FAST], NO_KEYS, "1.0.0", "Returns the number of keys in the database." => size;
    "flushdb", -1, [WRITE], NO_KEYS, "1.0.0", "Removes all keys from the current database." => |call| flush(call, false);
    "flushall", -1, [WRITE], NO_KEYS, "1.0.0", "Removes all keys from all databases." => |call| flush(call, true);
}

fn keys(call: &mut Call<'_>) -> Result<(), Fault> {
    let pattern = call.args.at(1);
    let keyspace = &call.state.keyspace;
    let all = keyspace.database(call.database).iter().filter(|(_, entry)| !keyspace.is_over(entry));
    let found: Vec<&[u8]> = all.map(|(key, _)| key).filter(|key| matches(pattern, key)).collect();
    call.reply.array(found.len());
    found.into_iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

fn scan(call: &mut Call<'_>) -> Result<(), Fault> {
    let scan = Scan::parse(call, 1, true)?;
    let keyspace = &call.state.keyspace;
    let database = keyspace.database(call.database);
    let (places, next) = scan.places(database.len());
    let is_kind = |kind: &str| scan.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.as_bytes()));
    let found: Vec<&[u8]> = places
        .filter_map(|place| database.at(place))
        .filter(|(key, entry)| scan.wants(key) && !keyspace.is_over(entry) && is_kind(entry.value.kind()))
        .map(|(key, _)| key)
        .collect();
    cursor(call.reply, next);
    call.reply.array(found.len());
    found.into_iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

/// Begins the answer of a scan.
pub fn cursor(reply: &mut crate::resp::reply::Reply, next: usize) {
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next).as_bytes());
}

fn size(call: &mut Call<'_>) -> Result<(), Fault> {
    let size = call.state.keyspace.database(call.database).len();
    call.reply.length(size);
    Ok(())
}

fn flush(call: &mut Call<'_>, is_all: bool) -> Result<(), Fault> {
    if call.args.len() > 2 || call.args.len() == 2 && !call.args.is(1, "SYNC") && !call.args.is(1, "ASYNC") {
        return Err(Fault::Syntax);
    }
    // Who caches what is not there is told, too.
    call.state.keyspace.touched.is_flushed = call.state.keyspace.touched.is_wanted;
    let databases = if is_all { 0..DATABASES } else { call.database..call.database + 1 };
    for database in databases {
        if !call.state.keyspace.database(database).is_empty() {
            call.state.keyspace.change(database, Change::Flush);
        }
    }
    call.reply.ok();
    Ok(())
}
