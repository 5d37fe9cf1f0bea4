//! What a command does with its keys, as `COMMAND GETKEYSANDFLAGS` tells it.

use crate::engine::access::needs::{MOVE, access};
use crate::engine::command::Command;
use crate::engine::users::selector::Access;
use crate::resp::request::Args;

/// Commands that change keys, by what they do with the first one, or with all.
const USES: &[(&str, &[&str])] = &[
    ("OW insert", &["msetnx", "setnx"]),
    ("OW update", &["mset", "psetex", "restore", "set", "setex"]),
    ("RM delete", &["del", "unlink"]),
    ("RW access", &["pfcount", "pfdebug"]),
    (
        "RW access delete",
        &[
            "blmpop", "blpop", "brpop", "bzmpop", "bzpopmax", "bzpopmin", "getdel", "lmpop", "lpop", "rpop", "spop",
            "zmpop", "zpopmax", "zpopmin",
        ],
    ),
    ("RW access insert", &["pfmerge"]),
    (
        "RW delete",
        &[
            "hdel",
            "lrem",
            "ltrim",
            "srem",
            "xautoclaim",
            "xdel",
            "xtrim",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
        ],
    ),
    ("RW insert", &["append", "hsetnx", "linsert", "lpush", "lpushx", "pfadd", "rpush", "rpushx", "sadd", "xgroup"]),
    (
        "RW update",
        &[
            "expire",
            "expireat",
            "geoadd",
            "hmset",
            "hset",
            "lset",
            "persist",
            "pexpire",
            "pexpireat",
            "setrange",
            "sinterstore",
            "xack",
            "xadd",
            "xclaim",
            "xsetid",
            "zadd",
        ],
    ),
];

/// What a command does with the key that is the first, or another one, of its keys. The words are Redis'.
pub fn uses(command: &Command, args: &Args<'_>, is_first: bool) -> &'static str {
    let is_in = |names: &[&str]| names.contains(&command.name);
    let does = access(command, args, is_first);
    if !is_first && is_in(MOVE) {
        return match command.name {
            "rename" => "OW update",
            "renamenx" => "OW insert",
            _ => "RW insert",
        };
    }
    let named = || USES.iter().find(|(_, names)| is_in(names)).map(|(uses, _)| *uses);
    match does {
        Access::NAME => "RO",
        Access::READ if !matches!(command.name, "pfcount" | "pfdebug") => "RO access",
        // What it was is answered, too.
        Access::BOTH if command.name == "set" => "RW access update",
        _ if is_in(MOVE) => "RW access delete",
        Access::WRITE => named().unwrap_or("OW update"),
        _ => named().unwrap_or("RW access update"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::access::needs::STORE;
    use crate::engine::command::Keys;
    use crate::table::table;

    #[test]
    fn what_is_told_is_what_is_needed() {
        assert!(USES.iter().all(|(_, names)| names.is_sorted()) && STORE.is_sorted());
        for command in table().iter().filter(|command| command.keys != Keys::None) {
            let range = 0..command.name.len();
            let args = Args::new(command.name.as_bytes(), std::slice::from_ref(&range));
            for is_first in [true, false] {
                let told = uses(command, &args, is_first);
                let reads = told.contains("access");
                let writes = ["insert", "update", "delete"].iter().any(|word| told.contains(word));
                let expected = match (reads, writes) {
                    (false, false) => Access::NAME,
                    (true, false) => Access::READ,
                    (false, true) => Access::WRITE,
                    (true, true) => Access::BOTH,
                };
                assert_eq!(access(command, &args, is_first), expected, "{} {is_first}: {told}", command.name);
            }
        }
    }
}
