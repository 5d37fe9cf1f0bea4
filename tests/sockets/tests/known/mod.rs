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
        how: How::Hangs,
        why: "no datagrams in fragments: the gate of a card lets none through, which it could not hold against filters",
        cases: &[
            "udp/both_ways_1473/",
            "udp/both_ways_20000/",
            "udp/both_ways_4000/",
            "udp/both_ways_60000/",
            "udp/largest/",
        ],
    },
    Known {
        how: How::Differs,
        why: "sockets are not carried over exec",
        cases: &[
            "process/a_program_moves_much/",
            "process/fork_and_exec_cat/",
            "process/kept_over_exec/",
            "process/spawn_cat/",
            "process/spawn_echo_with_data_waiting/",
            "process/spawn_with_output_only/",
            "process/vfork_and_exec_cat/",
            "stdio/standard_streams_of_a_program/",
        ],
    },
    Known {
        how: How::Differs,
        why: "sockets are not handed on over Unix sockets",
        cases: &[
            "process/connection_over_a_unix_socket/",
            "process/connection_to_a_child/",
            "process/listener_to_a_child/",
        ],
    },
    Known {
        how: How::Hangs,
        why: "sockets are not handed on over Unix sockets",
        cases: &["process/several_with_others_between/"],
    },
    Known {
        how: How::Differs,
        why: "the peer is on the same machine here: its address is the kernel's own, and may be bound there",
        cases: &["bind/tcp_foreign_address/", "bind/udp_foreign_address/"],
    },
    Known {
        how: How::Hangs,
        why: "there is no urgent data: what the peer sends as such is lost to the program (docs/posix.md)",
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
];
