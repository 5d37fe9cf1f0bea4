//! EVAL, EVALSHA, FCALL, and those of them that may not write.

use crate::engine::call::Call;
use crate::engine::command::{Keys, commands};
use crate::engine::fault::Fault;
use crate::engine::state::State;
use crate::scripts::bounds::TEXT_BYTES_MAX;
use crate::scripts::loader::synchronize;
use crate::scripts::natives::name_of;
use crate::scripts::raised::told;
use crate::scripts::run::{Body, alone, host, run};
use crate::scripts::shebang::of_script;
use crate::scripts::store::Script;
use bytes::Bytes;

commands! { "scripting":
    "eval", -3, [], Keys::Counted(2), "2.6.0", "Execute a Lua script server side" => |call| eval(call, false);
    "evalsha", -3, [], Keys::Counted(2), "2.6.0", "Execute a Lua script server side" => |call| evalsha(call, false);
    "eval_ro", -3, [READ], Keys::Counted(2), "7.0.0", "Execute a read-only Lua script server side" => |call| eval(call, true);
    "evalsha_ro", -3, [READ], Keys::Counted(2), "7.0.0", "Execute a read-only Lua script server side" => |call| evalsha(call, true);
    "fcall", -3, [], Keys::Counted(2), "7.0.0", "Invoke a function" => |call| fcall(call, false);
    "fcall_ro", -3, [READ], Keys::Counted(2), "7.0.0", "Invoke a read-only function" => |call| fcall(call, true);
}

/// Signs of a script's name.
const NAME_SIGNS: usize = 40;
const READ_ONLY: &str = "no-writes";
const WRITES: Fault = Fault::Said("ERR Can not execute a script with write flag using *_ro command.");

/// How many keys there are. `no_number`: what is said if that is none.
fn keys(call: &Call<'_>, no_number: Fault) -> Result<usize, Fault> {
    let count = call.integer(2).map_err(|_| no_number)?;
    if count > call.args.len() as i64 - 3 {
        return Err(Fault::Said("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Fault::Said("ERR Number of keys can't be negative"))
}

/// Compiles a script, and remembers it.
///
/// # Errors
/// As Redis words them.
pub fn remember(state: &mut State, name: &str, text: &[u8]) -> Result<(), Fault> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Fault::Said("ERR the script is too long"));
    }
    let (flags, text) = of_script(text)?;
    let script = Script { text: Bytes::copy_from_slice(text), flags };
    compile(state, name, &script)?;
    state.scripts.put(name, script);
    Ok(())
}

fn compile(state: &mut State, name: &str, script: &Script) -> Result<(), Fault> {
    let host = host(state)?;
    let compiled = alone(&host, state.scripts.bounds, || {
        host.compile.call::<Option<String>>((name, host.lua.create_string(&script.text)?))
    });
    let why = match compiled {
        Ok(None) => {
            state.scripts.compiled.insert(name.to_owned());
            return Ok(());
        }
        Ok(Some(why)) => why,
        Err(error) => {
            state.scripts.reset();
            told(&error).to_string()
        }
    };
    Err(Fault::Told(format!("ERR Error compiling script (new function): {why}")))
}

/// Runs a script that is remembered.
fn remembered(call: &mut Call<'_>, name: &str, is_read_only: bool) -> Result<(), Fault> {
    let script = call.state.scripts.get(name).cloned();
    let script = script.ok_or(Fault::Said("NOSCRIPT No matching script. Please use EVAL."))?;
    let keys = keys(call, Fault::NotInteger)?;
    let may_not_write = script.flags.as_ref().map(|flags| flags.contains(&READ_ONLY));
    if is_read_only && may_not_write == Some(false) {
        return Err(WRITES);
    }
    if !call.state.scripts.compiled.contains(name) {
        compile(call.state, name, &script)?;
    }
    run(call, Body::Script(name), keys, is_read_only || may_not_write == Some(true), name)
}

fn eval(call: &mut Call<'_>, is_read_only: bool) -> Result<(), Fault> {
    keys(call, Fault::NotInteger)?;
    let name = name_of(call.args.at(1));
    if call.state.scripts.get(&name).is_none() {
        remember(call.state, &name, call.args.at(1))?;
    }
    remembered(call, &name, is_read_only)
}

fn evalsha(call: &mut Call<'_>, is_read_only: bool) -> Result<(), Fault> {
    let name = call.args.at(1);
    if name.len() == NAME_SIGNS {
        keys(call, Fault::NotInteger)?;
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    remembered(call, &name, is_read_only)
}

fn fcall(call: &mut Call<'_>, is_read_only: bool) -> Result<(), Fault> {
    synchronize(call.state);
    let name = String::from_utf8_lossy(call.args.at(1)).into_owned();
    let found_by = name.to_ascii_lowercase();
    let scripts = &call.state.scripts;
    let library = scripts.functions.get(&found_by).cloned().ok_or(Fault::Said("ERR Function not found"))?;
    let functions = scripts.libraries.get(&library).map(|library| library.functions.as_slice()).unwrap_or_default();
    let function = functions.iter().find(|function| function.name.eq_ignore_ascii_case(&name));
    let function = function.ok_or(Fault::Said("ERR Function not found"))?;
    let (may_not_write, name) = (function.flags.contains(&READ_ONLY), function.name.clone());
    let keys = keys(call, Fault::Said("ERR Bad number of keys provided"))?;
    if is_read_only && !may_not_write {
        return Err(WRITES);
    }
    run(call, Body::Function(&library, &found_by), keys, may_not_write, &name)
}
