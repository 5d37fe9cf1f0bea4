//! Telling those who listen what has happened to keys (`notify-keyspace-events`).
//!
//! A message says that a key was changed, and not to what. It waits until the change is durable: who hears of it may act on it.

use crate::engine::listening::channels::Kind;
use crate::engine::listening::publishing::publish;
use crate::engine::state::{State, Waits};
use crate::keyspace::events::{Event, Kinds};

/// Tells what was noted.
#[inline]
pub fn tell(state: &mut State) {
    if !state.keyspace.events.is_idle() {
        tell_all(state);
    }
}

fn tell_all(state: &mut State) {
    let noted = state.keyspace.events.take();
    if state.channels.are_deserted() {
        return;
    }
    let [at_key, at_event] = [Kinds::AT_KEY, Kinds::AT_EVENT].map(|kind| state.keyspace.events.wants(kind));
    for Event { name, database, key, .. } in noted {
        if at_key {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), &key].concat();
            publish(state, Kind::Channel, &channel, name.as_bytes(), Waits::Message);
        }
        if at_event {
            let channel = format!("__keyevent@{database}__:{name}");
            publish(state, Kind::Channel, channel.as_bytes(), &key, Waits::Message);
        }
    }
}
