//! `set`, `add`, `replace`, `append`, `prepend`, `cas`: a line, then a value.

use super::line::{BAD_FORMAT, Next, answer};
use super::meta_set::{self, MetaSet};
use super::number;
use super::words::Words;
use crate::engine::state::Engine;
use crate::engine::storing::{Mode, Store, Stored};
use crate::items::account::Charge;
use crate::items::item::{KEY_BYTES_MAX, Value};
use crate::output::Output;

pub const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";
const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// A value that is coming, and where it goes.
#[derive(Debug)]
pub struct Incoming {
    pub key: Vec<u8>,
    pub value: Value,
    /// Bytes of the value that have not come.
    pub left: usize,
    /// What has come of the end of its line, in text.
    pub end: Vec<u8>,
    pub store: Store,
    pub then: Then,
    /// Its memory, if it does not come in one go.
    pub charge: Option<Charge>,
}

/// Who is told what came of it.
#[derive(Debug)]
pub enum Then {
    /// A client of text.
    Text { is_quiet: bool },
    /// One of the meta commands.
    Meta(MetaSet),
    /// One of the binary protocol.
    Binary(crate::binary::Request),
}

impl Incoming {
    /// A value of this length.
    pub fn new(key: &[u8], length: usize, store: Store, then: Then) -> Incoming {
        let value = Value::with_capacity(key, length);
        Incoming { key: key.to_vec(), value, left: length, end: Vec::new(), store, then, charge: None }
    }
}

/// What a line promises.
pub fn start(words: &Words<'_>, mode: Mode, engine: &mut Engine, output: &mut Output) -> Next {
    let is_quiet = words.says_noreply();
    let key = words.get(1);
    let flags = number::unsigned_32(words.get(2));
    let (said, length) = (number::signed_64(words.get(3)), number::signed_64(words.get(4)));
    let cas = if mode == Mode::Cas { number::unsigned_64(words.get(5)) } else { Some(0) };
    let (Some(flags), Some(said), Some(length), Some(cas)) = (flags, said, length, cas) else {
        return answer(output, is_quiet, BAD_FORMAT);
    };
    let Ok(length) = u32::try_from(length).and_then(|length| i32::try_from(length).map(|_| length as usize)) else {
        return answer(output, is_quiet, BAD_FORMAT);
    };
    if key.len() > KEY_BYTES_MAX {
        return answer(output, is_quiet, BAD_FORMAT);
    }
    if !engine.may_be_so_large(key.len(), length, flags) {
        engine.counts.store_too_large += 1;
        if mode == Mode::Set {
            engine.forget(key);
        }
        answer(output, is_quiet, TOO_LARGE);
        return Next::Swallow(length as u64 + 2);
    }
    let expires_s = engine.clock.expiry(said);
    let store = Store { mode, flags, expires_s, cas, may_be_stale: false, is_binary: false };
    Next::Value(Incoming::new(key, length, store, Then::Text { is_quiet }))
}

/// A value of a line of text has come, with the end of its line.
pub fn complete(incoming: Incoming, engine: &mut Engine, output: &mut Output) {
    let Incoming { key, value, end, store, then, .. } = incoming;
    if end != b"\r\n" {
        // Of the meta commands errors are always told.
        let is_quiet = matches!(then, Then::Text { is_quiet: true });
        answer(output, is_quiet, BAD_CHUNK);
        return;
    }
    let stored = engine.store(&key, value, &store);
    if stored == Stored::NoMemory && store.mode == Mode::Set {
        engine.forget(&key);
    }
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
