//! Categories of commands, as users' rules name them (`+@read`). Most follow from a command's group and flags.

use crate::engine::command::{Command, Flags};
use crate::engine::subcommands::{self, parts};

/// A set of categories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Categories(u32);

const KEYSPACE: u32 = 1;
const READ: u32 = 1 << 1;
const WRITE: u32 = 1 << 2;
const SET: u32 = 1 << 3;
const SORTED_SET: u32 = 1 << 4;
const LIST: u32 = 1 << 5;
const HASH: u32 = 1 << 6;
const STRING: u32 = 1 << 7;
const BITMAP: u32 = 1 << 8;
const HYPERLOGLOG: u32 = 1 << 9;
const GEO: u32 = 1 << 10;
const STREAM: u32 = 1 << 11;
const PUBSUB: u32 = 1 << 12;
const ADMIN: u32 = 1 << 13;
const FAST: u32 = 1 << 14;
const SLOW: u32 = 1 << 15;
const BLOCKING: u32 = 1 << 16;
const DANGEROUS: u32 = 1 << 17;
const CONNECTION: u32 = 1 << 18;
const TRANSACTION: u32 = 1 << 19;
const SCRIPTING: u32 = 1 << 20;

/// Names of categories, in Redis' order: the bit's number is the place.
pub const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

impl Categories {
    /// One, by its name in letters of any size.
    pub fn named(name: &[u8]) -> Option<Categories> {
        let place = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Categories(1 << place))
    }

    /// Whether any of these is in it.
    pub fn meets(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(place, _)| self.0 >> place & 1 == 1).map(|(_, name)| name)
    }
}

/// The category of a command's group. Some commands are in files of others.
fn of_group(command: &Command) -> u32 {
    match (command.name, command.group) {
        ("wait" | "waitaof" | "command", _) => CONNECTION,
        ("sort" | "sort_ro", _) => SET | SORTED_SET | LIST | DANGEROUS,
        ("swapdb", _) => KEYSPACE,
        (name, "list") if name.contains("zpop") || name.contains("zmpop") => SORTED_SET,
        ("setbit" | "getbit" | "bitcount" | "bitpos" | "bitop" | "bitfield" | "bitfield_ro", _) => BITMAP,
        (_, "generic") => KEYSPACE,
        (_, "set") => SET,
        (_, "sorted-set" | "sorted_set") => SORTED_SET,
        (_, "list") => LIST,
        (_, "hash") => HASH,
        (_, "string") => STRING,
        (_, "bitmap") => BITMAP,
        (_, "hyperloglog") => HYPERLOGLOG,
        (_, "geo") => GEO,
        (_, "stream") => STREAM,
        (_, "pubsub") => PUBSUB,
        (_, "connection") => CONNECTION,
        (_, "transactions") => TRANSACTION,
        (_, "scripting") => SCRIPTING,
        _ => 0,
    }
}

/// What a command is.
pub fn of_command(command: &Command) -> Categories {
    if !subcommands::of(command.name).is_empty() {
        // What it is, its subcommands are.
        return Categories(if command.name == "command" { SLOW | CONNECTION } else { SLOW });
    }
    let mut all = of_group(command) | if command.flags.has(Flags::FAST) { FAST } else { SLOW };
    for (flag, category) in
        [(Flags::WRITE, WRITE), (Flags::READ, READ), (Flags::ADMIN, ADMIN | DANGEROUS), (Flags::BLOCKING, BLOCKING)]
    {
        // A script is no read, whatever it may do.
        if command.flags.has(flag) && command.group != "scripting" {
            all |= category;
        }
    }
    if matches!(command.name, "info" | "keys" | "flushall" | "flushdb" | "restore" | "swapdb") {
        all |= DANGEROUS;
    }
    Categories(all)
}

/// What a subcommand is, by its whole name.
pub fn of_subcommand(name: &str) -> Categories {
    let (parent, sub) = parts(name);
    let is_help = sub == "help";
    let of_operators = !is_help
        && match parent {
            "acl" => !matches!(sub, "cat" | "genpass" | "whoami"),
            "client" => matches!(sub, "kill" | "list" | "no-evict" | "pause" | "unblock" | "unpause"),
            "config" | "latency" | "slowlog" => true,
            _ => false,
        };
    let own = match (parent, sub) {
        ("client" | "command", _) => CONNECTION,
        ("function", "delete" | "flush" | "load" | "restore") => SCRIPTING | WRITE,
        ("function" | "script", _) => SCRIPTING,
        ("memory", "usage") => READ,
        ("object", "help") => KEYSPACE,
        ("object", _) => KEYSPACE | READ,
        ("pubsub", _) if !is_help => PUBSUB,
        ("xgroup" | "xinfo", "help") => STREAM,
        ("xgroup", _) => STREAM | WRITE,
        ("xinfo", _) => STREAM | READ,
        _ => 0,
    };
    Categories(own | SLOW | if of_operators { ADMIN | DANGEROUS } else { 0 })
}
