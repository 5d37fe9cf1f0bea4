//! The first line of a script or a library: `#!lua name=mylib flags=no-writes`.

use crate::engine::fault::Fault;
use crate::resp::inline;

/// What scripts and functions may say of themselves.
pub const FLAGS: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// A flag as it is known.
pub fn flag(name: &[u8]) -> Option<&'static str> {
    FLAGS.into_iter().find(|flag| flag.as_bytes().eq_ignore_ascii_case(name))
}

fn told(text: &[u8]) -> String {
    String::from_utf8_lossy(text.get(..text.len().min(128)).unwrap_or_default()).into_owned()
}

/// The line, and what comes behind it, its end included: lines of errors are counted from the shebang.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    text.split_at_checked(text.iter().position(|byte| *byte == b'\n')?)
}

/// The words of a library's line, which may be quoted.
fn quoted(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut ranges = Vec::new();
    let text = inline::words(line, &mut ranges)?;
    Some(ranges.into_iter().map(|range| text.get(range).unwrap_or_default().to_vec()).collect())
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
}

/// A script's flags, if it has a shebang, and its text without it.
///
/// # Errors
/// As Redis words them.
pub fn of_script(text: &[u8]) -> Result<(Option<Vec<&'static str>>, &[u8]), Fault> {
    if !text.starts_with(b"#!") {
        return Ok((None, text));
    }
    let (line, rest) = split(text).ok_or(Fault::Said("ERR Invalid script shebang"))?;
    let mut words = words(line);
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(Fault::Told(format!("ERR Unexpected engine in script shebang: {}", told(engine))));
    }
    let mut flags = Vec::new();
    for word in words {
        let list = word
            .strip_prefix(b"flags=")
            .ok_or_else(|| Fault::Told(format!("ERR Unknown lua shebang option: {}", told(word))))?;
        for name in list.split(|byte| *byte == b',').filter(|name| !name.is_empty()) {
            let known = flag(name)
                .ok_or_else(|| Fault::Told(format!("ERR Unexpected flag in script shebang: {}", told(name))))?;
            flags.push(known);
        }
    }
    Ok((Some(flags), rest))
}

/// A library's name, and its text without the shebang.
///
/// # Errors
/// As Redis words them.
pub fn of_library(text: &[u8]) -> Result<(String, &[u8]), Fault> {
    const METADATA: Fault = Fault::Said("ERR Invalid library metadata");
    let line = text.strip_prefix(b"#!").ok_or(Fault::Said("ERR Missing library metadata"))?;
    let (line, rest) = split(line).ok_or(METADATA)?;
    let words = quoted(line).ok_or(METADATA)?;
    let mut words = words.iter().map(Vec::as_slice);
    // Without a blank it follows the two signs at once; there is none otherwise.
    let engine = if line.starts_with(b" ") { b"" } else { words.next().unwrap_or_default() };
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Fault::Told(format!("ERR Engine '{}' not found", told(engine))));
    }
    let mut found = None;
    for word in words {
        let name = word
            .strip_prefix(b"name=")
            .ok_or_else(|| Fault::Told(format!("ERR Invalid metadata value given: {}", told(word))))?;
        if found.replace(name).is_some() {
            return Err(Fault::Said("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = found.ok_or(Fault::Said("ERR Library name was not given"))?;
    let name = named(name).ok_or(Fault::Said("ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"))?;
    Ok((name.to_owned(), rest))
}

/// A name of a library or a function, if it may be one.
pub fn named(name: &[u8]) -> Option<&str> {
    let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    std::str::from_utf8(name).ok().filter(|_| is_name)
}
