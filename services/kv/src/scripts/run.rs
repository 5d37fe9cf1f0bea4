//! A run of a script or a function: from a client's call to its answer.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::observer;
use crate::engine::state::State;
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::scripts::bounds::{Bounds, GARBAGE_BYTES};
use crate::scripts::raised::{self, Raised};
use crate::scripts::replies::Writer;
use crate::scripts::sandbox;
use crate::scripts::store::Host;
use crate::scripts::turn::{Failure, Turn};
use mlua::{Table, Value};

/// What runs.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// A script that is remembered, by the name of its text.
    Script(&'a str),
    /// A function of a library.
    Function(&'a str, &'a str),
}

/// What came of a run: whether it went well, and its value or its error.
type Outcome = mlua::Result<(bool, Value)>;

/// The Lua state, which is made if there is none.
///
/// # Errors
/// There is no memory.
pub fn host(state: &mut State) -> Result<Host, Fault> {
    if state.scripts.host.is_none() {
        let made = sandbox::make(&state.settings);
        state.scripts.host = Some(made.map_err(|error| Fault::Told(format!("ERR {}", raised::told(&error))))?);
    }
    state.scripts.host.clone().ok_or(Fault::Said("ERR there is no state for scripts"))
}

/// Runs `what` with bounded memory.
///
/// # Errors
/// Those of `what`.
pub fn bounded<T>(host: &Host, bytes: usize, what: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    host.lua.set_memory_limit(host.lua.used_memory().saturating_add(bytes))?;
    let outcome = what();
    host.lua.set_memory_limit(0)?;
    outcome
}

/// The same, with a budget of its own and nobody's store: to compile.
///
/// # Errors
/// Those of `what`.
pub fn alone<T>(host: &Host, bounds: Bounds, what: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    if let Some(mut turn) = host.lua.app_data_mut::<Turn>() {
        turn.begin(0, true, bounds, 0);
    }
    bounded(host, bounds.bytes, what)
}

fn table(host: &Host, values: &[&[u8]]) -> mlua::Result<Table> {
    let table = host.lua.create_table_with_capacity(values.len(), 0)?;
    for (index, value) in values.iter().enumerate() {
        table.raw_set(index + 1, host.lua.create_string(value)?)?;
    }
    Ok(table)
}

fn attempt(host: &Host, bytes: usize, body: Body<'_>, keys: &[&[u8]], values: &[&[u8]]) -> Outcome {
    bounded(host, bytes, || {
        let (keys, values) = (table(host, keys)?, table(host, values)?);
        match body {
            Body::Script(name) => host.eval.call((name, keys, values)),
            Body::Function(library, name) => host.call.call((library, name, keys, values)),
        }
    })
}

/// The text of an error, with its place, as Redis tells it.
fn told(failure: Failure, name: &str) -> String {
    match failure.place {
        Some((source, line)) => format!("{} script: {name}, on {source}:{line}.", failure.text),
        None => failure.text,
    }
}

/// Why a run went wrong. `failure`: what was noted of it.
pub fn reason(outcome: &Outcome, failure: Option<Failure>) -> Option<Failure> {
    let raised = match outcome {
        Ok((true, _)) => return None,
        // What follows a script that was ended is ended, too: the first reason counts.
        _ if failure.is_some() => return failure,
        Ok((false, Value::String(text))) => Raised::Text(text.to_string_lossy()),
        Ok((false, Value::Error(error))) => raised::told(error),
        Ok((false, _)) => Raised::Text("unknown error".to_owned()),
        Err(error) => raised::told(error),
    };
    let text = match raised {
        Raised::Code(text) => text,
        Raised::Text(text) => format!("ERR {text}"),
    };
    Some(Failure { text, place: None })
}

/// Whether the state can't be used any more: a script was ended in the middle of it.
pub fn is_spoiled(is_over: bool, failure: Option<&Failure>) -> bool {
    is_over || failure.is_some_and(|failure| failure.text.contains("not enough memory"))
}

/// Keys and other arguments of a call: those behind `count`, which says how many keys there are.
fn arguments<'a>(args: &Args<'a>, count: usize, keys: usize) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
    let mut keys_first: Vec<&[u8]> = args.from(count + 1).collect();
    let others = keys_first.split_off(keys.min(keys_first.len()));
    (keys_first, others)
}

/// Runs, and answers. `keys`: how many there are, behind the third argument. `name`: as errors tell it.
///
/// # Errors
/// The script's. What it has changed before stays changed.
pub fn run(call: &mut Call<'_>, body: Body<'_>, keys: usize, is_read_only: bool, name: &str) -> Result<(), Fault> {
    let host = host(call.state)?;
    let (keys, values) = arguments(&call.args, 2, keys);
    let (client, bounds) = (call.client, call.state.scripts.bounds);
    let Some(before) = call.session().map(|session| (session.database, session.is_three)) else { return Ok(()) };
    let chance = call.state.random.u32(..);
    let lent = host.lua.app_data_mut::<Turn>().map(|mut turn| {
        turn.begin(client, is_read_only, bounds, chance);
        std::mem::swap(&mut turn.state, &mut *call.state);
    });
    lent.ok_or(Fault::Said("ERR a script is running"))?;
    let outcome = attempt(&host, bounds.bytes, body, &keys, &values);
    let after = host.lua.app_data_mut::<Turn>().map(|mut turn| {
        std::mem::swap(&mut turn.state, &mut *call.state);
        (turn.failure.take(), turn.is_three, turn.is_over)
    });
    let (failure, is_three, is_over) = after.unwrap_or_default();
    // A script may have selected another database, and another version: that was for itself.
    if let Some(session) = call.session() {
        (session.database, session.is_three) = before;
    }
    let failure = reason(&outcome, failure);
    let is_failed = is_spoiled(is_over, failure.as_ref());
    let answered = match (failure, &outcome) {
        (None, Ok((_, value))) => answer(call, &host, value, is_three),
        (Some(failure), _) => Err(Fault::Told(told(failure, name))),
        (None, Err(_)) => Ok(()),
    };
    // What it answers may take too long, too.
    if is_failed || host.lua.app_data_ref::<Turn>().is_some_and(|turn| turn.is_over) {
        call.state.scripts.reset();
    }
    drop(outcome);
    if host.lua.used_memory() > host.idle_bytes.saturating_add(GARBAGE_BYTES) {
        // Nothing of a script is left but garbage.
        let _ = host.lua.gc_collect();
    }
    answered
}

fn answer(call: &mut Call<'_>, host: &Host, value: &Value, is_three: bool) -> Result<(), Fault> {
    let mut reply = Reply::default();
    reply.set_version(call.reply.is_three());
    Writer::new(&host.lua, &mut reply, is_three).value(value, 0)?;
    let answer: Vec<u8> = reply.take().flat_map(|bytes| bytes.to_vec()).collect();
    if let Some(error) = answer.strip_prefix(b"-") {
        observer::failed(call.state, &Fault::Told(String::from_utf8_lossy(error).trim_end().to_owned()));
    }
    call.reply.raw(&answer);
    Ok(())
}
