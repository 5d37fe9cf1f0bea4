//! `set`, `add`, `replace`, `append`, `prepend`, `cas`: a line, then a value.

use super::replies::{BAD_FORMAT, TOO_LARGE, answer};
use super::words::Words;
use crate::engine::state::Engine;
use crate::engine::storing::{Mode, Store};
use crate::items::item::KEY_BYTES_MAX;
use crate::number;
use crate::output::Output;
use crate::pending::{Incoming, Next, Then};

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
    if !engine.admits(key, length, flags, mode == Mode::Set) {
        answer(output, is_quiet, TOO_LARGE);
        return Next::Swallow(length as u64 + 2);
    }
    let expires_s = engine.clock.expiry(said);
    let store = Store { mode, flags, expires_s, cas, may_be_stale: false, is_binary: false };
    Next::Value(Incoming::new(key, length, store, Then::Text { is_quiet }))
}
