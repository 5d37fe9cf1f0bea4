//! `ms`: a line, then a value.

use super::meta::put_key;
use super::meta_flags::MetaFlags;
use super::replies::{BAD_FORMAT, ERROR, NO_MEMORY, TOO_LARGE, answer};
use super::words::Words;
use crate::engine::state::Engine;
use crate::engine::storing::{Mode, Store, Stored};
use crate::number;
use crate::output::Output;
use crate::pending::{Incoming, MetaSet, Next, Then};

/// What a line promises. After an error what follows is no line, if it says how long it is.
pub fn start(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    if words.count() < 2 {
        return answer(output, false, ERROR);
    }
    let length = number::signed_64(words.get(2)).and_then(|length| u32::try_from(length).ok());
    let Some(length) = length.filter(|length| i32::try_from(*length).is_ok()) else {
        return answer(output, false, BAD_FORMAT);
    };
    match prepare(words, length as usize, engine) {
        Ok(incoming) => Next::Value(incoming),
        Err(error) => {
            answer(output, false, error);
            Next::Swallow(u64::from(length) + 2)
        }
    }
}

fn prepare(words: &Words<'_>, length: usize, engine: &mut Engine) -> Result<Incoming, &'static str> {
    let flags = MetaFlags::parse(words, 3, engine)?;
    let mode = match flags.mode {
        None | Some(b'S') => Mode::Set,
        Some(b'E') => Mode::Add,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        Some(b'R') => Mode::Replace,
        Some(_) => return Err("CLIENT_ERROR invalid mode for ms M token"),
    };
    let mode = match (mode, flags.cas) {
        (Mode::Set | Mode::Replace, Some(_)) => Mode::Cas,
        (mode, _) => mode,
    };
    // In each mode, as memcached does it.
    if !engine.admits(&flags.key, length, flags.flags, true) {
        return Err(TOO_LARGE);
    }
    let store = Store {
        mode,
        flags: flags.flags,
        expires_s: flags.expires_s.unwrap_or(0),
        cas: flags.cas.unwrap_or(0),
        may_be_stale: flags.invalidates && mode == Mode::Cas,
        is_binary: flags.is_binary,
    };
    let told = flags.words.iter().filter(|word| matches!(word.first(), Some(b'O' | b'k' | b'c')));
    let meta = MetaSet {
        is_quiet: flags.is_quiet,
        is_binary: flags.is_binary,
        tokens: told.map(|word| word.to_vec()).collect(),
    };
    Ok(Incoming::new(&flags.key, length, store, Then::Meta(meta)))
}

/// Tells what came of it.
pub fn told(meta: &MetaSet, key: &[u8], stored: Stored, output: &mut Output) {
    let code: &[u8] = match stored {
        Stored::Yes(_) if meta.is_quiet => return,
        Stored::Yes(_) => b"HD",
        Stored::No => b"NS",
        Stored::Exists => b"EX",
        Stored::NotFound => b"NF",
        Stored::NoMemory => return output.line(NO_MEMORY),
    };
    output.put(code);
    for token in &meta.tokens {
        match token.first() {
            Some(b'k') => put_key(output, key, meta.is_binary),
            Some(b'c') => {
                output.put(b" c");
                output.number(if let Stored::Yes(cas) = stored { cas } else { 0 });
            }
            _ => {
                output.put(b" ");
                output.put(token);
            }
        }
    }
    output.put(b"\r\n");
}
