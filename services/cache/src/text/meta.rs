//! The meta commands of one line: `mg`, `md`, `ma`, `me`.

use super::meta_flags::MetaFlags;
use super::replies::{BAD_FORMAT, ERROR, NO_NUMBER, answer};
use super::words::Words;
use crate::engine::arithmetic::{Counted, Delta};
use crate::engine::fetching::Deleted;
use crate::engine::state::Engine;
use crate::engine::storing::{Mode, Store, Stored};
use crate::items::item::{Item, Value};
use crate::output::Output;
use crate::pending::Next;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Writes a key as it came.
pub fn put_key(output: &mut Output, key: &[u8], is_binary: bool) {
    output.put(b" k");
    match is_binary {
        true => {
            output.put(STANDARD.encode(key).as_bytes());
            output.put(b" b");
        }
        false => output.put(key),
    }
}

/// Writes what a client gets back as it was, of a command without an item.
fn put_tokens(flags: &MetaFlags<'_>, output: &mut Output) {
    for word in &flags.words {
        match word.first() {
            Some(b'O') => {
                output.put(b" ");
                output.put(word);
            }
            Some(b'k') => put_key(output, &flags.key, flags.is_binary),
            _ => {}
        }
    }
}

fn put_number(output: &mut Output, letter: &[u8], number: u64) {
    output.put(letter);
    output.number(number);
}

/// Seconds that are left; -1: no end.
fn put_time_left(output: &mut Output, item: &Item, now_s: u32) {
    match item.expires_s {
        0 => output.put(b" t-1"),
        expires_s => put_number(output, b" t", u64::from(expires_s.saturating_sub(now_s))),
    }
}

/// `mg`.
pub fn get(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    if words.count() < 2 {
        return answer(output, false, ERROR);
    }
    let flags = match MetaFlags::parse(words, 2, engine) {
        Ok(flags) => flags,
        Err(error) => return answer(output, false, error),
    };
    let now_s = engine.clock.now_s();
    if flags.expires_s.is_some() {
        engine.counts.touch_commands += 1;
    } else {
        engine.counts.get_commands += 1;
    }
    let mut is_new = false;
    let found = match engine.find(&flags.key) {
        None if flags.vivify_s.is_some() => {
            is_new = true;
            vivify(&flags, b"", engine)
        }
        found => found,
    };
    let Some(number) = found else {
        if !flags.is_quiet {
            output.put(b"EN");
            put_tokens(&flags, output);
            output.put(b"\r\n");
        }
        return Next::Request;
    };
    match flags.expires_s {
        Some(_) => engine.counts.touch_hits += 1,
        None => engine.counts.get_hits += 1,
    }
    if let Some(item) = engine.items.get_mut(number) {
        put_item(item, &flags, now_s, is_new, output);
    }
    if !flags.is_unused {
        engine.items.used(number, now_s);
    }
    Next::Request
}

/// Makes an item that there was none of. When it ends is set by its flags, in their order.
fn vivify(flags: &MetaFlags<'_>, value: &[u8], engine: &mut Engine) -> Option<u32> {
    let is_binary = flags.is_binary;
    let store = Store { mode: Mode::Add, flags: 0, expires_s: 0, cas: 0, may_be_stale: false, is_binary };
    match engine.store(&flags.key, Value::of(&flags.key, &[value]), &store) {
        Stored::Yes(_) => engine.find(&flags.key),
        _ => None,
    }
}

fn put_item(item: &mut Item, flags: &MetaFlags<'_>, now_s: u32, is_new: bool, output: &mut Output) {
    match flags.wants_value {
        true => put_number(output, b"VA ", item.value().len() as u64),
        false => output.put(b"HD"),
    }
    let mut has_won = is_new;
    for word in &flags.words {
        match word.first() {
            Some(b'T') => item.expires_s = flags.expires_s.unwrap_or(item.expires_s),
            // The last of the two counts.
            Some(b'N') if is_new => item.expires_s = flags.vivify_s.unwrap_or(item.expires_s),
            Some(b'R') => {
                let ends_soon = item.expires_s != 0 && flags.recache_s.is_some_and(|until| item.expires_s < until);
                has_won |= !item.marks.is_won && !is_new && ends_soon;
            }
            Some(b's') => put_number(output, b" s", item.value().len() as u64),
            Some(b't') => put_time_left(output, item, now_s),
            Some(b'c') => put_number(output, b" c", item.cas),
            Some(b'f') => put_number(output, b" f", u64::from(item.flags)),
            Some(b'l') => put_number(output, b" l", u64::from(now_s.saturating_sub(item.used_s))),
            Some(b'h') => put_number(output, b" h", u64::from(item.marks.is_fetched)),
            Some(b'O') => {
                output.put(b" ");
                output.put(word);
            }
            Some(b'k') => put_key(output, item.key(), item.marks.is_binary),
            _ => {}
        }
    }
    // One who is told that another renews it is not told to do so.
    if item.marks.is_won {
        output.put(b" Z");
    }
    if item.marks.is_stale {
        output.put(b" X");
        has_won |= !item.marks.is_won;
    }
    if has_won {
        output.put(b" W");
        item.marks.is_won = true;
    }
    output.put(b"\r\n");
    if flags.wants_value {
        output.value(item.value(), item.lent());
        output.put(b"\r\n");
    }
}

/// `md`.
pub fn delete(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    let flags = match parse_plain(words, engine) {
        Ok(flags) => flags,
        Err(error) => return answer(output, false, error),
    };
    let outcome = match flags.invalidates {
        true => invalidate(&flags, engine),
        false => engine.delete(&flags.key, flags.cas),
    };
    let code: &[u8] = match outcome {
        Deleted::Gone if flags.is_quiet => return Next::Request,
        Deleted::Gone => b"HD",
        Deleted::NotFound => b"NF",
        Deleted::Exists => b"EX",
    };
    output.put(code);
    put_tokens(&flags, output);
    output.put(b"\r\n");
    Next::Request
}

/// Marks an item: its value is not to be trusted, and the next who asks is to renew it.
fn invalidate(flags: &MetaFlags<'_>, engine: &mut Engine) -> Deleted {
    let found = engine.find(&flags.key);
    let last = found.and_then(|number| engine.items.get(number)).map(|item| item.cas);
    let (Some(number), Some(last)) = (found, last) else {
        engine.counts.delete_misses += 1;
        return Deleted::NotFound;
    };
    if flags.cas.is_some_and(|cas| cas != last) {
        engine.counts.delete_misses += 1;
        return Deleted::Exists;
    }
    let cas = engine.next_cas();
    if let Some(item) = engine.items.get_mut(number) {
        item.expires_s = flags.expires_s.unwrap_or(item.expires_s);
        (item.marks.is_stale, item.marks.is_won, item.cas) = (true, false, cas);
    }
    Deleted::Gone
}

/// The flags of commands that have one error for all that is wrong with them.
fn parse_plain<'a>(words: &Words<'a>, engine: &Engine) -> Result<MetaFlags<'a>, &'static str> {
    if words.count() < 2 {
        return Err(ERROR);
    }
    MetaFlags::parse(words, 2, engine).map_err(|error| match error {
        BAD_FORMAT if words.get(1).len() > crate::items::item::KEY_BYTES_MAX => BAD_FORMAT,
        error if error.contains("too long") => error,
        _ => "CLIENT_ERROR invalid or duplicate flag",
    })
}

/// `ma`.
pub fn count(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    let flags = match parse_plain(words, engine) {
        Ok(flags) => flags,
        Err(error) => return answer(output, false, error),
    };
    let is_up = match flags.mode {
        None | Some(b'I' | b'+') => true,
        Some(b'D' | b'-') => false,
        Some(_) => return answer(output, false, "CLIENT_ERROR invalid mode for ma M token"),
    };
    let delta = Delta { is_up, by: flags.delta.unwrap_or(1), cas: flags.cas.unwrap_or(0) };
    let (number, is_new) = match engine.count(&flags.key, delta) {
        Counted::Yes(number) => (number, false),
        Counted::NotFound if flags.vivify_s.is_some() => {
            if vivify(&flags, itoa::Buffer::new().format(flags.initial).as_bytes(), engine).is_none() {
                return answer(output, false, "SERVER_ERROR Out of memory allocating new item");
            }
            (flags.initial, true)
        }
        Counted::NoNumber => return answer(output, false, NO_NUMBER),
        Counted::NoMemory => return answer(output, false, "SERVER_ERROR out of memory"),
        missed => {
            output.put(if missed == Counted::Exists { b"EX" } else { b"NF" });
            put_tokens(&flags, output);
            output.put(b"\r\n");
            return Next::Request;
        }
    };
    let now_s = engine.clock.now_s();
    if let Some(item) = engine.find(&flags.key).and_then(|number| engine.items.get_mut(number)) {
        // Of a new one even those hear who want no answer: they cannot know of it.
        match flags.is_quiet && !is_new {
            true => set_expiry(item, &flags),
            false => {
                let mut text = itoa::Buffer::new();
                put_counted(item, &flags, text.format(number).as_bytes(), (now_s, is_new), output);
            }
        }
    }
    Next::Request
}

/// The end of an item whose answer nobody wants.
fn set_expiry(item: &mut Item, flags: &MetaFlags<'_>) {
    item.expires_s = flags.expires_s.unwrap_or(item.expires_s);
}

fn put_counted(item: &mut Item, flags: &MetaFlags<'_>, text: &[u8], (now_s, is_new): (u32, bool), output: &mut Output) {
    match flags.wants_value {
        true => put_number(output, b"VA ", text.len() as u64),
        false => output.put(b"HD"),
    }
    for word in &flags.words {
        match word.first() {
            Some(b'c') => put_number(output, b" c", item.cas),
            Some(b't') => put_time_left(output, item, now_s),
            Some(b'T') => set_expiry(item, flags),
            Some(b'N') if is_new => item.expires_s = flags.vivify_s.unwrap_or(item.expires_s),
            Some(b'O') => {
                output.put(b" ");
                output.put(word);
            }
            Some(b'k') => put_key(output, &flags.key, flags.is_binary),
            _ => {}
        }
    }
    output.put(b"\r\n");
    if flags.wants_value {
        output.put(text);
        output.put(b"\r\n");
    }
}

/// `me`: what is known of an item, for people.
pub fn debug(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    engine.counts.meta_commands += 1;
    if words.count() < 2 {
        return answer(output, false, BAD_FORMAT);
    }
    let flags = match MetaFlags::parse(words, 2, engine) {
        Ok(flags) => flags,
        Err(_) => return answer(output, false, BAD_FORMAT),
    };
    let clock = engine.clock;
    let Some(item) = engine.find(&flags.key).and_then(|number| engine.items.get(number)) else {
        return answer(output, false, "EN");
    };
    output.put(b"ME ");
    match item.marks.is_binary {
        true => output.put(STANDARD.encode(item.key()).as_bytes()),
        false => output.put(item.key()),
    }
    let expiry = if item.expires_s == 0 { -1 } else { i64::from(item.expires_s.saturating_sub(clock.now_s())) };
    output.line(&format!(
        " exp={expiry} la={} cas={} fetch={} cls=1 size={}",
        clock.now_s().saturating_sub(item.used_s),
        item.cas,
        if item.marks.is_fetched { "yes" } else { "no" },
        item.nominal_bytes(),
    ));
    Next::Request
}
