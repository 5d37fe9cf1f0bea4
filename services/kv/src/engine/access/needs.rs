//! What a command needs: its number in users' sets, and what it does with each of its keys and channels.

use crate::engine::command::{Command, Flags, all};
use crate::engine::subcommands::{self, parts};
use crate::engine::users::selector::{Access, NUMBERS_MAX};
use crate::resp::request::Args;

/// Numbers from here on are subcommands'.
const SUBCOMMANDS: usize = 320;
/// The number of nothing that is known.
const TO_COME: usize = NUMBERS_MAX - 1;

/// Commands that look only whether there is such a key, or how long its value is.
const LOOK: &[&str] = &[
    "exists",
    "hexists",
    "hlen",
    "hstrlen",
    "llen",
    "memory",
    "object",
    "scard",
    "sismember",
    "strlen",
    "touch",
    "type",
    "watch",
    "xlen",
    "zcard",
];
/// Commands that change keys, and tell nothing of what they have.
const CHANGE: &[&str] = &[
    "append",
    "del",
    "expire",
    "expireat",
    "geoadd",
    "hdel",
    "hmset",
    "hset",
    "hsetnx",
    "linsert",
    "lpush",
    "lpushx",
    "lrem",
    "lset",
    "ltrim",
    "mset",
    "msetnx",
    "persist",
    "pexpire",
    "pexpireat",
    "pfadd",
    "psetex",
    "restore",
    "rpush",
    "rpushx",
    "sadd",
    "setex",
    "setnx",
    "setrange",
    "srem",
    "unlink",
    "xack",
    "xadd",
    "xautoclaim",
    "xclaim",
    "xdel",
    "xgroup",
    "xsetid",
    "xtrim",
    "zadd",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
];
/// Commands that take from their first key and put it into the second.
pub const MOVE: &[&str] = &["blmove", "brpoplpush", "lmove", "rename", "renamenx", "rpoplpush", "smove"];
/// Commands that put into their first key what they have read from the others.
pub const STORE: &[&str] = &[
    "bitop",
    "geosearchstore",
    "sdiffstore",
    "sinterstore",
    "sunionstore",
    "zdiffstore",
    "zinterstore",
    "zrangestore",
    "zunionstore",
];

/// The number of the command in this place of the table.
pub fn number(place: usize) -> usize {
    place.min(SUBCOMMANDS - 1)
}

/// The number of the subcommand in this place of [`subcommands::ALL`].
pub fn subcommand_number(place: usize) -> usize {
    SUBCOMMANDS + place
}

/// The name of what has this number.
pub fn name(number: usize) -> Option<&'static str> {
    match number.checked_sub(SUBCOMMANDS) {
        Some(place) => subcommands::ALL.get(place).copied(),
        None => all().get(number).map(|command| command.name),
    }
}

/// Whether a command with these arguments is one of its subcommands, and there is none of this name.
pub fn is_unknown(command: &Command, args: &Args<'_>) -> bool {
    args.len() > 1 && !subcommands::of(command.name).is_empty() && subcommands::find(command.name, args.at(1)).is_none()
}

/// The number of a command with these arguments: its subcommand's, if it has any. One that is not known here has the number of what is
/// to come, which only those have who have all commands.
pub fn number_of(place: usize, command: &Command, args: &Args<'_>) -> usize {
    match subcommands::place(command.name, args.at(1)) {
        Some(sub) => subcommand_number(sub),
        None if is_unknown(command, args) => TO_COME,
        None => number(place),
    }
}

/// Whether a BITFIELD has no part that writes, and none that is not understood.
fn only_reads_bits(args: &Args<'_>) -> bool {
    let mut place = 2;
    while place < args.len() {
        match args.at(place).to_ascii_lowercase().as_slice() {
            b"get" => place += 3,
            b"overflow" => place += 2,
            _ => return false,
        }
    }
    true
}

/// What a command does with the key that is the first, or another one, of its keys.
pub fn access(command: &Command, args: &Args<'_>, is_first: bool) -> Access {
    let is_in = |names: &[&str]| names.binary_search(&command.name).is_ok();
    match command.name {
        "set" if !args.from(3).any(|option| option.eq_ignore_ascii_case(b"GET")) => Access::WRITE,
        "bitfield" if only_reads_bits(args) => Access::READ,
        "pfcount" | "pfdebug" => Access::READ,
        "pfmerge" if !is_first => Access::READ,
        "copy" | "sort" | "georadius" | "georadiusbymember" => {
            if is_first {
                Access::READ
            } else {
                Access::WRITE
            }
        }
        // What is pending is a group's; entries are only read.
        "xreadgroup" => Access::READ,
        _ if is_in(LOOK) => Access::NAME,
        _ if is_in(CHANGE) => Access::WRITE,
        _ if is_in(MOVE) => {
            if is_first {
                Access::BOTH
            } else {
                Access::WRITE
            }
        }
        _ if is_in(STORE) => {
            if is_first {
                Access::WRITE
            } else {
                Access::READ
            }
        }
        _ if command.flags.has(Flags::READ) && !command.flags.has(Flags::WRITE) => Access::READ,
        // Those that are not known here do both.
        _ => Access::BOTH,
    }
}

/// The places of a command's keys, and what it does with each.
pub fn keys(command: &Command, args: &Args<'_>) -> impl Iterator<Item = (usize, Access)> {
    let (first, other) = (access(command, args, true), access(command, args, false));
    command.keys.places(args).enumerate().map(move |(count, place)| (place, if count == 0 { first } else { other }))
}

/// The places of a command's channels, and whether they are patterns.
pub fn channels(command: &Command, args: &Args<'_>) -> (std::ops::Range<usize>, bool) {
    match command.name {
        "publish" | "spublish" => (1..2, false),
        "subscribe" | "ssubscribe" => (1..args.len(), false),
        "psubscribe" => (1..args.len(), true),
        _ => (0..0, false),
    }
}

/// Whether a command can be asked for by whoever is nobody yet, and by all users.
pub fn is_everybodys(command: &Command) -> bool {
    matches!(command.name, "auth" | "hello" | "quit" | "reset")
}

/// The numbers of a command and of all its subcommands.
pub fn numbers(place: usize, command: &Command) -> impl Iterator<Item = usize> {
    [number(place)].into_iter().chain(subcommands::of(command.name).map(subcommand_number))
}

/// The whole name of a command with these arguments, as errors tell it.
pub fn whole_name(command: &Command, args: &Args<'_>) -> &'static str {
    subcommands::find(command.name, args.at(1)).unwrap_or(command.name)
}

/// The command that a whole name is of.
pub fn command_name(whole: &str) -> &str {
    parts(whole).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::table;

    #[test]
    fn names_can_be_found_and_numbers_are_there_for_all() {
        assert!([LOOK, CHANGE, MOVE, STORE].iter().all(|names| names.is_sorted()));
        assert!(table().len() < SUBCOMMANDS && subcommand_number(subcommands::ALL.len()) <= TO_COME);
        for (place, command) in table().iter().enumerate() {
            assert_eq!(name(number(place)), Some(command.name));
        }
        for parent in subcommands::ALL.iter().map(|whole| command_name(whole)) {
            assert!(table().iter().any(|command| command.name == parent), "{parent}");
        }
    }
}
