//! `get`, `gets`, `gat`, `gats`: any number of keys, and their answers as there is room for them.

use super::replies::{BAD_FORMAT, answer};
use super::words::split;
use crate::engine::state::Engine;
use crate::items::item::KEY_BYTES_MAX;
use crate::number;
use crate::output::Output;
use crate::pending::{How, Keys, Next};

/// Keys that are looked for in one go: a line of a MiB may have half a million that are not there.
const KEYS_MAX: usize = 4_096;

/// Answers keys, unless one is too long: that spoils the line, and nothing is answered.
#[inline]
fn begin(line: &[u8], how: How, engine: &mut Engine, output: &mut Output) -> Next {
    if line.len() > KEY_BYTES_MAX && split(line).any(|key| key.len() > KEY_BYTES_MAX) {
        return answer(output, false, BAD_FORMAT);
    }
    match answer_some(line, how, engine, output) {
        None => Next::Request,
        // The line is in memory that is used again.
        Some(used) => Next::Get(Keys { line: line.get(used..).unwrap_or_default().to_vec(), at: 0, how }),
    }
}

/// The keys of `get` and `gets`.
#[inline]
pub fn start(line: &[u8], tells_cas: bool, engine: &mut Engine, output: &mut Output) -> Next {
    begin(line, How { tells_cas, expires_s: None }, engine, output)
}

/// `gat` and `gats`: a time, then keys.
pub fn start_touching(line: &[u8], tells_cas: bool, engine: &mut Engine, output: &mut Output) -> Next {
    let time = split(line).next().unwrap_or_default();
    let Some(said) = number::signed_64(time) else {
        return answer(output, false, "CLIENT_ERROR invalid exptime argument");
    };
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    let keys = line.get(blanks + time.len()..).unwrap_or_default();
    begin(keys, How { tells_cas, expires_s: Some(engine.clock.expiry(said)) }, engine, output)
}

/// Answers some more keys; the rest, if there is one.
pub fn get(mut keys: Keys, engine: &mut Engine, output: &mut Output) -> Option<Keys> {
    match answer_some(keys.line.get(keys.at..).unwrap_or_default(), keys.how, engine, output) {
        None => None,
        Some(used) => {
            keys.at += used;
            Some(keys)
        }
    }
}

/// Answers some keys; how many bytes of the line were used, if not all.
#[inline]
fn answer_some(line: &[u8], how: How, engine: &mut Engine, output: &mut Output) -> Option<usize> {
    let (mut used, mut keys) = (0, 0);
    loop {
        let rest = line.get(used..).unwrap_or_default();
        let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        if (output.is_long() || keys == KEYS_MAX) && !rest.is_empty() {
            return Some(used);
        }
        keys += 1;
        if let Some(key) = rest.get(..length).filter(|key| !key.is_empty()) {
            one(key, how, engine, output);
        }
        used += length + 1;
        if used > line.len() {
            output.put(b"END\r\n");
            return None;
        }
    }
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
