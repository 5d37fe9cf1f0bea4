//! The names of subcommands, as `COMMAND LIST` and `CLIENT LIST` tell them.

/// All, in the order of their names.
pub const ALL: &[&str] = &[
    "client|getname",
    "client|help",
    "client|id",
    "client|info",
    "client|kill",
    "client|list",
    "client|reply",
    "client|setname",
    "client|unblock",
    "command|count",
    "command|docs",
    "command|getkeys",
    "command|help",
    "command|info",
    "command|list",
    "config|get",
    "config|help",
    "config|resetstat",
    "config|rewrite",
    "config|set",
    "object|encoding",
    "object|help",
    "object|refcount",
    "pubsub|channels",
    "pubsub|help",
    "pubsub|numpat",
    "pubsub|numsub",
];

/// The whole name of a command's subcommand.
pub fn find(command: &str, sub: &[u8]) -> Option<&'static str> {
    let is_meant = |name: &&str| {
        let (parent, own) = name.split_once('|').unwrap_or_default();
        parent == command && own.as_bytes().eq_ignore_ascii_case(sub)
    };
    ALL.iter().copied().find(is_meant)
}

#[cfg(test)]
mod tests {
    use super::{ALL, find};

    #[test]
    fn names_are_in_order_and_found_by_their_parts() {
        assert!(ALL.is_sorted());
        assert_eq!(find("client", b"LIST"), Some("client|list"));
        assert_eq!(find("client", b"get"), None);
    }
}
