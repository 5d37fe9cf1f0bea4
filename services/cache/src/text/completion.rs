//! A value of the text protocol has come.

use super::meta_set;
use super::replies::{NO_MEMORY, answer};
use crate::engine::state::Engine;
use crate::engine::storing::Stored;
use crate::output::Output;
use crate::pending::{Incoming, Then};

const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// Stores it, if its line ends as it should, and tells what came of it.
pub fn complete(incoming: Incoming, engine: &mut Engine, output: &mut Output) {
    let Incoming { key, value, end, store, then, .. } = incoming;
    if end != b"\r\n" {
        // Of the meta commands errors are always told.
        let is_quiet = matches!(then, Then::Text { is_quiet: true });
        answer(output, is_quiet, BAD_CHUNK);
        return;
    }
    let stored = engine.store_sent(&key, value, &store);
    match then {
        Then::Meta(meta) => meta_set::told(&meta, &key, stored, output),
        Then::Text { is_quiet } => {
            let text = match stored {
                Stored::Yes(_) => "STORED",
                Stored::No => "NOT_STORED",
                Stored::Exists => "EXISTS",
                Stored::NotFound => "NOT_FOUND",
                Stored::NoMemory => NO_MEMORY,
            };
            answer(output, is_quiet, text);
        }
        Then::Binary(_) => {}
    }
}
