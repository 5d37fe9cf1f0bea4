//! FUNCTION DUMP and FUNCTION RESTORE: all libraries at once, from one server to another.

use crate::engine::call::Call;
use crate::engine::execute::admit_bytes;
use crate::engine::fault::Fault;
use crate::engine::state::State;
use crate::keyspace::change::Change;
use crate::rdb::functions::{self, Limits};
use crate::scripts::bounds::{LIBRARIES_BYTES_MAX, LIBRARIES_MAX, TEXT_BYTES_MAX};
use crate::scripts::loader::{load, synchronize};
use crate::scripts::shebang::of_library;
use bytes::Bytes;
use indexmap::IndexMap;
use std::collections::HashSet;
use std::time::Instant;

/// What a library's record needs besides its bytes.
const LIBRARY_BYTES: usize = 16;
/// What the record needs besides.
const RECORD_OVERHEAD: u64 = 8 << 10;
const TOO_MANY: Fault = Fault::Said("ERR there are too many libraries, or they are too long");

/// What happens to libraries that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// They stay, and none of the same name may come.
    Append,
    /// They stay, but for those of the same names.
    Replace,
    /// They go.
    Flush,
}

/// Libraries by their names.
type Libraries = IndexMap<String, Bytes>;

/// Answers all libraries as a payload.
pub fn dump(call: &mut Call<'_>) {
    let payload = functions::write(call.state.keyspace.libraries.iter().map(|(_, text)| text.as_ref()));
    call.reply.value(&Bytes::from(payload));
}

/// Makes libraries of a payload: all of them, or none.
///
/// # Errors
/// As Redis words them.
pub fn restore(call: &mut Call<'_>) -> Result<(), Fault> {
    let policy = policy(call)?;
    let limits = Limits { count: LIBRARIES_MAX, text_bytes: TEXT_BYTES_MAX, bytes: LIBRARIES_BYTES_MAX };
    let texts = functions::read(call.args.at(2), limits).map_err(|error| Fault::Told(format!("ERR {error}")))?;
    let libraries = named(texts)?;
    let before = &call.state.keyspace.libraries;
    if let Some(name) = libraries.keys().find(|name| before.get(name.as_bytes()).is_some())
        && policy == Policy::Append
    {
        return Err(Fault::Told(format!("ERR Library {name} already exists")));
    }
    let stays = |name: &[u8]| {
        policy != Policy::Flush && std::str::from_utf8(name).is_ok_and(|name| !libraries.contains_key(name))
    };
    let cost = |name: &[u8], text: &Bytes| name.len() + text.len() + LIBRARY_BYTES;
    let kept: Vec<usize> = before.iter().filter(|(name, _)| stays(name)).map(|(name, text)| cost(name, text)).collect();
    let added: usize = libraries.iter().map(|(name, text)| cost(name.as_bytes(), text)).sum();
    if kept.len() + libraries.len() > LIBRARIES_MAX || kept.iter().sum::<usize>() + added > LIBRARIES_BYTES_MAX {
        return Err(TOO_MANY);
    }
    let gone: Vec<Box<[u8]>> = match policy {
        Policy::Flush => before.iter().map(|(name, _)| name.into()).collect(),
        Policy::Append | Policy::Replace => Vec::new(),
    };
    let deleted: usize = gone.iter().map(|name| name.len() + LIBRARY_BYTES).sum();
    admit_bytes(call.state, (added + deleted) as u64 + RECORD_OVERHEAD, !libraries.is_empty())?;
    synchronize(call.state);
    let functions = call.state.scripts.functions.iter().filter(|(_, library)| stays(library.as_bytes()));
    let taken: HashSet<String> = functions.map(|(name, _)| name.clone()).collect();
    try_all(call.state, &libraries, taken)?;
    gone.iter().for_each(|name| call.change(Change::DeleteLibrary { name }));
    // They are loaded once more when one of them is called.
    for (name, text) in &libraries {
        call.change(Change::PutLibrary { name: name.as_bytes(), text });
    }
    call.reply.ok();
    Ok(())
}

fn policy(call: &Call<'_>) -> Result<Policy, Fault> {
    match call.args.len() {
        3 => Ok(Policy::Append),
        4 => match call.args.at(3).to_ascii_uppercase().as_slice() {
            b"APPEND" => Ok(Policy::Append),
            b"REPLACE" => Ok(Policy::Replace),
            b"FLUSH" => Ok(Policy::Flush),
            _ => Err(Fault::Said("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")),
        },
        _ => Err(Fault::Said("ERR unknown subcommand or wrong number of arguments for 'restore'. Try FUNCTION HELP.")),
    }
}

fn named(texts: Vec<Vec<u8>>) -> Result<Libraries, Fault> {
    let mut libraries = Libraries::new();
    for text in texts {
        let name = of_library(&text)?.0;
        if libraries.contains_key(&name) {
            return Err(Fault::Told(format!("ERR Library '{name}' already exists")));
        }
        libraries.insert(name, Bytes::from(text));
    }
    Ok(libraries)
}

/// Loads all libraries, and keeps none of them: whether they can be. Together they may take as long as one script. `taken`: names of
/// functions, in small letters.
fn try_all(state: &mut State, libraries: &Libraries, mut taken: HashSet<String>) -> Result<(), Fault> {
    let whole = state.scripts.bounds;
    let begun = Instant::now();
    for text in libraries.values() {
        state.scripts.bounds.time = whole.time.saturating_sub(begun.elapsed());
        let loaded = load(state, text);
        state.scripts.bounds = whole;
        for function in loaded? {
            if !taken.insert(function.name.to_ascii_lowercase()) {
                return Err(Fault::Told(format!("ERR Function {} already exists", function.name)));
            }
        }
    }
    Ok(())
}
