//! Which keys a command looks for, so that it is told if they are not there (`keymiss`).

use crate::engine::command::{Command, Flags};
use crate::engine::fault::Fault;
use crate::engine::state::State;
use crate::keyspace::events::Kinds;
use crate::resp::request::Args;

/// Which of its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    None,
    All,
    First,
    Others,
}

fn which(command: &Command, args: &Args<'_>) -> Which {
    let has =
        |from: usize, words: &[&str]| (from..args.len()).any(|place| words.iter().any(|word| args.is(place, word)));
    match command.name {
        "object" | "memory" => Which::None,
        "set" if has(3, &["GET"]) => Which::All,
        "bitfield" if !has(2, &["SET", "INCRBY"]) => Which::All,
        "getset" | "getdel" | "getex" | "pfmerge" | "xreadgroup" | "xclaim" | "xautoclaim" | "xack" => Which::All,
        "copy" | "sort" | "georadius" | "georadiusbymember" => Which::First,
        "bitop" | "zrangestore" | "geosearchstore" => Which::Others,
        "sunionstore" | "sinterstore" | "sdiffstore" | "zunionstore" | "zinterstore" | "zdiffstore" => Which::Others,
        _ if command.flags.has(Flags::READ) && !command.flags.has(Flags::WRITE) => Which::All,
        _ => Which::None,
    }
}

/// A command is going to be executed: the keys that it looks for and that are not there are noted.
pub fn note(state: &mut State, database: u8, command: &Command, args: &Args<'_>) {
    let (skipped, count) = match which(command, args) {
        Which::None => return,
        Which::All => (0, usize::MAX),
        Which::First => (0, 1),
        Which::Others => (1, usize::MAX),
    };
    for place in command.keys.places(args).skip(skipped).take(count) {
        let key = args.at(place);
        if state.keyspace.find(database, key).is_none() {
            state.keyspace.events.note(Kinds::MISS, "keymiss", database, key);
        }
    }
}

/// The command has failed. If it did so before it looked for its keys, none was missed.
pub fn failed(state: &mut State, fault: &Fault) {
    let has_looked = matches!(fault, Fault::NoKey) || fault.to_string().starts_with("NOGROUP");
    if !has_looked {
        state.keyspace.events.forget_misses();
    }
}
