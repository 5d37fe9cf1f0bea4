//! `get`, `gets`, `gat`, `gats`: any number of keys, and their answers as there is room for them.

use super::line::{BAD_FORMAT, Next, answer};
use super::number;
use super::words::split;
use crate::engine::state::Engine;
use crate::items::item::KEY_BYTES_MAX;
use crate::output::Output;

/// A line whose keys were not all answered yet.
#[derive(Debug)]
pub struct Keys {
    /// Blanks and keys.
    line: Vec<u8>,
    /// Where to go on.
    at: usize,
    how: How,
}

#[derive(Clone, Copy, Debug)]
struct How {
    tells_cas: bool,
    /// When items that are fetched end from now on.
    expires_s: Option<u32>,
}

/// Looks at keys first: one that is too long spoils the line, and nothing is answered.
fn begin(line: &[u8], how: How, output: &mut Output) -> Next {
    if split(line).any(|key| key.len() > KEY_BYTES_MAX) {
        return answer(output, false, BAD_FORMAT);
    }
    Next::Get(Keys { line: line.to_vec(), at: 0, how })
}

/// The keys of `get` and `gets`.
#[inline]
pub fn start(line: &[u8], tells_cas: bool, output: &mut Output) -> Next {
    begin(line, How { tells_cas, expires_s: None }, output)
}

/// `gat` and `gats`: a time, then keys.
pub fn start_touching(line: &[u8], tells_cas: bool, engine: &Engine, output: &mut Output) -> Next {
    let time = split(line).next().unwrap_or_default();
    let Some(said) = number::signed_64(time) else {
        return answer(output, false, "CLIENT_ERROR invalid exptime argument");
    };
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    let keys = line.get(blanks + time.len()..).unwrap_or_default();
    begin(keys, How { tells_cas, expires_s: Some(engine.clock.expiry(said)) }, output)
}

/// Answers as many keys as there is room for; the rest, if there is one.
pub fn get(mut keys: Keys, engine: &mut Engine, output: &mut Output) -> Option<Keys> {
    match answer_some(&keys.line[keys.at..], keys.how, engine, output) {
        None => None,
        Some(used) => {
            keys.at += used;
            Some(keys)
        }
    }
}

/// Answers keys; how many bytes of the line were used, if not all.
fn answer_some(line: &[u8], how: How, engine: &mut Engine, output: &mut Output) -> Option<usize> {
    let mut used = 0;
    for part in line.split_inclusive(|byte| *byte == b' ') {
        if output.is_long() {
            return Some(used);
        }
        used += part.len();
        let key = part.strip_suffix(b" ").unwrap_or(part);
        if !key.is_empty() {
            one(key, how, engine, output);
        }
    }
    output.put(b"END\r\n");
    None
}

#[inline]
fn one(key: &[u8], how: How, engine: &mut Engine, output: &mut Output) {
    let found = match how.expires_s {
        Some(expires_s) => engine.touch(key, expires_s),
        None => engine.fetch(key),
    };
    let Some(item) = found.and_then(|number| engine.items.get(number)) else { return };
    output.put(b"VALUE ");
    output.put(key);
    output.put(b" ");
    output.number(u64::from(item.flags));
    output.put(b" ");
    output.number(item.value().len() as u64);
    if how.tells_cas {
        output.put(b" ");
        output.number(item.cas);
    }
    output.put(b"\r\n");
    output.value(item.value(), item.lent());
    output.put(b"\r\n");
}
