//! The Lua state in which scripts run. Of Lua's libraries they have what can't reach files, processes, the interpreter or bytecode; see
//! `prelude.lua`.

use crate::engine::settings::Settings;
use crate::engine::state::State;
use crate::scripts::bounds::HOOK_INSTRUCTIONS;
use crate::scripts::natives;
use crate::scripts::store::Host;
use crate::scripts::turn::{Turn, hook};
use mlua::chunk::ChunkMode;
use mlua::{Lua, LuaOptions, StdLib, Table};

const PRELUDE: &str = include_str!("prelude.lua");

/// Makes one.
///
/// # Errors
/// There is no memory.
pub fn make(settings: &Settings) -> mlua::Result<Host> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
    let idle = Turn::idle(State::new(settings.clone(), 0));
    lua.set_app_data(idle);
    let natives = natives::table(&lua)?;
    let prelude = lua.load(PRELUDE).set_name("=sandbox").set_mode(ChunkMode::Text);
    let functions: Table = prelude.call(natives)?;
    hook(&lua, HOOK_INSTRUCTIONS)?;
    Ok(Host {
        compile: functions.raw_get("compile")?,
        forget: functions.raw_get("forget")?,
        eval: functions.raw_get("eval")?,
        load: functions.raw_get("load")?,
        keep: functions.raw_get("keep")?,
        drop: functions.raw_get("drop")?,
        call: functions.raw_get("call")?,
        idle_bytes: lua.used_memory(),
        lua,
    })
}
