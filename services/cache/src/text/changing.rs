//! `incr`, `decr`, `touch`, `delete`, `flush_all`: lines that change what is there.

use super::replies::{BAD_FORMAT, NO_NUMBER, answer};
use super::words::Words;
use crate::engine::arithmetic::{Counted, Delta};
use crate::engine::fetching::Deleted;
use crate::engine::state::Engine;
use crate::items::item::KEY_BYTES_MAX;
use crate::number;
use crate::output::Output;
use crate::pending::Next;

const BAD_TIME: &str = "CLIENT_ERROR invalid exptime argument";

/// `incr` and `decr`.
pub fn count(words: &Words<'_>, is_up: bool, engine: &mut Engine, output: &mut Output) -> Next {
    let (is_quiet, key) = (words.says_noreply(), words.get(1));
    if key.len() > KEY_BYTES_MAX {
        return answer(output, is_quiet, BAD_FORMAT);
    }
    let Some(by) = number::unsigned_64(words.get(2)) else {
        return answer(output, is_quiet, "CLIENT_ERROR invalid numeric delta argument");
    };
    match engine.count(key, Delta { is_up, by, cas: 0 }) {
        Counted::Yes(number) => answer(output, is_quiet, itoa::Buffer::new().format(number)),
        Counted::NoNumber => answer(output, is_quiet, NO_NUMBER),
        Counted::NoMemory => answer(output, is_quiet, "SERVER_ERROR out of memory"),
        Counted::NotFound | Counted::Exists => answer(output, is_quiet, "NOT_FOUND"),
    }
}

/// `touch`.
pub fn touch(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    let (is_quiet, key) = (words.says_noreply(), words.get(1));
    if key.len() > KEY_BYTES_MAX {
        return answer(output, is_quiet, BAD_FORMAT);
    }
    let Some(said) = number::signed_64(words.get(2)) else { return answer(output, is_quiet, BAD_TIME) };
    let found = engine.touch(key, engine.clock.expiry(said));
    answer(output, is_quiet, if found.is_some() { "TOUCHED" } else { "NOT_FOUND" })
}

/// `delete`. It may say `0`, as old clients do.
pub fn delete(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    let (is_quiet, key) = (words.count() > 2 && words.says_noreply(), words.get(1));
    let is_zero = words.get(2) == b"0";
    let is_valid = match words.count() {
        2 => true,
        3 => is_zero || is_quiet,
        _ => is_zero && is_quiet,
    };
    if !is_valid {
        let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
        return answer(output, is_quiet, usage);
    }
    if key.len() > KEY_BYTES_MAX {
        return answer(output, is_quiet, BAD_FORMAT);
    }
    answer(output, is_quiet, if engine.delete(key, None) == Deleted::Gone { "DELETED" } else { "NOT_FOUND" })
}

/// `flush_all`, perhaps with a delay.
pub fn flush(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    let is_quiet = words.says_noreply();
    if !engine.settings.may_flush {
        engine.counts.flush_commands += 1;
        return answer(output, is_quiet, "CLIENT_ERROR flush_all not allowed");
    }
    let said = match words.count() - usize::from(is_quiet) {
        1 => Some(0),
        _ => number::signed_64(words.get(1)),
    };
    let Some(said) = said else { return answer(output, is_quiet, BAD_TIME) };
    engine.flush((said > 0).then(|| engine.clock.expiry(said)));
    answer(output, is_quiet, "OK")
}
