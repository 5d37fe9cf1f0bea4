//! A client listens to nothing any more: it goes, is reset, or does not take what it is sent.

use crate::engine::listening::channels::Kind;
use crate::engine::state::State;

/// See the module.
pub fn leave(state: &mut State, client: usize) {
    let Some(session) = state.sessions.get_mut(client) else { return };
    session.listened_bytes = 0;
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        for name in std::mem::take(session.names(kind)) {
            state.channels.remove(kind, &name, client);
        }
    }
}

/// More messages wait than can be kept: a client that misses one is closed.
pub fn close(state: &mut State, client: usize) {
    leave(state, client);
    state.observed.monitors.retain(|slot| *slot != client);
    let Some(session) = state.sessions.get_mut(client).filter(|session| !session.is_killed) else { return };
    session.is_killed = true;
    state.kills = true;
    state.statistics.unread += 1;
}
