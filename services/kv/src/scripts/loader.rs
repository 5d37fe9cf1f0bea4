//! Libraries of functions: from a text to functions that can be called.

use crate::engine::fault::Fault;
use crate::engine::state::State;
use crate::scripts::run::{bounded, host, is_spoiled, reason};
use crate::scripts::shebang::of_library;
use crate::scripts::store::{Library, Registered};
use crate::scripts::turn::Turn;
use bytes::Bytes;
use mlua::Value;

/// Runs a library's text, and gives what it registers. It can be called once it is [kept](keep).
///
/// # Errors
/// As Redis words them.
pub fn load(state: &mut State, text: &[u8]) -> Result<Vec<Registered>, Fault> {
    let (_, text) = of_library(text)?;
    let host = host(state)?;
    let bounds = state.scripts.bounds;
    let begun = host.lua.app_data_mut::<Turn>().map(|mut turn| {
        turn.begin(0, true, bounds, 0);
        turn.loading = Some(Vec::new());
    });
    begun.ok_or(Fault::Said("ERR a script is running"))?;
    let outcome = bounded(&host, bounds.bytes, || {
        let (is_well, reason): (Option<bool>, Value) = host.load.call(host.lua.create_string(text)?)?;
        Ok((is_well.unwrap_or(false), reason))
    });
    let after =
        host.lua.app_data_mut::<Turn>().map(|mut turn| (turn.loading.take(), turn.failure.take(), turn.is_over));
    let (registered, failure, is_over) = after.unwrap_or_default();
    let was_compiled = failure.is_some();
    let failure = reason(&outcome, failure);
    if is_spoiled(is_over, failure.as_ref()) {
        state.scripts.reset();
    }
    if is_over {
        return Err(Fault::Said("ERR FUNCTION LOAD timeout"));
    }
    match (failure, registered) {
        (Some(failure), _) if was_compiled => {
            Err(Fault::Told(format!("ERR Error registering functions: {}", failure.text)))
        }
        (Some(failure), _) => {
            let text = failure.text.strip_prefix("ERR ").unwrap_or(&failure.text);
            Err(Fault::Told(format!("ERR Error compiling function: {text}")))
        }
        (None, Some(registered)) if !registered.is_empty() => Ok(registered),
        (None, _) => Err(Fault::Said("ERR No functions registered")),
    }
}

/// Makes what was loaded last a library.
///
/// # Errors
/// There is no memory.
pub fn keep(state: &mut State, name: &str, text: Bytes, functions: Vec<Registered>) -> Result<(), Fault> {
    let host = host(state)?;
    let kept = host.keep.call::<()>(name);
    kept.map_err(|_| Fault::Said("ERR not enough memory"))?;
    let scripts = &mut state.scripts;
    scripts.functions.retain(|_, library| library != name);
    for function in &functions {
        scripts.functions.insert(function.name.to_ascii_lowercase(), name.to_owned());
    }
    scripts.libraries.insert(name.to_owned(), Library { text, functions });
    Ok(())
}

/// Forgets a library.
pub fn drop_library(state: &mut State, name: &str) {
    let scripts = &mut state.scripts;
    scripts.libraries.swap_remove(name);
    scripts.functions.retain(|_, library| library != name);
    if let Some(host) = &scripts.host {
        // What can't be found is not called.
        let _ = host.drop.call::<()>(name);
    }
}

/// Loads what the keyspace has and was not loaded yet: after a recovery, or when the Lua state was made anew.
pub fn synchronize(state: &mut State) {
    let version = state.keyspace.libraries.version();
    if state.scripts.version == Some(version) && state.scripts.host.is_some() {
        return;
    }
    let wanted: Vec<(String, Bytes)> = state
        .keyspace
        .libraries
        .iter()
        .map(|(name, text)| (String::from_utf8_lossy(name).into_owned(), text.clone()))
        .collect();
    let gone: Vec<String> = state
        .scripts
        .libraries
        .iter()
        .filter(|(name, library)| !wanted.iter().any(|(other, text)| other == *name && *text == library.text))
        .map(|(name, _)| name.clone())
        .collect();
    gone.iter().for_each(|name| drop_library(state, name));
    for (name, text) in wanted {
        if state.scripts.libraries.contains_key(&name) {
            continue;
        }
        // It was loaded once. If it is not any more, its functions can't be found, and its text stays.
        if let Ok(functions) = load(state, &text) {
            let _ = keep(state, &name, text, functions);
        }
    }
    state.scripts.version = Some(version);
}
