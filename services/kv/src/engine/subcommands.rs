//! The names of subcommands, as `COMMAND LIST`, `CLIENT LIST` and users' rules tell them.

use std::ops::Range;

/// All, in the order of their names.
pub const ALL: &[&str] = &[
    "acl|cat",
    "acl|deluser",
    "acl|dryrun",
    "acl|genpass",
    "acl|getuser",
    "acl|help",
    "acl|list",
    "acl|load",
    "acl|log",
    "acl|save",
    "acl|setuser",
    "acl|users",
    "acl|whoami",
    "client|caching",
    "client|getname",
    "client|getredir",
    "client|help",
    "client|id",
    "client|info",
    "client|kill",
    "client|list",
    "client|no-evict",
    "client|pause",
    "client|reply",
    "client|setname",
    "client|tracking",
    "client|trackinginfo",
    "client|unblock",
    "client|unpause",
    "command|count",
    "command|docs",
    "command|getkeys",
    "command|getkeysandflags",
    "command|help",
    "command|info",
    "command|list",
    "config|get",
    "config|help",
    "config|resetstat",
    "config|rewrite",
    "config|set",
    "function|delete",
    "function|dump",
    "function|flush",
    "function|help",
    "function|kill",
    "function|list",
    "function|load",
    "function|restore",
    "function|stats",
    "latency|doctor",
    "latency|help",
    "latency|histogram",
    "latency|history",
    "latency|latest",
    "latency|reset",
    "memory|doctor",
    "memory|help",
    "memory|malloc-stats",
    "memory|purge",
    "memory|stats",
    "memory|usage",
    "object|encoding",
    "object|freq",
    "object|help",
    "object|idletime",
    "object|refcount",
    "pubsub|channels",
    "pubsub|help",
    "pubsub|numpat",
    "pubsub|numsub",
    "pubsub|shardchannels",
    "pubsub|shardnumsub",
    "script|debug",
    "script|exists",
    "script|flush",
    "script|help",
    "script|kill",
    "script|load",
    "slowlog|get",
    "slowlog|help",
    "slowlog|len",
    "slowlog|reset",
    "xgroup|create",
    "xgroup|createconsumer",
    "xgroup|delconsumer",
    "xgroup|destroy",
    "xgroup|help",
    "xgroup|setid",
    "xinfo|consumers",
    "xinfo|groups",
    "xinfo|help",
    "xinfo|stream",
];

/// The command that a subcommand is of, and its own name.
pub fn parts(name: &str) -> (&str, &str) {
    name.split_once('|').unwrap_or((name, ""))
}

/// The places of a command's subcommands in [`ALL`].
pub fn of(command: &str) -> Range<usize> {
    let start = ALL.partition_point(|name| parts(name).0 < command);
    let end = ALL.partition_point(|name| parts(name).0 <= command);
    start..end
}

/// The place of a command's subcommand in [`ALL`], in letters of any size.
pub fn place(command: &str, sub: &[u8]) -> Option<usize> {
    of(command).find(|place| ALL.get(*place).is_some_and(|name| parts(name).1.as_bytes().eq_ignore_ascii_case(sub)))
}

/// The whole name of a command's subcommand.
pub fn find(command: &str, sub: &[u8]) -> Option<&'static str> {
    place(command, sub).and_then(|place| ALL.get(place).copied())
}

#[cfg(test)]
mod tests {
    use super::{ALL, find, of};

    #[test]
    fn names_are_in_order_and_found_by_their_parts() {
        assert!(ALL.is_sorted_by_key(|name| super::parts(name)));
        assert_eq!(find("client", b"LIST"), Some("client|list"));
        assert_eq!(find("client", b"get"), None);
        assert_eq!(of("config").len(), 5);
        assert!(of("get").is_empty());
    }
}
