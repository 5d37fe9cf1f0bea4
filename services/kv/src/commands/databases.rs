//! SWAPDB: two databases change places. It is one change of the log, however many keys they have.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::execute::admit_bytes;
use crate::engine::fault::Fault;
use crate::engine::session::Session;
use crate::engine::state::State;
use crate::keyspace::change::Change;
use crate::keyspace::space::DATABASES;
use crate::keyspace::watch::Place;
use crate::resp::number::integer;

commands! { "server":
    "swapdb", 3, [WRITE FAST], NO_KEYS, "4.0.0", "Swaps two Redis databases." => swapdb;
}

/// What the deletion of a key needs of a record besides its name.
const DELETION_BYTES: usize = 16;
/// What the record needs besides: it may begin another unit of the log.
const RECORD_BYTES: usize = 8 << 10;

fn number(call: &Call<'_>, index: usize, wrong: &'static str) -> Result<i32, Fault> {
    let number = integer(call.args.at(index)).and_then(|number| i32::try_from(number).ok());
    number.ok_or(Fault::Said(wrong))
}

fn swapdb(call: &mut Call<'_>) -> Result<(), Fault> {
    let one = number(call, 1, "ERR invalid first DB index")?;
    let other = number(call, 2, "ERR invalid second DB index")?;
    let database = |number: i32| u8::try_from(number).ok().filter(|number| *number < DATABASES);
    let (one, other) = database(one).zip(database(other)).ok_or(Fault::Said("ERR DB index is out of range"))?;
    let keyspace = &call.state.keyspace;
    if one != other && !(keyspace.database(one).is_empty() && keyspace.database(other).is_empty()) {
        expire_watched(call.state, [one, other])?;
        call.state.keyspace.change(one, Change::Swap { with: other });
        // Keys that may be the next to go are known by their databases.
        call.state.pool.clear();
        wake(call.state, [one, other]);
    }
    call.reply.ok();
    Ok(())
}

/// Deletes keys that have expired, of those that somebody watches: whoever watches a key that is not there does not see one come that is over.
fn expire_watched(state: &mut State, databases: [u8; 2]) -> Result<(), Fault> {
    let keyspace = &state.keyspace;
    let is_over =
        |(database, key): &Place| keyspace.database(*database).get(key).is_some_and(|it| keyspace.is_over(it));
    let watched = databases.into_iter().flat_map(|database| keyspace.watches.of(database));
    let places = watched.flat_map(|key| databases.map(|database| (database, Box::from(key))));
    let over: Vec<Place> = places.filter(is_over).collect();
    let bytes: usize = over.iter().map(|(_, key)| key.len() + DELETION_BYTES).sum();
    admit_bytes(state, (bytes + RECORD_BYTES) as u64, false)?;
    over.iter().for_each(|(database, key)| state.keyspace.expire_if_over(*database, key));
    Ok(())
}

/// Lets those be looked at who wait for a key of the databases: it may be there now, or be gone.
fn wake(state: &mut State, databases: [u8; 2]) {
    let waiting = state.sessions.iter().filter_map(|(_, session): (_, &Session)| session.blocked.as_deref());
    let waiting = waiting.filter(|blocked| databases.contains(&blocked.database));
    let places = waiting.flat_map(|blocked| blocked.keys.iter().map(|key| (blocked.database, key.clone())));
    state.keyspace.pushed.extend(places);
}
