//! `redis.call`: a command that a script executes. It goes through what a client's command goes through.

use crate::engine::access::judge::judge;
use crate::engine::access::needs;
use crate::engine::command::{Flags, Found, find_place};
use crate::engine::eviction;
use crate::engine::execute;
use crate::engine::fault::Fault;
use crate::engine::guard::{self, When};
use crate::keyspace::text::TEXT_BYTES_MAX;
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::scripts::answers;
use crate::scripts::bounds::COMMAND_INSTRUCTIONS;
use crate::scripts::decimals::general;
use crate::scripts::raised;
use crate::scripts::turn::{Turn, spend};
use mlua::{Lua, MultiValue, Value};

/// Bytes of a command's arguments, at most. One string of a script may be given many times.
const ARGUMENTS_BYTES_MAX: usize = 128 << 20;

/// Commands that Redis does not allow in scripts.
const NOT_ALLOWED: [&str; 41] = [
    "acl",
    "auth",
    "bgrewriteaof",
    "bgsave",
    "blmove",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzpopmax",
    "bzpopmin",
    "client",
    "config",
    "debug",
    "discard",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "exec",
    "fcall",
    "fcall_ro",
    "function",
    "hello",
    "latency",
    "monitor",
    "multi",
    "psubscribe",
    "punsubscribe",
    "quit",
    "reset",
    "role",
    "save",
    "script",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
    "unwatch",
    "wait",
    "waitaof",
    "watch",
];

/// Arguments in one piece of memory, and where each is.
type Gathered = (Vec<u8>, Vec<std::ops::Range<usize>>);

fn gathered(values: &MultiValue) -> Result<Gathered, Fault> {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let start = bytes.len();
        match value {
            Value::String(text) => bytes.extend_from_slice(&text.as_bytes()),
            Value::Integer(number) => bytes.extend_from_slice(general(*number as f64, 17).as_bytes()),
            Value::Number(number) => bytes.extend_from_slice(general(*number, 17).as_bytes()),
            _ => return Err(Fault::Said("ERR Lua redis lib command arguments must be strings or integers")),
        }
        if bytes.len() > ARGUMENTS_BYTES_MAX || bytes.len() - start > TEXT_BYTES_MAX {
            return Err(Fault::Said("ERR the arguments of the command are too long"));
        }
        ranges.push(start..bytes.len());
    }
    if ranges.is_empty() {
        return Err(Fault::Said("ERR Please specify at least one argument for this redis lib call"));
    }
    Ok((bytes, ranges))
}

fn allowed(turn: &Turn, args: &Args<'_>) -> Result<Found, Fault> {
    let (place, command) = find_place(args.at(0)).ok_or(Fault::Said("ERR Unknown Redis command called from script"))?;
    if !command.takes(args.len()) {
        return Err(Fault::Said("ERR Wrong number of args calling Redis command from script"));
    }
    if NOT_ALLOWED.binary_search(&command.name).is_ok() {
        return Err(Fault::Said("ERR This Redis command is not allowed from script"));
    }
    let has_block =
        (1..args.len()).take_while(|place| !args.is(*place, "STREAMS")).any(|place| args.is(place, "BLOCK"));
    if matches!(command.name, "xread" | "xreadgroup") && has_block {
        let why = format!("ERR {} command is not allowed with BLOCK option from scripts", command.name);
        return Err(Fault::Told(why));
    }
    // A message is a write to those who listen, and PFCOUNT keeps what it counted.
    let may_write = command.flags.has(Flags::WRITE) || matches!(command.name, "publish" | "spublish" | "pfcount");
    if turn.is_read_only && may_write {
        return Err(Fault::Said("ERR Write commands are not allowed from read-only scripts."));
    }
    Ok((place, command))
}

/// `redis.acl_check_cmd`: whether the client may execute a command.
pub fn may_call(lua: &Lua, values: MultiValue) -> mlua::Result<bool> {
    let (bytes, ranges) = gathered(&values).map_err(|fault| raised::code(fault.to_string()))?;
    let args = Args::new(&bytes, &ranges);
    let unknown = || raised::code("ERR Invalid command passed to redis.acl_check_cmd()");
    let (place, command) = find_place(args.at(0)).ok_or_else(unknown)?;
    if needs::is_unknown(command, &args) {
        return Err(unknown());
    }
    let Some(turn) = lua.app_data_ref::<Turn>() else { return Ok(false) };
    let Turn { state, client, .. } = &*turn;
    if !state.users.judges {
        return Ok(true);
    }
    let user = state.sessions.get(*client).and_then(|session| state.users.get(session.user));
    Ok(user.is_some_and(|user| judge(user, place, command, &args).is_none()))
}

/// Executes a command; what it answers, as it would be sent.
fn executed(turn: &mut Turn, args: Args<'_>) -> Result<Vec<u8>, Fault> {
    let found = allowed(turn, &args)?;
    let (client, is_three) = (turn.client, turn.is_three);
    let state = &mut turn.state;
    if state.users.judges {
        guard::admit(state, client, found, &args, When::InScript)?;
    }
    eviction::admit(state, client, found.1)?;
    execute::admit_queued(state, client, found.1, &args)?;
    // Answers are in the version that the script wants, whatever its client speaks.
    state.sessions.get_mut(client).into_iter().for_each(|session| session.is_three = is_three);
    let mut reply = Reply::default();
    state.is_in_script = true;
    let outcome = execute::run(state, client, found, args, &mut reply, true);
    state.is_in_script = false;
    outcome?;
    let mut answer = Vec::new();
    reply.take().for_each(|bytes| answer.extend_from_slice(&bytes));
    match answer.split_first() {
        Some((b'-', text)) => Err(Fault::Told(String::from_utf8_lossy(text).trim_end().to_owned())),
        _ => Ok(answer),
    }
}

/// What a command answers, or the text of its error.
fn outcome(lua: &Lua, values: &MultiValue) -> mlua::Result<Result<Value, Fault>> {
    let (bytes, ranges) = match gathered(values) {
        Ok(gathered) => gathered,
        Err(fault) => return Ok(Err(fault)),
    };
    let answer = match lua.app_data_mut::<Turn>() {
        Some(mut turn) => executed(&mut turn, Args::new(&bytes, &ranges)),
        None => return Ok(Err(Fault::Said("ERR redis.call is not possible here"))),
    };
    let answered = answer.as_ref().map_or(0, Vec::len);
    spend(lua, COMMAND_INSTRUCTIONS + (bytes.len() + answered) as u64 / 16)?;
    answer.map(|answer| answers::value(lua, &answer)).map_or_else(|fault| Ok(Err(fault)), |value| value.map(Ok))
}

/// `redis.call`.
pub fn call(lua: &Lua, values: MultiValue) -> mlua::Result<Value> {
    outcome(lua, &values)?.map_err(|fault| raised::code(fault.to_string()))
}

/// `redis.pcall`: an error is a table.
pub fn pcall(lua: &Lua, values: MultiValue) -> mlua::Result<Value> {
    match outcome(lua, &values)? {
        Ok(value) => Ok(value),
        Err(fault) => answers::field(lua, "err", Value::String(lua.create_string(fault.to_string())?)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_can_be_found() {
        assert!(super::NOT_ALLOWED.is_sorted());
    }
}
