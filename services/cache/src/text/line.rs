//! A line, and what is to be done after it.

use super::replies::{ERROR, answer};
use super::words::{self, Words};
use super::{changing, meta, meta_set, operating, retrieval, storage};
use crate::engine::state::Engine;
use crate::engine::storing::Mode;
use crate::output::Output;
use crate::pending::Next;

/// Executes a line, which has no end any more.
pub fn line(line: &[u8], engine: &mut Engine, output: &mut Output) -> Next {
    // What is asked most often, first.
    if let Some(keys) = line.strip_prefix(b"get ") {
        return retrieval::start(keys, false, engine, output);
    }
    let words = Words::of(line);
    let name = words.get(0);
    let between = |least: usize, most: usize| (least..=most).contains(&words.count());
    match name {
        b"get" | b"gets" | b"bget" | b"gat" | b"gats" if words.count() < 2 => answer(output, false, ERROR),
        b"get" | b"bget" | b"gets" => retrieval::start(rest(line), name == b"gets", engine, output),
        b"gat" | b"gats" => retrieval::start_touching(rest(line), name == b"gats", engine, output),
        b"set" if between(5, 6) => storage::start(&words, Mode::Set, engine, output),
        b"add" if between(5, 6) => storage::start(&words, Mode::Add, engine, output),
        b"replace" if between(5, 6) => storage::start(&words, Mode::Replace, engine, output),
        b"append" if between(5, 6) => storage::start(&words, Mode::Append, engine, output),
        b"prepend" if between(5, 6) => storage::start(&words, Mode::Prepend, engine, output),
        b"cas" if between(6, 7) => storage::start(&words, Mode::Cas, engine, output),
        b"incr" | b"decr" if between(3, 4) => changing::count(&words, name == b"incr", engine, output),
        b"touch" if between(3, 4) => changing::touch(&words, engine, output),
        b"delete" if between(2, 4) => changing::delete(&words, engine, output),
        b"flush_all" if between(1, 3) => changing::flush(&words, engine, output),
        b"mg" => meta::get(&words, engine, output),
        b"ms" => meta_set::start(&words, engine, output),
        b"md" => meta::delete(&words, engine, output),
        b"ma" => meta::count(&words, engine, output),
        b"me" => meta::debug(&words, engine, output),
        b"mn" => answer(output, false, "MN"),
        b"quit" => Next::End,
        _ if words.count() > 1 && words.get(words.count() - 1).starts_with(b"HTTP/") => Next::End,
        _ => operating::execute(&words, engine, output),
    }
}

/// A line without its first word.
fn rest(line: &[u8]) -> &[u8] {
    let start = words::split(line).next().map_or(0, <[u8]>::len);
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    line.get(blanks + start..).unwrap_or_default()
}
