//! What `COMMAND HELP` and its like answer.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::subcommands;

/// Answers the help of a command with subcommands: pairs of lines, a call and what it does.
pub fn answer(call: &mut Call<'_>, name: &str, lines: &[(&str, &str)]) {
    call.reply.array(1 + 2 * lines.len() + 2);
    call.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (call_line, meaning) in lines.iter().chain([&("HELP", "Print this help.")]) {
        call.reply.simple(call_line);
        call.reply.simple(&format!("    {meaning}"));
    }
}

/// Subcommands that take several numbers of arguments, and say so in other words than those that take one.
const SEVERAL: [&str; 7] = [
    "acl|cat",
    "acl|genpass",
    "function|flush",
    "function|restore",
    "pubsub|channels",
    "pubsub|shardchannels",
    "slowlog|get",
];

/// There is no such subcommand, or it takes other arguments.
pub fn unknown(call: &Call<'_>, name: &str) -> Fault {
    let known = subcommands::find(&name.to_ascii_lowercase(), call.args.at(1));
    match known.filter(|whole| !SEVERAL.contains(whole)) {
        Some(whole) => return Fault::Arity(whole.to_owned()),
        None if known.is_some() => {
            let said = String::from_utf8_lossy(call.args.at(1));
            return Fault::Told(format!(
                "ERR unknown subcommand or wrong number of arguments for '{said}'. Try {name} HELP."
            ));
        }
        None => {}
    }
    let said = String::from_utf8_lossy(call.args.at(1).get(..call.args.at(1).len().min(128)).unwrap_or_default());
    Fault::Told(format!("ERR unknown subcommand '{said}'. Try {name} HELP."))
}

/// A subcommand takes other arguments.
pub fn arity(name: &str, sub: &str) -> Fault {
    Fault::Arity(format!("{name}|{}", sub.to_ascii_lowercase()))
}
