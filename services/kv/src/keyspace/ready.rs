//! Which changes concern those who wait for a key.

use crate::keyspace::change::Change;
use crate::keyspace::database::Database;
use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::value::Value;

/// Gives the keys at which somebody who waits is to be served or told off, when this change is going to happen.
pub fn note(database: &Database, change: &Change<'_>, mut give: impl FnMut(&[u8])) {
    let is_stream = |key: &[u8]| database.get(key).is_some_and(|entry| matches!(entry.value, Value::Stream(_)));
    match *change {
        Change::Push { key, .. } | Change::SetScore { key, .. } => give(key),
        Change::Stream { key, what } => {
            let concerns = matches!(
                what,
                StreamChange::Append { .. } | StreamChange::SetMarks { .. } | StreamChange::DropGroup { .. }
            );
            if concerns {
                give(key);
            }
        }
        // A consumer of a group does not wait for a stream that is gone.
        Change::Delete { key } | Change::Put { key, .. } if is_stream(key) => give(key),
        Change::Flush => database.iter().map(|(key, _)| key).filter(|key| is_stream(key)).for_each(give),
        _ => {}
    }
}
