//! SLOWLOG: commands that took long.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::state::State;
use crate::resp::number::integer;

commands! { "server":
    "slowlog", -2, [ADMIN], NO_KEYS, "2.2.12", "A container for slow log commands" => slowlog;
}

/// Entries that are told, unless the client says otherwise.
const TOLD: usize = 10;

fn slowlog(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"GET", 2) => tell(call, TOLD),
        (b"GET", 3) => {
            let wrong = Fault::Said("ERR count should be greater than or equal to -1");
            let count = integer(args.at(2)).filter(|count| *count >= -1).ok_or(wrong)?;
            tell(call, usize::try_from(count).unwrap_or(usize::MAX));
        }
        (b"GET", _) => {
            let said = String::from_utf8_lossy(args.at(1));
            let text = format!("ERR unknown subcommand or wrong number of arguments for '{said}'. Try SLOWLOG HELP.");
            return Err(Fault::Told(text));
        }
        (b"LEN", 2) => call.reply.length(call.state.observed.slow.entries().len()),
        (b"RESET", 2) => {
            call.state.observed.slow.clear();
            call.reply.ok();
        }
        (b"HELP", 2) => {
            let lines = [
                ("GET [<count>]", "Return top <count> entries from the slowlog (default: 10, -1 mean all)."),
                ("LEN", "Return the length of the slowlog."),
                ("RESET", "Reset the slowlog."),
            ];
            help::answer(call, "SLOWLOG", &lines);
        }
        (b"LEN" | b"RESET" | b"HELP", _) => {
            return Err(help::arity("slowlog", &String::from_utf8_lossy(args.at(1))));
        }
        _ => return Err(help::unknown(call, "SLOWLOG")),
    }
    Ok(())
}

fn tell(call: &mut Call<'_>, most: usize) {
    let Call { state, reply, .. } = call;
    let State { observed, .. } = &mut **state;
    let count = observed.slow.entries().len().min(most);
    reply.array(count);
    for slow in observed.slow.entries().take(count) {
        reply.array(6);
        for number in [slow.id as i64, slow.at_s, slow.took_us as i64] {
            reply.integer(number);
        }
        reply.array(slow.args.len());
        slow.args.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(slow.peer.to_string().as_bytes());
        reply.bulk(&slow.name);
    }
}
