//! What a client watches (WATCH).

use crate::engine::state::State;

/// A client watches nothing any more.
pub fn unwatch(state: &mut State, client: usize) {
    let Some(session) = state.sessions.get_mut(client) else { return };
    session.watched_bytes = 0;
    for (place, _) in std::mem::take(&mut session.watched) {
        state.keyspace.watches.unwatch(&place);
    }
}
