//! Where streams and groups are found, and the words for those that are not there. These borrow the state alone, so that an answer can be
//! written meanwhile.

use crate::engine::fault::Fault;
use crate::engine::state::State;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::group::Group;
use crate::keyspace::stream::items::DELIVERY_BYTES;
use crate::keyspace::value::Value;
use crate::limits::RECORD_BYTES_MAX;

/// What a record needs besides its deliveries.
const OVERHEAD: usize = 4 << 10;

/// The stream of a key.
pub fn stream<'a>(state: &'a State, database: u8, key: &[u8]) -> Result<Option<&'a Stream>, Fault> {
    match state.keyspace.find(database, key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Stream(stream)) => Ok(Some(stream)),
        Some(_) => Err(Fault::WrongType),
    }
}

/// A stream with one of its groups. `tail` ends the error that there is none.
pub fn group<'a>(
    state: &'a State,
    database: u8,
    (key, name): (&[u8], &[u8]),
    tail: &str,
) -> Result<(&'a Stream, &'a Group), Fault> {
    let found = stream(state, database, key)?.and_then(|stream| Some((stream, stream.group(name)?)));
    found.ok_or_else(|| {
        let (key, name) = (String::from_utf8_lossy(key), String::from_utf8_lossy(name));
        Fault::Told(format!("NOGROUP No such key '{key}' or consumer group '{name}'{tail}"))
    })
}

/// The key is there, and the group is not.
pub fn no_group(key: &[u8], name: &[u8]) -> Fault {
    let (key, name) = (String::from_utf8_lossy(key), String::from_utf8_lossy(name));
    Fault::Told(format!("NOGROUP No such consumer group '{name}' for key name '{key}'"))
}

/// How many deliveries the record and the log have room for. What is delivered is written down, however short the request is.
pub fn room(state: &State, names: usize) -> usize {
    let room = usize::try_from(state.log.room).unwrap_or(usize::MAX).min(RECORD_BYTES_MAX);
    let used = state.keyspace.record().len().saturating_add(2 * names + OVERHEAD);
    room.saturating_sub(used) / DELIVERY_BYTES
}
