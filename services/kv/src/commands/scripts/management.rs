//! SCRIPT: scripts that are remembered.

use super::calls::remember;
use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::scripts::natives::name_of;

commands! { "scripting":
    "script", -2, [], NO_KEYS, "2.6.0", "A container for Lua scripts management commands" => script;
}

/// What is answered if a script is to be ended that does not run: commands are executed one after the other.
pub const NOT_BUSY: Fault = Fault::Said("NOTBUSY No scripts in execution right now.");

const HELP: [&str; 15] = [
    "DEBUG (YES|SYNC|NO)",
    "    Set the debug mode for subsequent scripts executed.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
    "HELP",
];

/// Answers the help of a command, by its lines.
pub fn tell(call: &mut Call<'_>, name: &str, lines: &[&str]) {
    call.reply.array(lines.len() + 2);
    call.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| call.reply.simple(line));
    call.reply.simple("    Print this help.");
}

fn script(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, count) = (call.args, call.args.len());
    let counted = |sub: &str, is_right: bool| if is_right { Ok(()) } else { Err(help::arity("script", sub)) };
    if args.is(1, "LOAD") {
        counted("load", count == 3)?;
        let name = name_of(args.at(2));
        if call.state.scripts.get(&name).is_none() {
            remember(call.state, &name, args.at(2))?;
        }
        call.reply.bulk(name.as_bytes());
    } else if args.is(1, "EXISTS") {
        counted("exists", count >= 3)?;
        call.reply.array(count - 2);
        for name in args.from(2) {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            call.reply.integer(i64::from(call.state.scripts.get(&name).is_some()));
        }
    } else if args.is(1, "FLUSH") {
        if count > 3 || count == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
            return Err(Fault::Said("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
        }
        call.state.scripts.flush();
        call.reply.ok();
    } else if args.is(1, "KILL") {
        counted("kill", count == 2)?;
        return Err(NOT_BUSY);
    } else if args.is(1, "DEBUG") {
        counted("debug", count == 3)?;
        if args.is(2, "NO") {
            call.reply.ok();
        } else if args.is(2, "YES") || args.is(2, "SYNC") {
            return Err(Fault::Said("ERR scripts can't be debugged here"));
        } else {
            return Err(Fault::Said("ERR Use SCRIPT DEBUG YES/SYNC/NO"));
        }
    } else if args.is(1, "HELP") {
        counted("help", count == 2)?;
        tell(call, "SCRIPT", &HELP);
    } else {
        return Err(help::unknown(call, "SCRIPT"));
    }
    Ok(())
}
