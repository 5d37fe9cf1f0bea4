//! Where `qanat run` differs from Linux, and why. Each of these is wrong, or a limit that `docs/posix.md` tells of: a case that
//! passes is to be struck from here.

/// How a known difference shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Each time, by another outcome.
    Differs,
    /// Each time: what it waits for never comes.
    Hangs,
    /// Not each time.
    NowAndThen,
}

/// Cases that differ for one reason.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub how: How,
    pub why: &'a str,
    /// Their names, or how those begin.
    pub cases: &'a [&'a str],
}

impl Known<'_> {
    /// Whether it is about the case `name`.
    pub fn has(&self, name: &str) -> bool {
        self.cases.iter().any(|start| name.starts_with(start))
    }
}

pub const KNOWN: &[Known<'_>] = &[
    Known {
        how: How::Differs,
        why: "the peer is on the same machine here: its address is the kernel's own, and may be bound there",
        cases: &["bind/tcp_foreign_address/", "bind/udp_foreign_address/"],
    },
    Known {
        how: How::Hangs,
        why: "there is no urgent data: what the peer sends as such comes with the rest, to send such is refused",
        cases: &[
            "control/at_mark/",
            "epoll/urgent/",
            "poll/urgent/",
            "poll/woken_by_urgent_data/",
            "receive/urgent/",
            "receive/urgent_inline/",
            "select/urgent/",
            "send/urgent/",
        ],
    },
    Known {
        how: How::Differs,
        why: "what posix_spawn lets a program inherit without an action is not carried over",
        cases: &["process/kept_over_exec/"],
    },
];
