//! Requests, executed.

use super::answers::{Parts, Status, put, put_error, put_missing};
use super::header::Request;
use crate::engine::arithmetic::{Counted, Delta};
use crate::engine::fetching::Deleted;
use crate::engine::state::Engine;
use crate::engine::storing::{Mode, Store, Stored};
use crate::items::item::{KEY_BYTES_MAX, Value};
use crate::output::Output;
use crate::pending::{Incoming, Next, Then};
use crate::statistics;

/// What a number is that is made if there is none, unless its time says that none is to be made.
const NOT_TO_BE_MADE: u32 = u32::MAX;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Get { tells_key: bool },
    Touch,
    GetAndTouch { tells_key: bool },
    Store(Mode),
    Delete,
    Count { is_up: bool },
    Flush,
    Quit,
    Nothing,
    Version,
    Stat,
}

/// An opcode's meaning, and whether only what is unusual is answered.
fn meaning(opcode: u8) -> Option<(Act, bool)> {
    let quiet = |loud: u8, by: u8| (opcode == loud + by).then_some(true).or((opcode == loud).then_some(false));
    let get = |tells_key| Act::Get { tells_key };
    let get_and_touch = |tells_key| Act::GetAndTouch { tells_key };
    let table = [
        (0x00, 0x09, get(false)),
        (0x0c, 0x01, get(true)),
        (0x1d, 0x01, get_and_touch(false)),
        (0x23, 0x01, get_and_touch(true)),
        (0x01, 0x10, Act::Store(Mode::Set)),
        (0x02, 0x10, Act::Store(Mode::Add)),
        (0x03, 0x10, Act::Store(Mode::Replace)),
        (0x0e, 0x0b, Act::Store(Mode::Append)),
        (0x0f, 0x0b, Act::Store(Mode::Prepend)),
        (0x04, 0x10, Act::Delete),
        (0x05, 0x10, Act::Count { is_up: true }),
        (0x06, 0x10, Act::Count { is_up: false }),
        (0x07, 0x10, Act::Quit),
        (0x08, 0x10, Act::Flush),
        (0x0a, 0, Act::Nothing),
        (0x0b, 0, Act::Version),
        (0x10, 0, Act::Stat),
        (0x1c, 0, Act::Touch),
    ];
    table.into_iter().find_map(|(loud, by, act)| match by {
        0 => (opcode == loud).then_some((act, false)),
        by => quiet(loud, by).map(|is_quiet| (act, is_quiet)),
    })
}

/// Whether the lengths of a request are those of its kind.
fn is_valid(act: Act, request: &Request, value_bytes: usize) -> bool {
    let (extras, has_key, has_value) = (request.extras_bytes, request.key_bytes > 0, value_bytes > 0);
    match act {
        Act::Get { .. } | Act::Delete => extras == 0 && has_key && !has_value,
        Act::Touch | Act::GetAndTouch { .. } => extras == 4 && has_key && !has_value,
        Act::Store(Mode::Append | Mode::Prepend) => extras == 0 && has_key,
        Act::Store(_) => extras == 8 && has_key,
        Act::Count { .. } => extras == 20 && has_key && !has_value,
        Act::Flush => matches!(extras, 0 | 4) && !has_key && !has_value,
        Act::Quit | Act::Nothing | Act::Version => extras == 0 && !has_key && !has_value,
        Act::Stat => extras == 0 && !has_value,
    }
}

fn number_32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn number_64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// An error after which nothing can be understood any more.
fn broken(request: &Request, status: Status, output: &mut Output) -> Next {
    put_error(request, status, output);
    Next::End
}

/// Executes a request; `parts` are its extras and its key.
pub fn execute(request: &Request, parts: &[u8], engine: &mut Engine, output: &mut Output) -> Next {
    let Some(value_bytes) = request.value_bytes() else { return broken(request, Status::Unknown, output) };
    let (extras, key) = parts.split_at(parts.len().min(usize::from(request.extras_bytes)));
    if key.len() > KEY_BYTES_MAX {
        return broken(request, Status::Invalid, output);
    }
    let Some((act, is_quiet)) = meaning(request.opcode) else {
        put_error(request, Status::Unknown, output);
        return Next::Swallow(value_bytes as u64);
    };
    if !is_valid(act, request, value_bytes) {
        return broken(request, Status::Invalid, output);
    }
    let expiry = |at| i64::from(number_32(extras, at));
    match act {
        Act::Get { tells_key } => fetch(request, key, (tells_key, true, is_quiet), None, engine, output),
        Act::Touch => fetch(request, key, (false, false, false), Some(expiry(0)), engine, output),
        Act::GetAndTouch { tells_key } => {
            fetch(request, key, (tells_key, true, is_quiet), Some(expiry(0)), engine, output);
        }
        Act::Store(mode) => {
            let extras = (number_32(extras, 0), expiry(4));
            return store(request, (key, value_bytes), mode, extras, engine, output);
        }
        Act::Delete => match engine.delete(key, (request.cas != 0).then_some(request.cas)) {
            Deleted::Gone => put_done(request, is_quiet, output),
            Deleted::NotFound => put_error(request, Status::NotFound, output),
            Deleted::Exists => put_error(request, Status::Exists, output),
        },
        Act::Count { is_up } => count(request, key, extras, (is_up, is_quiet), engine, output),
        Act::Flush if !engine.settings.may_flush => put_error(request, Status::NotAllowed, output),
        Act::Flush => {
            let said = if extras.is_empty() { 0 } else { expiry(0) };
            engine.flush((said > 0).then(|| engine.clock.expiry(said)));
            put_done(request, is_quiet, output);
        }
        Act::Quit => {
            put_done(request, is_quiet, output);
            return Next::End;
        }
        Act::Nothing => put_done(request, false, output),
        Act::Version => put(request, &Parts::default(), statistics::VERSION.as_bytes(), None, output),
        Act::Stat => stat(request, key, engine, output),
    }
    Next::Request
}

fn put_done(request: &Request, is_quiet: bool, output: &mut Output) {
    if !is_quiet {
        put(request, &Parts::default(), b"", None, output);
    }
}

/// Fetches; `how`: whether the key is told, the value is, and nothing if there is none.
fn fetch(
    request: &Request,
    key: &[u8],
    how: (bool, bool, bool),
    said: Option<i64>,
    engine: &mut Engine,
    output: &mut Output,
) {
    let (tells_key, tells_value, is_quiet) = how;
    let found = match said {
        Some(said) => engine.touch(key, engine.clock.expiry(said)),
        None => engine.fetch(key),
    };
    let key = if tells_key { key } else { b"" };
    match found.and_then(|number| engine.items.get(number)) {
        None if is_quiet => {}
        None => put_missing(request, key, output),
        Some(item) => {
            let parts = Parts { cas: item.cas, extras: &item.flags.to_be_bytes(), key };
            match tells_value {
                true => put(request, &parts, item.value(), item.lent(), output),
                false => put(request, &parts, b"", None, output),
            }
        }
    }
}

fn store(
    request: &Request,
    (key, length): (&[u8], usize),
    mode: Mode,
    (flags, said): (u32, i64),
    engine: &mut Engine,
    output: &mut Output,
) -> Next {
    let extends = matches!(mode, Mode::Append | Mode::Prepend);
    let (flags, said) = if extends { (0, 0) } else { (flags, said) };
    if !engine.admits(key, length, flags, mode == Mode::Set) {
        put_error(request, Status::TooLarge, output);
        return Next::Swallow(length as u64);
    }
    let mode = if request.cas != 0 && !extends { Mode::Cas } else { mode };
    let expires_s = engine.clock.expiry(said);
    let store = Store { mode, flags, expires_s, cas: request.cas, may_be_stale: false, is_binary: false };
    Next::Value(Incoming::new(key, length, store, Then::Binary(*request)))
}

/// A value of a request has come.
pub fn complete(request: &Request, incoming: Incoming, engine: &mut Engine, output: &mut Output) {
    let Incoming { key, value, store, .. } = incoming;
    let stored = engine.store_sent(&key, value, &store);
    let is_quiet = meaning(request.opcode).is_some_and(|(_, is_quiet)| is_quiet);
    match (stored, store.mode) {
        (Stored::Yes(_), _) if is_quiet => {}
        (Stored::Yes(cas), _) => put(request, &Parts { cas, ..Parts::default() }, b"", None, output),
        (Stored::Exists, _) | (Stored::No, Mode::Add) => put_error(request, Status::Exists, output),
        (Stored::NotFound, _) | (Stored::No, Mode::Replace) => put_error(request, Status::NotFound, output),
        (Stored::No, _) => put_error(request, Status::NotStored, output),
        (Stored::NoMemory, _) => put_error(request, Status::NoMemory, output),
    }
}

/// There is no memory for a value that is coming.
pub fn refuse(request: &Request, output: &mut Output) {
    put_error(request, Status::NoMemory, output);
}

fn count(
    request: &Request,
    key: &[u8],
    extras: &[u8],
    (is_up, is_quiet): (bool, bool),
    engine: &mut Engine,
    output: &mut Output,
) {
    let (by, initial, expires) = (number_64(extras, 0), number_64(extras, 8), number_32(extras, 16));
    let mut counted = engine.count(key, Delta { is_up, by, cas: request.cas });
    if counted == Counted::NotFound && expires != NOT_TO_BE_MADE {
        let expires_s = engine.clock.expiry(i64::from(expires));
        let store = Store { mode: Mode::Add, flags: 0, expires_s, cas: 0, may_be_stale: false, is_binary: false };
        let mut text = itoa::Buffer::new();
        let value = Value::of(key, &[text.format(initial).as_bytes()]);
        counted = match engine.store(key, value, &store) {
            Stored::Yes(_) => Counted::Yes(initial),
            _ => Counted::NoMemory,
        };
    }
    match counted {
        Counted::Yes(_) if is_quiet => {}
        Counted::Yes(number) => {
            let cas = engine.find(key).and_then(|number| engine.items.get(number)).map_or(0, |item| item.cas);
            put(request, &Parts { cas, ..Parts::default() }, &number.to_be_bytes(), None, output);
        }
        Counted::NotFound => put_error(request, Status::NotFound, output),
        Counted::NoNumber => put_error(request, Status::NoNumber, output),
        Counted::Exists => put_error(request, Status::Exists, output),
        Counted::NoMemory => put_error(request, Status::NoMemory, output),
    }
}

/// Figures, each an answer of its own, and one without a name behind them.
fn stat(request: &Request, kind: &[u8], engine: &mut Engine, output: &mut Output) {
    let figures = match kind {
        b"reset" => {
            engine.reset_counts();
            Vec::new()
        }
        kind => match statistics::of(kind, engine) {
            Some(figures) => figures,
            None => return put_error(request, Status::NotFound, output),
        },
    };
    for (name, value) in figures {
        put(request, &Parts { key: name.as_bytes(), ..Parts::default() }, value.as_bytes(), None, output);
    }
    put(request, &Parts::default(), b"", None, output);
}
