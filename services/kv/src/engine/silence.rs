//! Whether a client hears the answers to its requests (`CLIENT REPLY`).

use crate::engine::session::Silence;
use crate::engine::state::State;
use crate::resp::reply::Reply;

/// Whether the request that comes now is one whose answer the client does not hear.
pub fn begins(state: &mut State, client: usize) -> bool {
    let Some(session) = state.sessions.get_mut(client) else { return false };
    if session.silence == Silence::Next {
        session.silence = Silence::Now;
    }
    session.silence != Silence::Off
}

/// Gives the client the answer to such a request if it is to hear it after all: it asked to hear answers again, or is told by it to which
/// channels it listens.
pub fn ends(state: &mut State, client: usize, command: &[u8], mut unheard: Reply, reply: &mut Reply) {
    let Some(session) = state.sessions.get_mut(client) else { return };
    let is_heard = session.silence == Silence::Off || command.to_ascii_lowercase().ends_with(b"subscribe");
    if session.silence == Silence::Now {
        session.silence = Silence::Off;
    }
    if is_heard {
        unheard.take().for_each(|bytes| reply.raw(&bytes));
    }
}
